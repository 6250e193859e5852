// Package childcmd has the commands about composites: children, their manifests and
// graduation, plans, and the gate's settings.
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

func ChildrenCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	cmd := &cobra.Command{
		Use:   "children PARENT",
		Short: "List the children of a vacant, with the outcome of its calls",
		Long: `List the children of a hosted vacant by name, with the path by which each was created,
whether it is closed, and the outcome of its parent's calls.

"Calls" counts all calls that the child accepted from its parent. Of the last 50 decided
calls it shows how many failed, and the median latency of the others (p50, in whole
milliseconds). A child that is asleep, sunk or deleted is not called at all: "cannot
answer" means that its parent's plan runs without it.`,
		Example: `  vacancy children lawfirm
  vacancy children lawfirm --json`,
		Args: kit.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithAdmin(w, false, func(c *kit.AdminAPI) error {
				r := childrenResult{Children: []admin.Child{}}
				for cursor := ""; ; {
					page, err := admin.ListChildren.Call(cmd.Context(), c, admin.ChildList{One: admin.One{Vacant: args[0]}, Cursor: cursor})
					if err != nil {
						return err
					}
					r.Children = append(r.Children, page.Children...)
					if cursor = page.Next; cursor == "" {
						// Pages are ordered by id.
						slices.SortFunc(r.Children, func(a, b admin.Child) int { return strings.Compare(a.Vacant.Name, b.Vacant.Name) })
						return a.Show(r)
					}
				}
			})
		},
	}
	kit.HostFlags(cmd.Flags(), &w)
	return cmd
}

// childrenResult is all children of a vacant.
type childrenResult struct {
	Children []admin.Child `json:"children"`
}

func (r childrenResult) Print(w io.Writer) {
	if len(r.Children) == 0 {
		fmt.Fprintln(w, "no children")
		return
	}
	widest := 4
	for _, c := range r.Children {
		widest = max(widest, len(c.Vacant.Name))
	}
	for _, c := range r.Children {
		handler, does := "open", kit.Printable(kit.Clip(c.Vacant.Capability, 60))
		switch {
		case c.Graduated:
			handler = "graduated"
		case c.Closed:
			handler = "closed"
		}
		if c.Vacant.Deleted != "" {
			does = "(deleted)"
		} else if c.UnavailableReason != "" {
			does = "cannot answer: " + kit.Printable(c.UnavailableReason) + "  " + does
		}
		took := "-"
		if c.MedianMS != nil {
			took = fmt.Sprintf("%d ms", *c.MedianMS)
		}
		fmt.Fprintf(w, "%-*s  %s  %-9s  %-11s  %d calls, %s, p50 %s  %s\n",
			widest, c.Vacant.Name, kit.Printable(string(c.Path)), handler, c.Vacant.State, c.Calls, failed(&c), took, does)
	}
}

// failed is the share of the recent calls without an answer.
func failed(c *admin.Child) string {
	if uint64(c.Decided) < c.Calls {
		return fmt.Sprintf("%d of the last %d failed", c.Failures, c.Decided)
	}
	return fmt.Sprintf("%d failed", c.Failures)
}
