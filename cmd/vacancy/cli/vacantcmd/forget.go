package vacantcmd

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func forgetCommand(a *kit.App) *cobra.Command {
	var caller, thread string
	var f admin.Forgetting
	return kit.Operation[admin.VacantRequest[admin.Forgetting], admin.Vacant]{
		Use:   "forget VACANT",
		Short: "Make a vacant's agent forget its past answers",
		Long: `Make the agent of a hosted vacant forget all answers that it has given so far. Only an agent with a
memory (memory: on) remembers answers. --caller selects the answers to one caller, and --context
selects the answers in one thread.

The rows of the calls stay. You can read their texts until the keys of their days are destroyed,
but the agent does not get the texts any more.`,
		Example: `  vacancy forget sage
  vacancy forget sage --context letters`,
		Op: admin.ForgetConversations,
		AddFlags: func(fs *pflag.FlagSet) {
			fs.StringVar(&caller, "caller", "", "the `ID` of the caller")
			fs.StringVar(&thread, "context", "", "the context `ID` of the thread")
		},
		Request: func(q kit.Request) (in admin.VacantRequest[admin.Forgetting], err error) {
			if caller != "" {
				id, err := identity.ParseID(caller)
				if err != nil {
					return in, &problem.Error{Kind: problem.Usage, Field: "--caller", Want: "an id of 64 hex digits", Got: fmt.Sprintf("%.80q", caller)}
				}
				f.Caller = &id
			}
			if thread != "" {
				f.ContextID = &thread
			}
			return admin.NewVacantRequest(q.Args[0], f), nil
		},
		JSONObject: func(v admin.Vacant) any { return forgetResult{v.Name, v.ID, f} },
		Print: func(w io.Writer, v admin.Vacant) {
			callers, in := "all callers", "in every thread"
			if f.Caller != nil {
				callers = f.Caller.String()
			}
			if f.ContextID != nil {
				in = fmt.Sprintf("in the thread %q", kit.Truncate(*f.ContextID, 60))
			}
			fmt.Fprintf(w, "%s has forgotten what it said to %s %s\n", v.Name, callers, kit.EscapeLine(in))
		},
	}.Command(a)
}

type forgetResult struct {
	Name string      `json:"name"`
	ID   identity.ID `json:"vacant_id"`
	admin.Forgetting
}
