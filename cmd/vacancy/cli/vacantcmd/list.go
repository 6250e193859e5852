package vacantcmd

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
)

func listCommand(a *kit.App) *cobra.Command {
	var deleted bool
	return kit.Operation[admin.VacantList, admin.Page]{
		Use:   "list",
		Short: "List the vacants of a host",
		Long: `List the vacants of a host: the state, whether it is published, the price of a call, the
calls of today (UTC) as usage counts them, the address for callers, and the capability.`,
		Example: "  vacancy list\n  vacancy list --host aws --stage prod",
		Op:      admin.ListVacants,
		Flags:   func(fs *pflag.FlagSet) { fs.BoolVar(&deleted, "all", false, "also deleted vacants") },
		Request: func(kit.Asked) (admin.VacantList, error) { return admin.VacantList{All: deleted}, nil },
		Next: func(in *admin.VacantList, all *admin.Page, page admin.Page) bool {
			all.Vacants, in.Cursor = append(all.Vacants, page.Vacants...), page.Next
			return page.Next != ""
		},
		Object: listObject,
		Print:  printVacants,
	}.Command(a)
}
