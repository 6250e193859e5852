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
	goal, contextFile, planFile string
	budget                      string
	maxTurns                    int64
	follow, interactive         bool
	where                       kit.HostFlags
	task                        teamapi.NewTask

	acpCommand string // command of an agent on this machine, or "" to run the task at a host
	acpFlags   acpFlags
}

func RunCommand(a *kit.App) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run AGENT [GOAL] | run --acp COMMAND [GOAL]",
		Short: "Give an agent a task and wait for the result",
		Long: `Give an agent a task, and print the result when the task ends. AGENT is the name of one of your own
vacants, or the id of a published vacant. The task is GOAL or --goal, followed by the text of the
--plan and --context files.

If this command is interrupted, the task continues. "vacancy task show" prints its result later. If
the agent asks a question, --interactive asks you for the answer. Otherwise the command prints the
question and ends. "vacancy task answer" answers it.

The account of the key in $VACANCY_KEY pays. The key needs the scopes agents and read. If there is
no key, the operator of the host dispatches the task. In that case the vacant must have no tenant
and no price. The exit code is 1 if the task fails or is cancelled.

With --acp, a program on this machine that speaks ACP does the task. It needs no host and no key.
See "vacancy worker" for --root, --approval and --env.`,
		Example: `  vacancy run writer "Summarize docs/plan.md"
  vacancy run writer --plan plan.md --mode read-only --max-turns 8
  vacancy run writer "Draft an answer" --interactive
  vacancy run --acp "gemini --acp" --mode read-only "Review src"`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.acpCommand != "" {
				return kit.ArgumentCheck(0, 1)(cmd, args)
			}
			return kit.ArgumentCheck(1, 2)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.checkFlags(cmd.Flags()); err != nil {
				return err
			}
			if f.acpCommand == "" {
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
			if err := f.fillTask(); err != nil {
				return err
			}
			if f.acpCommand != "" {
				return f.runLocal(cmd.Context(), a)
			}
			return WithClient(cmd.Context(), a, f.where, func(c op.Client) error { return f.run(cmd.Context(), a, c) })
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.goal, "goal", "", "what to do")
	fs.StringVar(&f.contextFile, "context", "", "a `FILE` with background for the agent")
	fs.StringVar(&f.planFile, "plan", "", "a `FILE` with the plan to carry out")
	fs.StringVar(&f.task.Mode, "mode", "", "whether tools may change something: read-write or read-only")
	fs.StringVar(&f.task.Model, "model", "", "the model to use instead of the agent's")
	fs.Int64Var(&f.maxTurns, "max-turns", 0, "the maximum number of model turns")
	fs.StringVar(&f.budget, "budget", "", "the maximum cost of the task in `DOLLARS`")
	fs.StringVar(&f.task.Effort, "effort", "", "the effort of the model: low, medium or high")
	fs.StringVar(&f.task.OutputFormat, "output-format", "", "text or json")
	fs.BoolVar(&f.follow, "follow", false, "print each change of the state")
	fs.BoolVar(&f.interactive, "interactive", false, "answer the agent's questions")
	fs.StringVar(&f.acpCommand, "acp", "", "the shell `COMMAND` of an ACP agent on this machine, which does the task without a host")
	f.acpFlags.register(fs)
	kit.AddHostFlags(fs, &f.where)
	return cmd
}

// checkFlags returns an error if a flag is not supported with --acp, or is supported only with
// --acp.
func (f *runFlags) checkFlags(fs *pflag.FlagSet) (err error) {
	localFlags, sharedFlags := []string{"root", "approval", "env"}, []string{"acp", "goal", "plan", "context", "mode", "json"}
	fs.Visit(func(flag *pflag.Flag) {
		switch isLocal := slices.Contains(localFlags, flag.Name); {
		case isLocal && f.acpCommand == "":
			err = problem.New(problem.Usage, "--%s: not supported without --acp COMMAND", flag.Name)
		case !isLocal && f.acpCommand != "" && !slices.Contains(sharedFlags, flag.Name):
			err = problem.New(problem.Usage, "--%s: not supported together with --acp", flag.Name)
		}
	})
	return err
}

func (f *runFlags) fillTask() error {
	if f.goal == "" && f.planFile == "" {
		return problem.New(problem.Usage, "GOAL: expected a goal, or a plan with --plan FILE, got neither")
	}
	parts := []string{f.goal}
	for _, file := range []struct{ heading, path string }{{"Plan", f.planFile}, {"Context", f.contextFile}} {
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
	n, err := kit.ParseMicroDollars("--budget", f.budget)
	amount := money.Amount(n)
	f.task.Budget = &amount
	return err
}

const inputRequired = "input_required"

// run dispatches the task and waits for it. If f.interactive is set, it asks the user to answer the
// agent's questions.
func (f *runFlags) run(ctx context.Context, a *kit.App, c op.Client) error {
	started, err := CallFunc(teamapi.Dispatch)(ctx, c, teamapi.DispatchRequest{Key: "run-" + rand.Text(), Body: f.task})
	if err != nil {
		return err
	}
	for _, w := range started.Warnings {
		a.PrintNote("warning: %s", kit.EscapeLine(w))
	}
	taskRef, state := teamapi.TaskRef{ID: started.TaskID}, ""
	for {
		requestStart := time.Now()
		t, err := CallFunc(teamapi.ShowTask)(ctx, c, teamapi.ShowTaskRequest{TaskRef: taskRef, WaitSeconds: teamapi.MaxWait})
		if err == nil && !t.IsTurnOver() && time.Since(requestStart) < time.Second { // a host on AWS does not wait
			err = cloud.Sleep(ctx, 2*time.Second)
		}
		if err != nil {
			return kit.WithHint(err, "vacancy task show %s", taskRef.ID)
		}
		if f.follow && t.Status.Status != state {
			state = t.Status.Status
			a.PrintNote("%s", kit.EscapeLine(state))
		}
		answer := ""
		switch {
		case !t.IsTurnOver():
			continue
		case t.Status.Status == inputRequired && f.interactive:
			if answer, err = a.AskLine(ctx, kit.EscapeLine(t.Question)+"\n>"); err != nil {
				return err
			}
		}
		if answer == "" {
			return printOutcome(a, t.Status)
		}
		if _, err = CallFunc(teamapi.AnswerTask)(ctx, c, teamapi.AnswerRequest{TaskRef: taskRef, Key: "answer-" + rand.Text(), Body: teamapi.Answer{Text: answer}}); err != nil {
			return err
		}
	}
}

// printOutcome prints the task's response or state. It returns an error unless the task is
// completed or waits for an answer.
func printOutcome(a *kit.App, s team.Status) error {
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
		a.PrintNote("to answer the question: vacancy task answer %s TEXT", kit.EscapeLine(s.TaskID))
		return nil
	}
	return &kit.ReportedError{}
}
