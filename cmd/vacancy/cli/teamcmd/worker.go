package teamcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/acpclient"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/workclient"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/worker"
	"github.com/vacancy-host/vacancy/shared/problem"
)

type workerFlags struct {
	acpFlags                  acpFlags
	mode, provider, agentFile string
	where                     kit.HostFlags
}

func WorkerCommand(a *kit.App) *cobra.Command {
	var f workerFlags
	cmd := &cobra.Command{
		Use:   "worker NAME -- COMMAND... | worker NAME --provider gemini",
		Short: "Let an agent on this machine do the turns of a vacant",
		Long: `Let an agent on this machine do the turns of a vacant with the substrate worker. The agent is a
program that speaks ACP. This command opens no port: it asks the host for turns, with the key in
$VACANCY_KEY or as the operator. The key needs the scope work. The command runs COMMAND in --root
for each turn, one turn at a time.

The agent reads and writes files and runs terminals through this command. The command reads and
writes only files in --root, and follows no links out of it. With --mode read-only, only files
below .vault are written, and no terminals run. The agent's own tools are not restricted: run the
agent in a container if you do not trust it. COMMAND gets basic variables such as PATH and HOME,
and the variables that --env names.

--approval decides the agent's permission questions. By default this command asks you. If its input
is not a terminal, the host asks the caller instead. The caller answers with the next message in
the same context.

--provider builds COMMAND from the vacant's agent file: gemini runs Gemini CLI, claude runs Claude
Code. The file is --from FILE, or NAME.md below --root, in .vaultspec/agents or agents. The session
of each turn is logged, without contents, in .vaultspec/logs below --root.`,
		Example: `  vacancy create fox --substrate worker
  vacancy worker fox --env GEMINI_API_KEY -- gemini --acp
  vacancy worker fox --provider gemini --host https://agents.example.org`,
		Args: func(cmd *cobra.Command, args []string) error {
			nameCount := cmd.ArgsLenAtDash()
			if nameCount < 0 {
				nameCount = len(args)
			}
			if err := kit.ArgumentCheck(1, 1)(cmd, args[:nameCount]); err != nil {
				return err
			}
			if _, ok := providers[f.provider]; f.provider != "" && !ok {
				return problem.New(problem.Usage, "--provider: expected gemini or claude, got %.40q", f.provider)
			}
			switch argv := args[nameCount:]; {
			case len(argv) == 0 && f.provider == "":
				return kit.WithHint(problem.New(problem.Usage, "COMMAND: expected the program of an agent after --, or --provider, got neither"), "vacancy worker %s --provider gemini", kit.ShellWord(args[0]))
			case len(argv) > 0 && f.provider != "":
				return problem.New(problem.Usage, "--provider: not supported together with COMMAND")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), a, args[0], args[1:]) },
	}
	fs := cmd.Flags()
	f.acpFlags.register(fs)
	fs.StringVar(&f.mode, "mode", "", "whether the agent may change files: read-write or read-only")
	fs.StringVar(&f.provider, "provider", "", "the program that runs the agent's file: gemini or claude")
	fs.StringVar(&f.agentFile, "from", "", "the agent's `FILE`")
	kit.AddHostFlags(fs, &f.where)
	return cmd
}

func (f *workerFlags) run(ctx context.Context, a *kit.App, name string, argv []string) error {
	if _, err := f.acpFlags.options(a, f.mode); err != nil {
		return err
	}
	program, err := f.buildProgram(ctx, a, name, argv)
	if err != nil {
		return err
	}
	defer program.cleanUp()
	flags := f.acpFlags
	flags.env, flags.approval = append(flags.env, program.envFlags...), cmp.Or(flags.approval, program.approval)
	opts, err := flags.options(a, f.mode)
	if err != nil {
		return err
	}
	opts.ReadOnly, opts.Meta = opts.ReadOnly || program.readOnly && f.mode == "", program.sessionMeta
	if _, err := exec.LookPath(program.argv[0]); err != nil {
		return problem.Wrap(problem.NotFound, err, "there is no program %s", kit.EscapeLine(program.argv[0]))
	}
	runner := &turnRunner{App: a, options: opts, argv: program.argv, pausedJobs: map[string]*job{}}
	defer runner.close()
	return a.WithWorker(ctx, f.where, func(work *workclient.Worker, _ op.Client) error {
		work.Vacant, work.Handle, work.Observe = name, runner.doTurn, a.WorkStatusPrinter(name, a.PrintNote)
		return work.Run(ctx)
	})
}

// turnRunner runs the turns of a vacant with an ACP agent, one at a time. A turn usually starts a
// new program. If a program asks for a permission that the caller must grant, the turn ends with
// the question, and the program waits for the caller's next message in the same context.
type turnRunner struct {
	*kit.App
	options    acpclient.Options
	argv       []string
	pausedJobs map[string]*job // paused jobs, keyed by CALLER/CONTEXT
}

const (
	maxPausedJobs = 16
	pauseTimeout  = 30 * time.Minute
)

// turnInput contains the members of a turn's JSON that the worker uses.
type turnInput struct {
	Message string            `json:"message"`
	Caller  string            `json:"caller"`
	Context *string           `json:"context_id"`
	Files   []json.RawMessage `json:"files"`
	History []struct {
		Role    string `json:"role"`
		Claimed string `json:"claimed"`
		Text    string `json:"text"`
	} `json:"history"`
}

func (q *turnInput) prompt() string {
	if len(q.History) == 0 {
		return q.Message
	}
	var b strings.Builder
	b.WriteString("This conversation began earlier:\n")
	for _, t := range q.History {
		speaker := "Caller"
		switch {
		case t.Claimed != "":
			speaker = "Caller, who quotes " + t.Claimed
		case t.Role == string(substrate.RoleAgent):
			speaker = "You"
		}
		b.WriteString("\n" + speaker + ": " + t.Text + "\n")
	}
	b.WriteString("\nAnswer the caller's next message:\n\n" + q.Message)
	return b.String()
}

// doTurn implements workclient.Handler.
func (tr *turnRunner) doTurn(ctx context.Context, t *workclient.Turn, emit func(workclient.Event)) (workclient.Answer, error) {
	var q turnInput
	var noAnswer workclient.Answer
	if err := json.Unmarshal(t.Question, &q); err != nil {
		return noAnswer, problem.New(problem.SubstrateMisconfigured, "this worker does not understand the turn; update the worker")
	}
	if len(q.Files) > 0 {
		return noAnswer, problem.New(problem.SubstrateMisconfigured, "the agent accepts only text, but the message has files; unset the vacant's setting input")
	}
	key := ""
	if q.Context != nil {
		key = q.Caller + "/" + *q.Context
	}
	j := tr.pausedJobs[key]
	delete(tr.pausedJobs, key)
	if j != nil && !j.isDone() && j.pauseTimer.Stop() {
		option, ok := findOption(j.pendingQuestion.Options, q.Message)
		if !ok {
			return tr.pauseJob(key, j)
		}
		j.pendingQuestion.answer <- option
	} else {
		var err error
		if j, err = tr.startJob(ctx, &q, key != ""); err != nil {
			return noAnswer, err
		}
	}
	hasText := false
	for ctxDone, questions := ctx.Done(), j.questions; ; {
		select {
		case e := <-j.events:
			hasText = hasText || e.Type == worker.TypeText
			emit(e)
		case j.pendingQuestion = <-questions:
			return tr.pauseJob(key, j)
		case <-ctxDone:
			j.cancel(context.Cause(ctx))
			ctxDone, questions = nil, nil
		case <-j.done:
			a := workclient.Answer{}
			if u := j.result.Usage; u != nil {
				a.Usage = &worker.Usage{InputTokens: int64(u.InputTokens), OutputTokens: int64(u.OutputTokens), CachedTokens: int64(u.CachedTokens)}
			}
			if j.err == nil && !hasText {
				a.Text = "Done" // an answer needs a text
			}
			return a, j.err
		}
	}
}

func (tr *turnRunner) startJob(ctx context.Context, q *turnInput, canPause bool) (*job, error) {
	j := &job{events: make(chan workclient.Event), questions: make(chan permissionQuestion), done: make(chan struct{})}
	opts := tr.options
	opts.Command = exec.Command(tr.argv[0], tr.argv[1:]...)
	opts.ReadOnly = opts.ReadOnly || acpclient.IsReadOnly(q.Message)
	if opts.Ask == nil && canPause {
		opts.Ask = j.askCaller
	}
	agent, err := acpclient.Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	var jobCtx context.Context
	jobCtx, j.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	go func() {
		defer close(j.done)
		j.result, j.err = agent.Prompt(jobCtx, q.prompt(), func(e acpclient.Event) error { return j.forwardEvent(jobCtx, e) })
		j.err = errors.Join(j.err, agent.Close())
	}()
	return j, nil
}

// pauseJob ends a turn with the question of its program, which then waits for the next turn.
func (tr *turnRunner) pauseJob(key string, j *job) (workclient.Answer, error) {
	maps.DeleteFunc(tr.pausedJobs, func(_ string, j *job) bool { return j.isDone() })
	if len(tr.pausedJobs) >= maxPausedJobs {
		j.cancel(context.Canceled)
		<-j.done
		return workclient.Answer{}, problem.New(problem.SubstrateBusy, "%d programs already wait for the answers of callers", maxPausedJobs)
	}
	j.pauseTimer = time.AfterFunc(pauseTimeout, func() { j.cancel(context.Canceled) })
	tr.pausedJobs[key] = j
	return workclient.Answer{State: worker.StateInputRequired, Text: questionText(j.pendingQuestion.Question)}, nil
}

func (tr *turnRunner) close() {
	for _, j := range tr.pausedJobs {
		j.cancel(context.Canceled)
		<-j.done
	}
}

// job is one prompt to a program. It may last for several turns. While the job is paused, its
// events are not read, so the program waits.
type job struct {
	cancel    context.CancelCauseFunc
	events    chan workclient.Event
	questions chan permissionQuestion
	done      chan struct{} // closed when result and err are set and the program has ended
	result    acpclient.Result
	err       error

	pendingQuestion permissionQuestion
	pauseTimer      *time.Timer // cancels the job if the pause becomes too long
	thoughtBytes    int
}

type permissionQuestion struct {
	acpclient.Question
	answer chan string
}

func (j *job) isDone() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// maxThoughtBytes limits the thoughts of a job, because the host limits the size of a turn's
// events.
const maxThoughtBytes = 512 << 10

const maxNameBytes = 128

func truncateName(name string) string {
	return strings.ToValidUTF8(name[:min(len(name), maxNameBytes)], "")
}

func (j *job) askCaller(ctx context.Context, q acpclient.Question) (option string, err error) {
	question := permissionQuestion{q, make(chan string, 1)}
	select {
	case j.questions <- question:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	select {
	case option = <-question.answer:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return option, err
}

// forwardEvent converts an event of the program and sends it to the turn.
func (j *job) forwardEvent(ctx context.Context, e acpclient.Event) error {
	out := workclient.Event{Type: worker.TypeText, Text: e.Text}
	switch {
	case e.Thought != "":
		if j.thoughtBytes += len(e.Thought); j.thoughtBytes > maxThoughtBytes {
			return nil
		}
		out.Type, out.Text = worker.TypeThought, e.Thought
	case e.ToolCallID != "":
		out = workclient.Event{Type: worker.TypeTool, Tool: &call.ToolStep{ID: truncateName(e.ToolCallID), Name: truncateName(cmp.Or(e.Title, "tool"))}}
		switch e.Status {
		case "completed":
			out.Tool.Outcome = call.ToolOK
		case "failed":
			out.Tool.Outcome = call.ToolError
		case "in_progress":
			return nil
		}
	}
	select {
	case j.events <- out:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
