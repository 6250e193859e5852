package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func (a *app) vacantAtRootCommand() *cobra.Command {
	var w where
	var none bool
	cmd := &cobra.Command{
		Use:   "root VACANT | root --none",
		Short: "Set which vacant A2A clients find at the host's own address",
		Long: `Set which vacant answers A2A clients that are pointed at the host's own address, without
/v/NAME. Without this command it is the only open vacant, if there is one.`,
		Example: `  vacancy root clerk
  vacancy root --none`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if none == (len(args) == 1) {
				return withHint(problem.New(problem.Usage, "expected a vacant or --none"), "%s --help", cmd.CommandPath())
			}
			var root admin.Root
			if !none {
				root.Vacant = &args[0]
			}
			return a.withAdmin(w, false, func(c *adminAPI) error {
				r, err := admin.SetRoot.Call(cmd.Context(), c, op.Of(root))
				if err != nil {
					return err
				}
				return a.show(rootResult{r})
			})
		},
	}
	cmd.Flags().BoolVar(&none, "none", false, "let no vacant answer there")
	hostFlags(cmd.Flags(), &w)
	return cmd
}

type rootResult struct{ admin.Root }

func (r rootResult) text(w io.Writer) {
	if r.Vacant == nil {
		fmt.Fprintln(w, "no vacant answers at the host's own address")
		return
	}
	fmt.Fprintf(w, "%s answers at the host's own address\n", *r.Vacant)
}
