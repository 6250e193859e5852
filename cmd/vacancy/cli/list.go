package cli

import (
	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/shared/front/admin"
)

func (a *app) listCommand() *cobra.Command {
	var w where
	var deleted bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the vacants of a host",
		Example: "  vacancy list\n  vacancy list --host aws --stage prod",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withAdmin(w, false, func(c *adminAPI) error {
				all := listResult{Vacants: []admin.Vacant{}}
				for v, err := range c.All(cmd.Context(), deleted) {
					if err != nil {
						return err
					}
					all.Vacants = append(all.Vacants, v)
				}
				return a.show(all)
			})
		},
	}
	cmd.Flags().BoolVar(&deleted, "all", false, "also deleted vacants")
	hostFlags(cmd.Flags(), &w)
	return cmd
}
