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

// stateChange is a command that changes a vacant's state.
type stateChange struct {
	verb, short, long string
	to                op.Op[admin.One, admin.Vacant]
	question          string // asked first, if not empty; %s is the name
}

// stateCommands are the commands that change the state of a vacant.
func stateCommands(a *kit.App) (commands []*cobra.Command) {
	for _, s := range []stateChange{
		{verb: "pause", to: admin.PauseVacant, short: "Put a vacant to sleep",
			long: "Put a vacant to sleep: its state becomes HIBERNATING and calls are refused with 423\nuntil it is resumed."},
		{verb: "resume", to: admin.ResumeVacant, short: "Wake a vacant",
			long: "Wake a vacant that sleeps: its state becomes ACTIVE and it takes calls."},
		{verb: "sink", to: admin.SinkVacant, short: "Close a vacant for good",
			long:     "Close a vacant for good: its state becomes SUNK, calls are refused with 410, and there\nis no way back. What it said stays on record.",
			question: "%s will never take a call again. Type its name to sink it:"},
		{verb: "archive", to: admin.ArchiveVacant, short: "Put a sunk vacant away",
			long:     "Archive a sunk vacant: its state becomes ARCHIVED, which is final.",
			question: "%s will be archived, and can only be deleted then. Type its name:"},
	} {
		commands = append(commands, stateCommand(a, s))
	}
	return commands
}

func stateCommand(a *kit.App, s stateChange) *cobra.Command {
	var w kit.Where
	var yes bool
	example := fmt.Sprintf("  vacancy %s demo", s.verb)
	if s.question != "" {
		example += fmt.Sprintf("\n  vacancy %s demo --yes", s.verb)
	}
	cmd := &cobra.Command{
		Use:   s.verb + " VACANT",
		Short: s.short,
		Long: s.long + `

The change is an entry in the vacant's logbook, signed by its key. A vacant that is
in the state already is left alone.`,
		Example: example,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithAdmin(w, false, func(c *kit.AdminAPI) error {
				return changeState(a, cmd.Context(), c, s, args[0], yes)
			})
		},
	}
	if s.question != "" {
		cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	}
	kit.HostFlags(cmd.Flags(), &w)
	return cmd
}

func changeState(a *kit.App, ctx context.Context, c *kit.AdminAPI, s stateChange, what string, yes bool) error {
	before, err := c.Show(ctx, what)
	if err != nil {
		return err
	}
	if s.question != "" && !yes {
		if err := a.Ask(ctx, fmt.Sprintf(s.question, before.Name), before.Name); err != nil {
			return kit.WithHint(err, "vacancy %s %s --yes", s.verb, what)
		}
	}
	// By id: the name was shown, and must not be resolved again.
	after, err := s.to.Call(ctx, c, admin.One{Vacant: before.ID.String()})
	if err != nil {
		return err
	}
	return a.Show(stateResult{after})
}

// stateResult is a vacant after a change of state.
type stateResult struct{ admin.Vacant }

func (r stateResult) Print(w io.Writer) { fmt.Fprintf(w, "%s is %s\n", r.Name, r.State) }
