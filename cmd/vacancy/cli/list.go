package cli

import (
	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/shared/front/account"
)

func (a *app) listCommand() *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the vacants of a host",
		Example: `  vacancy list`,
		GroupID: groupHost,
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withControl(data, false, func(c *control) error {
				all := listResult{Vacants: []account.Vacant{}}
				for cursor, more := "", true; more; more = cursor != "" {
					page, err := c.List(cmd.Context(), cursor)
					if err != nil {
						return err
					}
					all.Vacants = append(all.Vacants, page.Vacants...)
					cursor = page.Next
				}
				return a.show(all)
			})
		},
	}
	dataFlag(cmd.Flags(), &data)
	return cmd
}
