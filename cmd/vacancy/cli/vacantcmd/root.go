package vacantcmd

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func VacantAtRootCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	var none bool
	cmd := &cobra.Command{
		Use:   "root VACANT | root --none",
		Short: "Set which vacant A2A clients find at the host's own address",
		Long: `Set which vacant answers A2A clients that are pointed at the host's own address, without
/v/NAME. Without this command it is the only open vacant, if there is one.`,
		Example: `  vacancy root clerk
  vacancy root --none`,
		Args: kit.Arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if none == (len(args) == 1) {
				return kit.WithHint(problem.New(problem.Usage, "expected a vacant or --none"), "%s --help", cmd.CommandPath())
			}
			var root admin.Root
			if !none {
				root.Vacant = &args[0]
			}
			return a.WithAdmin(w, false, func(c *kit.AdminAPI) error {
				r, err := admin.SetRoot.Call(cmd.Context(), c, op.Of(root))
				if err != nil {
					return err
				}
				return a.Show(rootResult{r})
			})
		},
	}
	cmd.Flags().BoolVar(&none, "none", false, "let no vacant answer there")
	kit.HostFlags(cmd.Flags(), &w)
	return cmd
}

type rootResult struct{ admin.Root }

func (r rootResult) Print(w io.Writer) {
	if r.Vacant == nil {
		fmt.Fprintln(w, "no vacant answers at the host's own address")
		return
	}
	fmt.Fprintf(w, "%s answers at the host's own address\n", *r.Vacant)
}
