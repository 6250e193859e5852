package vacantcmd

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func ForgetCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	var caller, thread string
	cmd := &cobra.Command{
		Use:   "forget VACANT",
		Short: "Let a vacant's agent forget what was said",
		Long: `Let the agent of a hosted vacant, if it remembers (memory: on), forget all that it has
answered by now: to everybody, or with --caller to one caller, with --context in one
thread. The rows stay; their texts can be read until their days' keys are destroyed, but
not by the agent.`,
		Example: `  vacancy forget sage
  vacancy forget sage --context letters`,
		Args: kit.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var f admin.Forgetting
			if caller != "" {
				id, err := identity.ParseID(caller)
				if err != nil {
					return &problem.Error{Kind: problem.Usage, Field: "--caller", Want: "an id of 64 hex digits", Got: fmt.Sprintf("%.80q", caller)}
				}
				f.Caller = &id
			}
			if thread != "" {
				f.ContextID = &thread
			}
			return a.WithAdmin(w, false, func(c *kit.AdminAPI) error {
				v, err := admin.ForgetThread.Call(cmd.Context(), c, admin.About(args[0], f))
				if err != nil {
					return err
				}
				return a.Show(forgetResult{v.Name, v.ID, f})
			})
		},
	}
	cmd.Flags().StringVar(&caller, "caller", "", "the `ID` of the caller")
	cmd.Flags().StringVar(&thread, "context", "", "the context `ID` of the thread")
	kit.HostFlags(cmd.Flags(), &w)
	return cmd
}

// forgetResult is what an agent has forgotten.
type forgetResult struct {
	Name string      `json:"name"`
	ID   identity.ID `json:"vacant_id"`
	admin.Forgetting
}

func (r forgetResult) Print(w io.Writer) {
	of, in := "everybody", "in every thread"
	if r.Caller != nil {
		of = r.Caller.String()
	}
	if r.ContextID != nil {
		in = fmt.Sprintf("in the thread %q", kit.Clip(*r.ContextID, 60))
	}
	fmt.Fprintf(w, "%s has forgotten what it said to %s %s\n", r.Name, of, kit.Printable(in))
}
