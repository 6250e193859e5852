package vacantcmd

import (
	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
)

func ListCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	var deleted bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the vacants of a host",
		Example: "  vacancy list\n  vacancy list --host aws --stage prod",
		Args:    kit.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithAdmin(w, false, func(c *kit.AdminAPI) error {
				all := listResult{Vacants: []admin.Vacant{}}
				for v, err := range c.All(cmd.Context(), deleted) {
					if err != nil {
						return err
					}
					all.Vacants = append(all.Vacants, v)
				}
				return a.Show(all)
			})
		},
	}
	cmd.Flags().BoolVar(&deleted, "all", false, "also deleted vacants")
	kit.HostFlags(cmd.Flags(), &w)
	return cmd
}
