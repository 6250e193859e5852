// Package teamcmd contains the commands for teams of agents.
package teamcmd

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/teamapi"
	"github.com/vacancy-host/vacancy/shared/host/team"
)

// API connects commands to the host's API for teams and files.
type API struct {
	kit.HostAPI
	AllowInProcess bool // if no host is running, the command opens the host's data itself
}

// WithClient runs f with a client of the API. The client acts for the account of the key in the
// environment, or for the operator if the environment has no key.
func (api *API) WithClient(ctx context.Context, a *kit.App, _ kit.Request, f func(op.Client) error) error {
	if a.Env[kit.AccountKeyEnv] != "" {
		base, err := a.AgentURL(ctx, api.Where)
		if err != nil {
			return err
		}
		return a.WithAccountKey(base, f)
	}
	return a.WithAdmin(api.Where, false, func(c *kit.AdminAPI) error {
		if c.InProcess && !api.AllowInProcess {
			return a.NoHostError(api.Where.Data)
		}
		return f(c)
	})
}

func WithClient(ctx context.Context, a *kit.App, where kit.HostFlags, f func(op.Client) error) error {
	return (&API{HostAPI: kit.HostAPI{Where: where}}).WithClient(ctx, a, kit.Request{}, f)
}

// CallFunc returns a function that calls the operator's form of an operation if the client is a
// *kit.AdminAPI, and otherwise the form for account keys.
func CallFunc[In, Out any](twin op.Twin[In, Out]) kit.CallerFunc[In, Out] {
	return func(ctx context.Context, c op.Client, in In) (Out, error) {
		_, isOperator := c.(*kit.AdminAPI)
		return twin.For(isOperator).Call(ctx, c, in)
	}
}

func TaskCommand(a *kit.App) *cobra.Command {
	var list teamapi.TaskList
	var steps bool
	return a.ParentCommand(&cobra.Command{
		Use:   "task",
		Short: "Manage tasks that were dispatched to agents",
		Long: `Manage tasks that were dispatched to agents by "vacancy run" or by an MCP client. If $VACANCY_KEY
contains a key, these are the tasks of its account. The key needs the scopes agents and read. If
there is no key, these are the tasks of the operator.`,
		Example: "  vacancy task list\n  vacancy task show 0123456789abcdef0123456789abcdef",
	},
		kit.Operation[teamapi.TaskList, teamapi.Tasks]{
			Use: "list", Short: "List tasks, the newest first", Example: "  vacancy task list --state working --agent writer",
			Op: CallFunc(teamapi.ListTasks), API: &API{},
			AddFlags: func(f *pflag.FlagSet) {
				f.StringVar(&list.State, "state", "", "only tasks in this state: pending, working, input_required, completed, failed or cancelled")
				f.StringVar(&list.Agent, "agent", "", "only tasks of this agent")
			},
			Request: func(kit.Request) (teamapi.TaskList, error) { return list, nil },
			AppendPage: func(in *teamapi.TaskList, tasks *teamapi.Tasks, page teamapi.Tasks) bool {
				tasks.Tasks, in.Cursor = append(tasks.Tasks, page.Tasks...), page.Next
				return page.Next != ""
			},
			JSONObject: func(tasks teamapi.Tasks) any {
				return map[string]any{"tasks": append([]team.Status{}, tasks.Tasks...)} // [] if empty
			},
			Print: func(w io.Writer, tasks teamapi.Tasks) {
				kit.PrintTable(w, "no tasks", tasks.Tasks, func(s team.Status) []any { return []any{s.TaskID, s.Status, s.Agent, s.Mode} })
			},
		}.Command(a),
		kit.Operation[teamapi.ShowTaskRequest, teamapi.Task]{
			Use: "show TASK", Short: "Show a task and its result", Example: "  vacancy task show 0123456789abcdef0123456789abcdef",
			Op: CallFunc(teamapi.ShowTask), API: &API{},
			AddFlags: func(f *pflag.FlagSet) {
				f.BoolVar(&steps, "steps", false, "show thoughts and tool calls, if the agent is your own")
			},
			Request: func(q kit.Request) (teamapi.ShowTaskRequest, error) {
				return teamapi.ShowTaskRequest{TaskRef: teamapi.TaskRef{ID: q.Args[0]}, Steps: steps}, nil
			},
			Print: func(w io.Writer, t teamapi.Task) {
				for _, s := range t.Steps {
					text := kit.EscapeControls(s.Thought, "\n\t")
					if c := s.Tool; c != nil {
						text = strings.TrimSpace(fmt.Sprintf("%s %s %s", kit.EscapeLine(c.Name), kit.EscapeLine(c.Arguments), c.Outcome))
					}
					fmt.Fprintf(w, "%s  %s\n", s.Time.Format(time.TimeOnly), text)
				}
				printStatus(w, t.Status)
			},
		}.Command(a),
		kit.Operation[teamapi.TaskRef, team.Status]{
			Use: "cancel TASK", Short: "Cancel a task", Example: "  vacancy task cancel 0123456789abcdef0123456789abcdef",
			Op: CallFunc(teamapi.CancelTask), API: &API{},
			Request: func(q kit.Request) (teamapi.TaskRef, error) { return teamapi.TaskRef{ID: q.Args[0]}, nil },
			Print:   printStatus,
		}.Command(a),
		kit.Operation[teamapi.AnswerRequest, team.Status]{
			Use: "answer TASK TEXT", Short: "Answer the question of a task", Example: "  vacancy task answer 0123456789abcdef0123456789abcdef \"the second one\"",
			Op: CallFunc(teamapi.AnswerTask), API: &API{},
			Request: func(q kit.Request) (teamapi.AnswerRequest, error) {
				return teamapi.AnswerRequest{TaskRef: teamapi.TaskRef{ID: q.Args[0]}, Body: teamapi.Answer{Text: q.Args[1]}}, nil
			},
			Print: printStatus,
		}.Command(a),
	)
}

func printStatus(w io.Writer, s team.Status) {
	fmt.Fprintf(w, "task %s is %s\n", kit.EscapeLine(s.TaskID), kit.EscapeLine(s.Status))
	kit.PrintFields(w, "agent", s.Agent, "mode", s.Mode, "question", s.Question, "error", s.Error, "warning", s.Warnings)
	if s.Lock != nil {
		kit.PrintFields(w, "lock", s.Lock.Paths)
	}
	if s.Result != nil {
		kit.PrintFields(w, "file", s.Result.Artifacts)
		fmt.Fprintln(w, kit.EscapeControls(s.Result.Response, "\n\t"))
	}
}
