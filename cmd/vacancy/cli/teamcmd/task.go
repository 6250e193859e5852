// Package teamcmd has the commands about teams of agents.
package teamcmd

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/teamapi"
	"github.com/vacancy-host/vacancy/shared/host/team"
)

// teamAPI is the API of teams: of the account of the key in the environment, or else of the operator.
type teamAPI struct{ kit.HostAPI }

// With implements kit.API.
func (t *teamAPI) With(ctx context.Context, a *kit.App, _ kit.Asked, f func(op.Client) error) error {
	return With(ctx, a, t.Where, func(c op.Client, _ bool) error { return f(c) })
}

// With runs f with a client of the API of teams. operator says that the client is the operator's.
func With(ctx context.Context, a *kit.App, w kit.Where, f func(c op.Client, operator bool) error) error {
	if a.Env[kit.AccountKeyEnv] != "" {
		return a.WithAccount(ctx, w, "", func(c op.Client, _ account.One) error { return f(c, false) })
	}
	return a.WithAdmin(w, false, func(c *kit.AdminAPI) error {
		if c.InProcess {
			return a.NoHost(w.Data)
		}
		return f(c, true)
	})
}

// ofTeam is an operation of teams as an operation of a command.
func ofTeam[In, Out any](t op.Twin[In, Out]) kit.Caller[In, Out] {
	return kit.CallerFunc[In, Out](func(ctx context.Context, c op.Client, in In) (Out, error) {
		_, operator := c.(*kit.AdminAPI)
		return t.For(operator).Call(ctx, c, in)
	})
}

// TaskCommand returns the command of tasks.
func TaskCommand(a *kit.App) *cobra.Command {
	var list teamapi.TaskList
	return a.Parent(&cobra.Command{
		Use:   "task",
		Short: "Manage tasks that were dispatched to agents",
		Long: `Manage tasks that were dispatched to agents by "vacancy run" or by a client of MCP. The tasks are those of
the account of the key in $VACANCY_KEY, which needs the scope agents, or without a key the operator's own.`,
		Example: "  vacancy task list\n  vacancy task show 0123456789abcdef0123456789abcdef",
	},
		kit.Operation[teamapi.TaskList, teamapi.Tasks]{
			Use: "list", Short: "List tasks, the newest first", Example: "  vacancy task list --state working --agent writer",
			Op: ofTeam(teamapi.ListTasks), API: &teamAPI{},
			Flags: func(f *pflag.FlagSet) {
				f.StringVar(&list.State, "state", "", "only tasks in this state, such as working")
				f.StringVar(&list.Agent, "agent", "", "only tasks of this agent")
			},
			Request: func(kit.Asked) (teamapi.TaskList, error) { return list, nil },
			Next: func(in *teamapi.TaskList, all *teamapi.Tasks, page teamapi.Tasks) bool {
				all.Tasks, in.Cursor = append(all.Tasks, page.Tasks...), page.Next
				return page.Next != ""
			},
			Object: func(all teamapi.Tasks) any {
				return map[string]any{"tasks": append([]team.Status{}, all.Tasks...)} // [] if empty
			},
			Print: func(w io.Writer, all teamapi.Tasks) {
				kit.Table(w, "no tasks", all.Tasks, func(s team.Status) []any { return []any{s.TaskID, s.Status, s.Agent, s.Mode} })
			},
		}.Command(a),
		kit.Operation[teamapi.Waiting, teamapi.Task]{
			Use: "show TASK", Short: "Show a task, with its result once it has one", Example: "  vacancy task show 0123456789abcdef0123456789abcdef",
			Op: ofTeam(teamapi.ShowTask), API: &teamAPI{},
			Request: func(q kit.Asked) (in teamapi.Waiting, err error) {
				in.ID = q.Args[0]
				return in, nil
			},
			Print: func(w io.Writer, t teamapi.Task) { printStatus(a, w, &t.Status) },
		}.Command(a),
		kit.Operation[teamapi.OneTask, team.Status]{
			Use: "cancel TASK", Short: "Cancel a task", Example: "  vacancy task cancel 0123456789abcdef0123456789abcdef",
			Op: ofTeam(teamapi.CancelTask), API: &teamAPI{},
			Request: func(q kit.Asked) (teamapi.OneTask, error) { return teamapi.OneTask{ID: q.Args[0]}, nil },
			Print:   func(w io.Writer, s team.Status) { printStatus(a, w, &s) },
		}.Command(a),
		kit.Operation[teamapi.Answering, team.Status]{
			Use: "answer TASK TEXT", Short: "Answer the question of a task", Example: "  vacancy task answer 0123456789abcdef0123456789abcdef \"the second one\"",
			Op: ofTeam(teamapi.AnswerTask), API: &teamAPI{},
			Request: func(q kit.Asked) (teamapi.Answering, error) {
				return teamapi.Answering{OneTask: teamapi.OneTask{ID: q.Args[0]}, Body: teamapi.Answer{Text: q.Args[1]}}, nil
			},
			Print: func(w io.Writer, s team.Status) { printStatus(a, w, &s) },
		}.Command(a),
	)
}

// printStatus prints a task for people.
func printStatus(a *kit.App, w io.Writer, s *team.Status) {
	fmt.Fprintf(w, "%s  %s by %s, %s\n", s.TaskID, s.Status, kit.Printable(s.Agent), s.Mode)
	kit.Members(w, "question", kit.Printable(s.Question), "error", kit.Printable(s.Error), "warning", s.Warnings)
	if s.Result != nil {
		kit.Members(w, "files", s.Result.Artifacts)
		fmt.Fprintln(w, a.AnswerText(s.Result.Response))
	}
}
