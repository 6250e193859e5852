package teamcmd

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/teamapi"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/team"
	"github.com/vacancy-host/vacancy/shared/problem"
)

type runFlags struct {
	goal, context, plan string
	budget              string
	maxTurns            int64
	follow, interactive bool
	where               kit.Where
	task                teamapi.NewTask

	acp   string // command of an agent on this machine, or "" to run the task at a host
	local acpFlags
}

func RunCommand(a *kit.App) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run AGENT [GOAL] | run --acp COMMAND [GOAL]",
		Short: "Give an agent a task and wait for the result",
		Long: `Give an agent a task, and print the result when the task ends. The agent is a vacant of your own, by
name, or a published vacant by id. The task is GOAL or --goal, followed by the text of the --plan
and --context files.

The task continues if this command is interrupted: "vacancy task show" prints the result later.
If the agent asks a question, --interactive asks you for the answer. Otherwise the command ends with
the question, and "vacancy task answer" answers it.

The account of the key in $VACANCY_KEY pays, and the key needs the scopes agents and read. If there
is no key, the operator of the host dispatches the task. The vacant must then have no tenant and no
price. The exit code is 1 if the task fails or is cancelled.

With --acp an agent on this machine, a program that speaks ACP, does the task here, without a host
and without a key. See "vacancy worker" for --root, --approval and --env.`,
		Example: `  vacancy run writer "Summarize docs/plan.md"
  vacancy run writer --plan plan.md --mode read-only --max-turns 8
  vacancy run writer "Draft an answer" --interactive
  vacancy run --acp "gemini --acp" --mode read-only "Review src"`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.acp != "" {
				return kit.Arguments(0, 1)(cmd, args)
			}
			return kit.Arguments(1, 2)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.checkLocal(cmd.Flags()); err != nil {
				return err
			}
			if f.acp == "" {
				f.task.Agent, args = args[0], args[1:]
			}
			if len(args) == 1 {
				if f.goal != "" {
					return problem.New(problem.Usage, "--goal: not supported together with GOAL")
				}
				f.goal = args[0]
			}
			if cmd.Flags().Changed("max-turns") {
				f.task.MaxTurns = &f.maxTurns
			}
			if err := f.complete(); err != nil {
				return err
			}
			if f.acp != "" {
				return f.runLocal(cmd.Context(), a)
			}
			return With(cmd.Context(), a, f.where, func(c op.Client) error { return f.run(cmd.Context(), a, c) })
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.goal, "goal", "", "what to do")
	fs.StringVar(&f.context, "context", "", "a `FILE` with background for the agent")
	fs.StringVar(&f.plan, "plan", "", "a `FILE` with the plan to carry out")
	fs.StringVar(&f.task.Mode, "mode", "", "whether tools may change something: read-write or read-only")
	fs.StringVar(&f.task.Model, "model", "", "the model to use instead of the agent's")
	fs.Int64Var(&f.maxTurns, "max-turns", 0, "the maximum number of model turns")
	fs.StringVar(&f.budget, "budget", "", "the maximum cost of the task in `DOLLARS`")
	fs.StringVar(&f.task.Effort, "effort", "", "the effort of the model: low, medium or high")
	fs.StringVar(&f.task.OutputFormat, "output-format", "", "text or json")
	fs.BoolVar(&f.follow, "follow", false, "print each change of the state")
	fs.BoolVar(&f.interactive, "interactive", false, "answer the agent's questions")
	fs.StringVar(&f.acp, "acp", "", "the shell `COMMAND` of an ACP agent on this machine, which does the task without a host")
	f.local.add(fs)
	kit.HostFlags(fs, &f.where)
	return cmd
}

// checkLocal returns an error if a flag is given that is not supported where the task runs: at a
// host, or on this machine with --acp.
func (f *runFlags) checkLocal(fs *pflag.FlagSet) (err error) {
	here, both := []string{"root", "approval", "env"}, []string{"acp", "goal", "plan", "context", "mode", "json"}
	fs.Visit(func(given *pflag.Flag) {
		switch isHere := slices.Contains(here, given.Name); {
		case isHere && f.acp == "":
			err = problem.New(problem.Usage, "--%s: not supported without --acp COMMAND", given.Name)
		case !isHere && f.acp != "" && !slices.Contains(both, given.Name):
			err = problem.New(problem.Usage, "--%s: not supported together with --acp", given.Name)
		}
	})
	return err
}

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

// inputRequired is the state of a task that waits for the answer to its question.
const inputRequired = "input_required"

// run dispatches the task and waits for it. It answers the agent's questions if f.interactive is
// set, and otherwise returns when the agent asks one.
func (f *runFlags) run(ctx context.Context, a *kit.App, c op.Client) error {
	started, err := CallerOf(teamapi.Dispatch)(ctx, c, teamapi.Dispatching{Key: "run-" + rand.Text(), Body: f.task})
	if err != nil {
		return err
	}
	for _, w := range started.Warnings {
		a.Note("warning: %s", kit.Printable(w))
	}
	ref, state := teamapi.OneTask{ID: started.TaskID}, ""
	for {
		began := time.Now()
		t, err := CallerOf(teamapi.ShowTask)(ctx, c, teamapi.Waiting{OneTask: ref, Wait: teamapi.MaxWait})
		if err == nil && !t.IsOver() && time.Since(began) < time.Second { // a host on AWS does not wait
			err = cloud.Wait(ctx, 2*time.Second)
		}
		if err != nil {
			return kit.WithHint(err, "vacancy task show %s", ref.ID)
		}
		if f.follow && t.Status.Status != state {
			state = t.Status.Status
			a.Note("%s", kit.Printable(state))
		}
		text := ""
		switch {
		case !t.IsOver():
			continue
		case t.Status.Status == inputRequired && f.interactive:
			if text, err = a.AskLine(ctx, kit.Printable(t.Question)+"\n>"); err != nil {
				return err
			}
		}
		if text == "" {
			return printEnd(a, t.Status)
		}
		if _, err = CallerOf(teamapi.AnswerTask)(ctx, c, teamapi.Answering{OneTask: ref, Key: "answer-" + rand.Text(), Body: teamapi.Answer{Text: text}}); err != nil {
			return err
		}
	}
}

// printEnd prints the response of a completed task, or otherwise the state. It returns an error
// unless the task is completed or waits for an answer.
func printEnd(a *kit.App, s team.Status) error {
	err := a.Print(s, func(w io.Writer) {
		if s.Result == nil {
			printStatus(w, s)
			return
		}
		fmt.Fprintln(w, kit.EscapeControls(s.Result.Response, "\n\t"))
	})
	switch {
	case err != nil || s.Result != nil:
		return err
	case s.Status == inputRequired:
		a.Note("to answer the question: vacancy task answer %s TEXT", kit.Printable(s.TaskID))
		return nil
	}
	return &kit.Reported{}
}
