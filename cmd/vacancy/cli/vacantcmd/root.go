package vacantcmd

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func rootVacantCommand(a *kit.App) *cobra.Command {
	var none bool
	cmd := kit.Operation[op.Body[admin.Root], admin.Root]{
		Use:   "root VACANT | root --none",
		Short: "Set which vacant A2A clients find at the host's own address",
		Long: `Set which vacant answers A2A clients at the host's own address, the URL without /v/NAME. By default
this is the only open vacant, if the host has exactly one.`,
		Example: `  vacancy root clerk
  vacancy root --none`,
		Op: admin.SetRoot,
		AddFlags: func(fs *pflag.FlagSet) {
			fs.BoolVar(&none, "none", false, "let no vacant answer at the host's own address")
		},
		Request: func(q kit.Request) (in op.Body[admin.Root], err error) {
			if none == (len(q.Args) == 1) {
				return in, kit.WithHint(problem.New(problem.Usage, "expected a vacant or --none"), "%s --help", q.Command)
			}
			if !none {
				in.Body.Vacant = &q.Args[0]
			}
			return in, nil
		},
		Print: func(w io.Writer, r admin.Root) {
			vacant := "no vacant"
			if r.Vacant != nil {
				vacant = *r.Vacant
			}
			fmt.Fprintf(w, "%s answers at the host's own address\n", vacant)
		},
	}.Command(a)
	cmd.Args = kit.ArgumentCheck(0, 1)
	return cmd
}
