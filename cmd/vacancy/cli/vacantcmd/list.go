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
	return kit.Operation[admin.VacantList, admin.VacantPage]{
		Use:   "list",
		Short: "List the vacants of a host",
		Long: `List the vacants of a host: the state, whether it is published, the price of a call, the
calls of today (UTC) as usage counts them, the address for callers, and the capability.`,
		Example: "  vacancy list\n  vacancy list --host aws --stage prod",
		Op:      admin.ListVacants,
		Flags:   func(fs *pflag.FlagSet) { fs.BoolVar(&deleted, "all", false, "also deleted vacants") },
		Request: func(kit.Request) (admin.VacantList, error) { return admin.VacantList{All: deleted}, nil },
		Next: func(in *admin.VacantList, list *admin.VacantPage, page admin.VacantPage) bool {
			list.Vacants, in.Cursor = append(list.Vacants, page.Vacants...), page.Next
			return page.Next != ""
		},
		Object: func(list admin.VacantPage) any {
			type listed struct {
				admin.Vacant
				Address string `json:"address,omitempty"`
			}
			vacants := make([]listed, len(list.Vacants))
			for i, v := range list.Vacants {
				vacants[i] = listed{v, kit.HandoutOf(&v).Address}
			}
			return map[string]any{"vacants": vacants}
		},
		Print: func(w io.Writer, r admin.VacantPage) {
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
				state := kit.PaintedText(kit.State(w, v.State, string(v.State)))
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
