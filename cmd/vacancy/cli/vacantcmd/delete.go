package vacantcmd

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

func deleteCommand(a *kit.App) *cobra.Command {
	var yes bool
	cmd := a.AdminCommand(&cobra.Command{
		Use:   "delete VACANT",
		Short: "Delete an archived vacant and its key",
		Long: `Delete an archived vacant: its sealed key, its card and the state of its own calls. After that,
only a key that was exported before ("vacancy export VACANT --host local") can sign as the vacant.

The calls that the vacant received and its logbook stay. The last entry of the logbook records the
deletion. The id is never used again, and calls to it are refused with 410. The name stays
reserved: only the vacant's tenant and the operator may use it again ("vacancy help names"). A
backup of the host's data contains the key for as long as you keep the backup.

If the command is interrupted, run it again to continue. To repeat it later has no effect.`,
		Example: `  vacancy delete demo
  vacancy delete demo --yes
  vacancy delete demo --host aws --stage prod`,
	}, func(ctx context.Context, c *kit.AdminAPI, args []string) error {
		before, err := c.ShowVacant(ctx, args[0])
		if err != nil {
			return err
		}
		// The host refuses to delete a vacant that is not archived, so no confirmation is needed.
		if !yes && before.DeletedAt == "" && before.State.IsRetired() {
			if err := a.AskToConfirm(ctx, fmt.Sprintf("The key of %s will be destroyed, and the host cannot restore it. Type its name to delete it:", before.Name), before.Name); err != nil {
				return kit.WithHint(err, "vacancy delete %s --yes", args[0])
			}
		}
		// Delete by id, because the name may belong to another vacant by now.
		after, err := admin.DeleteVacant.Call(ctx, c, admin.VacantRef{Vacant: before.ID.String()})
		switch {
		case problem.Is(err, problem.Conflict) && before.State.IsRetired() && before.State != lifecycle.Archived:
			return kit.WithHint(err, "vacancy archive %s", before.Name)
		case problem.Is(err, problem.Conflict) && !before.State.IsRetired():
			return kit.WithHint(err, "vacancy sink %s, then vacancy archive %s", before.Name, before.Name)
		case err != nil:
			return err
		}
		return printDeleted(a, after, before.DeletedAt != "")
	})
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return cmd
}

func printDeleted(a *kit.App, v admin.Vacant, wasDeleted bool) error {
	return a.Print(v, func(w io.Writer) {
		if wasDeleted {
			fmt.Fprintf(w, "%s was already deleted, at %s\n", v.Name, v.DeletedAt)
			return
		}
		fmt.Fprintf(w, "%s is deleted\n  its key is destroyed; its calls and its logbook stay; its name stays reserved for its tenant and the operator\n", v.Name)
	})
}
