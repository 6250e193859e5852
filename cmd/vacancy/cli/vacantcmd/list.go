package vacantcmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
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
		Object: func(all admin.Page) any {
			type listed struct {
				admin.Vacant
				Address string `json:"address,omitempty"`
			}
			vacants := make([]listed, len(all.Vacants))
			for i, v := range all.Vacants {
				vacants[i] = listed{v, kit.HandoutOf(&v).Address}
			}
			return map[string]any{"vacants": vacants}
		},
		Print: func(w io.Writer, r admin.Page) {
			if len(r.Vacants) == 0 {
				fmt.Fprintln(w, "no vacants")
				return
			}
			rows := [][]any{{"NAME", "STATE", "PUBLISHED", "PRICE", "TODAY", "ADDRESS", "CAPABILITY"}}
			states := map[lifecycle.State]bool{}
			var idle []string
			for i := range r.Vacants {
				v := &r.Vacants[i]
				states[v.State] = true
				state := kit.Painted(kit.State(w, v.State, string(v.State)))
				if v.Deleted != "" {
					rows = append(rows, []any{v.Name, state, "", "", "", "", "(deleted, " + v.ID.Short() + ")"})
					continue
				}
				if v.NoWorker {
					idle = append(idle, v.Name)
				}
				rows = append(rows, []any{v.Name, state, publishedText(v.Published), shortPrice(v.Price), callsText(v.CallsToday), kit.HandoutOf(v).Address, kit.Clip(v.Capability, 40)})
			}
			for _, line := range kit.Columns(rows...) {
				fmt.Fprintln(w, kit.Fit(w, line))
			}
			fmt.Fprintln(w)
			if len(idle) > 0 {
				fmt.Fprintf(w, "warning: no worker connected: %s\n", strings.Join(idle, ", "))
			}
			for _, s := range lifecycle.States() {
				if states[s] {
					fmt.Fprintf(w, "%s: %s\n", s, stateMeaning(s))
				}
			}
		},
	}.Command(a)
}
