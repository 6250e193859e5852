package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/shared/front/account"
)

func (a *app) childrenCommand() *cobra.Command {
	var w where
	cmd := &cobra.Command{
		Use:   "children PARENT",
		Short: "Show the children of a vacant, and how its calls to them went",
		Long: `Show the children of a hosted vacant: by which path each came to be, whether it is
closed, and of the parent's newest calls to it how many there were, how many failed
and how long one of them took that is in the middle.`,
		Example: `  vacancy children lawfirm
  vacancy children lawfirm --json`,
		GroupID: groupHost,
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withControl(w, false, func(c *control) error {
				r := childrenResult{Children: []account.Child{}}
				for cursor := ""; ; {
					page, err := c.Children(cmd.Context(), args[0], cursor)
					if err != nil {
						return err
					}
					r.Children = append(r.Children, page.Children...)
					if cursor = page.Next; cursor == "" {
						return a.show(r)
					}
				}
			})
		},
	}
	hostFlags(cmd.Flags(), &w)
	return cmd
}

// childrenResult is all children of a vacant.
type childrenResult struct {
	Children []account.Child `json:"children"`
}

func (r childrenResult) text(w io.Writer) {
	if len(r.Children) == 0 {
		fmt.Fprintln(w, "no children")
		return
	}
	widest := 4
	for _, c := range r.Children {
		widest = max(widest, len(c.Vacant.Name))
	}
	for _, c := range r.Children {
		door := "open"
		switch {
		case c.Graduated:
			door = "graduated"
		case c.Closed:
			door = "closed"
		}
		took := "-"
		if c.P50 != nil {
			took = "under 0.1 ms"
			if *c.P50 >= 0.1 {
				took = fmt.Sprintf("%.1f ms", *c.P50)
			}
		}
		fmt.Fprintf(w, "%-*s  %s  %-9s  %-11s  %d calls, %s, p50 %s  %s\n",
			widest, c.Vacant.Name, printable(string(c.Path)), door, c.Vacant.State, c.Calls, failed(&c), took, printable(clip(c.Vacant.Capability, 60)))
	}
}

// failed says how many of the calls that were looked at got no answer.
func failed(c *account.Child) string {
	if uint64(c.Decided) < c.Calls {
		return fmt.Sprintf("%d of the last %d failed", c.Failures, c.Decided)
	}
	return fmt.Sprintf("%d failed", c.Failures)
}
