package vacantcmd

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
)

func stateCommands(a *kit.App) (commands []*cobra.Command) {
	for _, s := range []struct {
		verb, short, long string
		to                op.Op[admin.VacantRef, admin.Vacant]
		question          string // asked before the change unless it is ""; %s is the vacant's name
	}{
		{verb: "pause", to: admin.PauseVacant, short: "Pause a vacant: calls are refused until it is resumed",
			long: "Pause a vacant: its state becomes HIBERNATING, and calls are refused with 423 until it\nis resumed."},
		{verb: "resume", to: admin.ResumeVacant, short: "Resume a paused vacant",
			long: "Resume a paused vacant: its state becomes ACTIVE, and it takes calls again."},
		{verb: "sink", to: admin.SinkVacant, short: "Close a vacant for good",
			long:     "Close a vacant for good: its state becomes SUNK, calls are refused with 410, and it\ncannot be opened again. Its past calls stay on record.",
			question: "%s will never take a call again. Type its name to sink it:"},
		{verb: "archive", to: admin.ArchiveVacant, short: "Archive a sunk vacant, so that it can be deleted",
			long:     "Archive a sunk vacant: its state becomes ARCHIVED, which is final.",
			question: "%s will be archived; after that it can only be deleted. Type its name:"},
	} {
		var yes bool
		example := fmt.Sprintf("  vacancy %s demo", s.verb)
		if s.question != "" {
			example += fmt.Sprintf("\n  vacancy %s demo --yes", s.verb)
		}
		cmd := a.AdminCommand(&cobra.Command{
			Use:   s.verb + " VACANT",
			Short: s.short,
			Long: s.long + `

The vacant's logbook records the change, signed by the vacant's key. If the vacant is already in
that state, the command changes nothing.`,
			Example: example,
		}, func(ctx context.Context, c *kit.AdminAPI, args []string) error {
			before, err := c.ShowVacant(ctx, args[0])
			if err != nil {
				return err
			}
			if s.question != "" && !yes {
				if err := a.AskToConfirm(ctx, fmt.Sprintf(s.question, before.Name), before.Name); err != nil {
					return kit.WithHint(err, "vacancy %s %s --yes", s.verb, args[0])
				}
			}
			// Use the id, because the name may belong to another vacant by now.
			after, err := s.to.Call(ctx, c, admin.VacantRef{Vacant: before.ID.String()})
			if err != nil {
				return err
			}
			return a.Print(after, func(w io.Writer) {
				fmt.Fprintf(w, "%s is %s\n", after.Name, kit.PaintState(w, after.State, string(after.State)))
			})
		})
		if s.question != "" {
			cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
		}
		commands = append(commands, cmd)
	}
	return commands
}
