package vacantcmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

func removeCommand(a *kit.App) *cobra.Command {
	var yes bool
	cmd := a.AdminCommand(&cobra.Command{
		Use:   "remove VACANT",
		Short: "End a vacant: sink, archive and delete it",
		Long: `End a vacant in one step: sink it, archive it and delete its key. It takes no more calls. The calls
that it received and its logbook stay, as "vacancy delete" says. Its name stays reserved: only its
tenant and the operator may use it again ("vacancy help names"). If the command is interrupted, run
it again to continue.`,
		Example: `  vacancy remove demo
  vacancy remove demo --yes`,
	}, func(ctx context.Context, c *kit.AdminAPI, args []string) error {
		before, err := c.ShowVacant(ctx, args[0])
		if err != nil {
			return err
		}
		if before.DeletedAt != "" {
			return printDeleted(a, before, true)
		}
		if !yes {
			question := fmt.Sprintf("%s will never take a call again, and its key will be destroyed; its history stays. Type its name to remove it:", before.Name)
			if err := a.AskToConfirm(ctx, question, before.Name); err != nil {
				return kit.WithHint(err, "vacancy remove %s --yes", args[0])
			}
		}
		// Use the id, because the name may belong to another vacant by now.
		id, v := before.ID.String(), before
		for _, step := range []struct {
			due bool
			do  func() (admin.Vacant, error)
		}{
			{!v.State.IsRetired(), func() (admin.Vacant, error) { return admin.SinkVacant.Call(ctx, c, admin.VacantRef{Vacant: id}) }},
			{v.State != lifecycle.Archived, func() (admin.Vacant, error) { return admin.ArchiveVacant.Call(ctx, c, admin.VacantRef{Vacant: id}) }},
			{true, func() (admin.Vacant, error) { return admin.DeleteVacant.Call(ctx, c, admin.VacantRef{Vacant: id}) }},
		} {
			if !step.due {
				continue
			}
			if v, err = step.do(); err != nil {
				return err
			}
		}
		return printDeleted(a, v, false)
	})
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return cmd
}
