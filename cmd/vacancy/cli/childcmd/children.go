// Package childcmd implements the commands for composites, which are vacants that delegate calls to
// their children. A closed child becomes public when it graduates. The gate decides whether a child
// may graduate.
package childcmd

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
)

// Group contains the commands for composites.
var Group = kit.Group{
	Topic: "composites",
	Title: "Children and composites:",
	Commands: func(a *kit.App) []*cobra.Command {
		return []*cobra.Command{
			spawnCommand(a), childrenCommand(a), manifestCommand(a), planCommand(a), graduateCommand(a), gateCommand(a),
		}
	},
}

func childrenCommand(a *kit.App) *cobra.Command {
	return kit.Operation[admin.ChildrenRequest, admin.Children]{
		Use:   "children PARENT",
		Short: "List the children of a vacant, with the outcome of its calls",
		Long: `List the children of a hosted vacant by name. Each line shows the path by which the child was created,
whether the child is closed, and the outcome of its parent's calls.

"calls" counts all calls that the child accepted from its parent. For the last 50 decided calls, the
line shows how many failed, and the median latency of the others (p50, in whole milliseconds). A child
that is asleep, sunk or deleted gets no calls. "cannot answer" means that its parent's plan runs
without the child.`,
		Example: `  vacancy children lawfirm
  vacancy children lawfirm --json`,
		Op: admin.ListChildren,
		Request: func(q kit.Request) (admin.ChildrenRequest, error) {
			return admin.ChildrenRequest{VacantRef: admin.VacantRef{Vacant: q.Args[0]}}, nil
		},
		AppendPage: func(in *admin.ChildrenRequest, list *admin.Children, page admin.Children) bool {
			list.Children, in.Cursor = append(list.Children, page.Children...), page.Next
			return page.Next != ""
		},
		JSONObject: func(list admin.Children) any { return map[string]any{"children": sortByName(list)} },
		Print: func(w io.Writer, list admin.Children) {
			rows := make([][]any, len(list.Children))
			for i, c := range sortByName(list) {
				access, description := "open", kit.Truncate(c.Vacant.Capability, 60)
				switch {
				case c.Graduated:
					access = "graduated"
				case c.Closed:
					access = "closed"
				}
				if c.Vacant.DeletedAt != "" {
					description = "(deleted)"
				} else if c.UnavailableReason != "" {
					description = "cannot answer: " + c.UnavailableReason + "  " + description
				}
				failures := fmt.Sprintf("%d failed", c.FailedCalls)
				if uint64(c.DecidedCalls) < c.Calls {
					failures = fmt.Sprintf("%d of the last %d failed", c.FailedCalls, c.DecidedCalls)
				}
				medianLatency := "-"
				if c.MedianLatencyMS != nil {
					medianLatency = fmt.Sprintf("%d ms", *c.MedianLatencyMS)
				}
				state := kit.PaintedText(kit.PaintState(w, c.Vacant.State, string(c.Vacant.State)))
				rows[i] = []any{c.Vacant.Name, c.Path, access, state, fmt.Sprintf("%d calls, %s, p50 %s", c.Calls, failures, medianLatency), description}
			}
			if len(rows) == 0 {
				fmt.Fprintln(w, "no children")
			}
			for _, line := range kit.FormatColumns(rows...) {
				fmt.Fprintln(w, kit.FitLine(w, line))
			}
		},
	}.Command(a)
}

// sortByName returns the children of all pages by name, and never nil.
func sortByName(list admin.Children) []admin.Child {
	children := append([]admin.Child{}, list.Children...)
	slices.SortFunc(children, func(a, b admin.Child) int { return strings.Compare(a.Vacant.Name, b.Vacant.Name) })
	return children
}
