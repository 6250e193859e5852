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
	var includeDeleted bool
	return kit.Operation[admin.ListVacantsRequest, admin.VacantPage]{
		Use:   "list",
		Short: "List the vacants of a host",
		Long: `List the vacants of a host, with the state, whether the vacant is published, the price of a call,
the calls of today (UTC), the address for callers, and the capability. Calls are counted as in
"vacancy usage".`,
		Example:  "  vacancy list\n  vacancy list --host aws --stage prod",
		Op:       admin.ListVacants,
		AddFlags: func(fs *pflag.FlagSet) { fs.BoolVar(&includeDeleted, "all", false, "include deleted vacants") },
		Request: func(kit.Request) (admin.ListVacantsRequest, error) {
			return admin.ListVacantsRequest{All: includeDeleted}, nil
		},
		AppendPage: func(in *admin.ListVacantsRequest, list *admin.VacantPage, page admin.VacantPage) bool {
			list.Vacants, in.Cursor = append(list.Vacants, page.Vacants...), page.Next
			return page.Next != ""
		},
		JSONObject: func(list admin.VacantPage) any {
			type listedVacant struct {
				admin.Vacant
				Address string `json:"address,omitempty"`
			}
			vacants := make([]listedVacant, len(list.Vacants))
			for i, v := range list.Vacants {
				vacants[i] = listedVacant{v, kit.HandoutOf(&v).Address}
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
			var withoutWorker []string
			for i := range r.Vacants {
				v := &r.Vacants[i]
				states[v.State] = true
				state := kit.PaintedText(kit.PaintState(w, v.State, string(v.State)))
				if v.DeletedAt != "" {
					rows = append(rows, []any{v.Name, state, "", "", "", "", "(deleted, " + v.ID.Short() + ")"})
					continue
				}
				if v.NoWorker {
					withoutWorker = append(withoutWorker, v.Name)
				}
				rows = append(rows, []any{v.Name, state, formatVisibility(v.Published), formatMaxPrice(v.Price), formatCallCount(v.CallsToday), kit.HandoutOf(v).Address, kit.Truncate(v.Capability, 40)})
			}
			for _, line := range kit.FormatColumns(rows...) {
				fmt.Fprintln(w, kit.FitLine(w, line))
			}
			fmt.Fprintln(w)
			if len(withoutWorker) > 0 {
				fmt.Fprintf(w, "warning: no worker connected: %s\n", strings.Join(withoutWorker, ", "))
			}
			for _, s := range lifecycle.States() {
				if states[s] {
					fmt.Fprintf(w, "%s: %s\n", s, describeState(s))
				}
			}
		},
	}.Command(a)
}
