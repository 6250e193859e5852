package teamcmd

import (
	"context"
	"crypto/rand"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/teamapi"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/team"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// runFlags are the flags of run.
type runFlags struct {
	goal, context, plan string
	budget              string
	maxTurns            int64
	follow, interactive bool
	where               kit.Where
	task                teamapi.NewTask
}

// RunCommand returns the command that gives an agent a task.
func RunCommand(a *kit.App) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run AGENT [GOAL]",
		Short: "Give an agent a task and wait for the result",
		Long: `Give an agent a task, and print the result once it has one. The agent is a vacant of your own, by name, or a
published one by id. The task is GOAL or --goal, followed by the text of the --plan and --context files.

The task goes on if this command ends: "vacancy task show" prints the result later. With --interactive you answer
the agent's questions here; without it, the command ends with the first question, and "vacancy task answer"
answers it.

The account of the key in $VACANCY_KEY pays, which needs the scope agents. Without a key, the operator of the host
dispatches to vacants without a tenant and without a price.`,
		Example: `  vacancy run writer "Summarize docs/plan.md"
  vacancy run writer --plan plan.md --mode read-only --max-turns 8
  vacancy run writer "Draft an answer" --interactive`,
		Args: kit.Arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				if f.goal != "" {
					return problem.New(problem.Usage, "--goal: not supported together with GOAL")
				}
				f.goal = args[1]
			}
			f.task.Agent = args[0]
			if cmd.Flags().Changed("max-turns") {
				f.task.MaxTurns = &f.maxTurns
			}
			if err := f.complete(); err != nil {
				return err
			}
			return With(cmd.Context(), a, f.where, func(c op.Client, operator bool) error { return f.run(cmd.Context(), a, c, operator) })
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.goal, "goal", "", "what to do")
	fs.StringVar(&f.context, "context", "", "a file with what the agent should know")
	fs.StringVar(&f.plan, "plan", "", "a file with the plan to carry out")
	fs.StringVar(&f.task.Mode, "mode", "", "read-write or read-only")
	fs.StringVar(&f.task.Model, "model", "", "another model")
	fs.Int64Var(&f.maxTurns, "max-turns", 0, "the most turns of the model")
	fs.StringVar(&f.budget, "budget", "", "the most that the task may cost, in dollars")
	fs.StringVar(&f.task.Effort, "effort", "", "how much the model thinks: low, medium or high")
	fs.StringVar(&f.task.OutputFormat, "output-format", "", "text or json")
	fs.BoolVar(&f.follow, "follow", false, "print each change of the state")
	fs.BoolVar(&f.interactive, "interactive", false, "answer the agent's questions")
	kit.HostFlags(fs, &f.where)
	return cmd
}

// complete makes the task of goal, plan and context.
func (f *runFlags) complete() error {
	if f.goal == "" && f.plan == "" {
		return problem.New(problem.Usage, "GOAL: expected a goal, or a plan with --plan FILE, got neither")
	}
	parts := []string{f.goal}
	for _, file := range []struct{ heading, path string }{{"Plan", f.plan}, {"Context", f.context}} {
		if file.path == "" {
			continue
		}
		b, err := os.ReadFile(file.path)
		if err != nil {
			return err
		}
		parts = append(parts, "# "+file.heading+"\n\n"+strings.TrimSpace(string(b)))
	}
	f.task.Task = strings.TrimSpace(strings.Join(parts, "\n\n"))
	if f.budget == "" {
		return nil
	}
	n, err := kit.MicroDollars("--budget", f.budget)
	amount := money.Amount(n)
	f.task.Budget = &amount
	return err
}

// run dispatches the task and follows it to its end.
func (f *runFlags) run(ctx context.Context, a *kit.App, c op.Client, operator bool) error {
	started, err := teamapi.Dispatch.For(operator).Call(ctx, c, teamapi.Dispatching{Key: "run-" + rand.Text(), Body: f.task})
	if err != nil {
		return err
	}
	for _, w := range started.Warnings {
		a.Note("warning: %s", kit.Printable(w))
	}
	state := ""
	in := teamapi.Waiting{OneTask: teamapi.OneTask{ID: started.TaskID}, Wait: teamapi.MaxWait}
	for {
		began := time.Now()
		t, err := teamapi.ShowTask.For(operator).Call(ctx, c, in)
		if err != nil {
			return kit.WithHint(err, "vacancy task show %s", started.TaskID)
		}
		if f.follow && t.Status.Status != state {
			state = t.Status.Status
			a.Note("%s", state)
		}
		switch {
		case t.Question != "" && f.interactive:
			answer, err := a.AskLine(ctx, kit.Printable(t.Question)+"\n>")
			if err != nil {
				return err
			}
			if answer == "" {
				return waitsForAnswer(a, &t.Status)
			}
			if _, err = teamapi.AnswerTask.For(operator).Call(ctx, c, teamapi.Answering{OneTask: in.OneTask, Key: "answer-" + rand.Text(), Body: teamapi.Answer{Text: answer}}); err != nil {
				return err
			}
		case t.Question != "":
			return waitsForAnswer(a, &t.Status)
		case t.IsOver():
			if err := a.Print(&t.Status, func(w io.Writer) { printResult(a, w, &t.Status) }); err != nil || t.Result != nil {
				return err
			}
			return problem.New(problem.BehaviourFailed, "the task is %s: %s", t.Status.Status, kit.Printable(t.Error))
		case time.Since(began) < time.Second: // the host did not wait
			select {
			case <-ctx.Done():
				return problem.New(problem.Canceled, "interrupted; the task goes on")
			case <-time.After(2 * time.Second):
			}
		}
	}
}

// waitsForAnswer prints the question of a task.
func waitsForAnswer(a *kit.App, s *team.Status) error {
	if err := a.Print(s, func(w io.Writer) { printStatus(a, w, s) }); err != nil {
		return err
	}
	a.Note("the task waits for an answer: vacancy task answer %s TEXT", s.TaskID)
	return nil
}

// printResult prints the response of a completed task, and the state of another.
func printResult(a *kit.App, w io.Writer, s *team.Status) {
	if s.Result == nil {
		printStatus(a, w, s)
		return
	}
	_, _ = io.WriteString(w, a.AnswerText(s.Result.Response)+"\n")
}
