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
	acp                  acpFlags
	mode, provider, from string
	where                kit.Where
}

// WorkerCommand returns the command that lets an ACP agent on this machine do the turns of a
// vacant.
func WorkerCommand(a *kit.App) *cobra.Command {
	var f workerFlags
	cmd := &cobra.Command{
		Use:   "worker NAME -- COMMAND... | worker NAME --provider gemini",
		Short: "Let an agent on this machine do the turns of a vacant",
		Long: `Let an agent on this machine, a program that speaks ACP, do the turns of a vacant with the
substrate worker. No port is opened: this command asks the host for turns, with the key in
$VACANCY_KEY, which needs the scope work, or as the operator. It runs COMMAND for each turn, one
turn at a time, in --root.

The agent reads and writes files and runs terminals through this command. No file outside of
--root is read or written in this way, whatever links lead there. With --mode read-only only files
below .vault are written, and no terminals run. The agent's own tools are not restricted: run it in a
container if you do not trust it. COMMAND gets the variables that each program needs, such as PATH
and HOME, and those that --env names.

--approval decides the agent's permission questions. By default you are asked here, or, if the
input is not a terminal, the caller is asked at the host, and the caller's next message in the same
context is the answer.

--provider builds COMMAND from the vacant's agent file: --from FILE, or NAME.md below --root, in
.vaultspec/agents or agents. gemini is Gemini CLI, claude is Claude Code. The session of each turn
is logged, without contents, in .vaultspec/logs below --root.`,
		Example: `  vacancy create fox --substrate worker
  vacancy worker fox --env GEMINI_API_KEY -- gemini --acp
  vacancy worker fox --provider gemini --host https://agents.example.org`,
		Args: func(cmd *cobra.Command, args []string) error {
			named := cmd.ArgsLenAtDash()
			if named < 0 {
				named = len(args)
			}
			if err := kit.Arguments(1, 1)(cmd, args[:named]); err != nil {
				return err
			}
			if _, ok := providers[f.provider]; f.provider != "" && !ok {
				return problem.New(problem.Usage, "--provider: expected gemini or claude, got %.40q", f.provider)
			}
			switch words := args[named:]; {
			case len(words) == 0 && f.provider == "":
				return kit.WithHint(problem.New(problem.Usage, "COMMAND: expected the program of an agent after --, or --provider, got neither"), "vacancy worker %s --provider gemini", kit.ShellWord(args[0]))
			case len(words) > 0 && f.provider != "":
				return problem.New(problem.Usage, "--provider: not supported together with COMMAND")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), a, args[0], args[1:]) },
	}
	fs := cmd.Flags()
	f.acp.add(fs)
	fs.StringVar(&f.mode, "mode", "", "whether the agent may change files: read-write or read-only")
	fs.StringVar(&f.provider, "provider", "", "the program that runs the agent's file: gemini or claude")
	fs.StringVar(&f.from, "from", "", "the agent's `FILE`")
	kit.HostFlags(fs, &f.where)
	return cmd
}

// run does turns until ctx ends.
func (f *workerFlags) run(ctx context.Context, a *kit.App, name string, words []string) error {
	if _, err := f.acp.options(a, f.mode); err != nil {
		return err
	}
	p, err := f.program(ctx, a, name, words)
	if err != nil {
		return err
	}
	defer p.remove()
	flags := f.acp
	flags.env, flags.approval = append(flags.env, p.env...), cmp.Or(flags.approval, p.approval)
	o, err := flags.options(a, f.mode)
	if err != nil {
		return err
	}
	o.ReadOnly, o.Meta = o.ReadOnly || p.readOnly && f.mode == "", p.meta
	if _, err := exec.LookPath(p.words[0]); err != nil {
		return problem.Wrap(problem.NotFound, err, "there is no program %s", kit.Printable(p.words[0]))
	}
	w := &turns{App: a, options: o, words: p.words, paused: map[string]*job{}}
	defer w.close()
	return a.WithWork(ctx, f.where, func(work *workclient.Worker, _ op.Client) error {
		work.Vacant, work.Handle, work.Observe = name, w.do, a.WorkStatus(name, a.Note)
		return work.Run(ctx)
	})
}

// turns runs the turns of a vacant with an ACP agent, one at a time. Each turn answers one message.
// Usually a turn starts a new program. If a program asks for a permission that the caller must
// grant, its turn ends with the question, and the program waits. The caller's next message in that
// context answers the question, and the turn of that message continues the waiting program.
type turns struct {
	*kit.App
	options acpclient.Options
	words   []string
	paused  map[string]*job // paused jobs, keyed by CALLER/CONTEXT
}

const (
	// maxPaused limits the programs that wait for answers of callers, and pauseTime limits how long
	// each program waits.
	maxPaused = 16
	pauseTime = 30 * time.Minute
)

// question contains the members of a turn's JSON that the worker uses.
type question struct {
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

// prompt returns the message, preceded by the earlier messages of the conversation.
func (q *question) prompt() string {
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
		case t.Role == string(substrate.Agent):
			speaker = "You"
		}
		b.WriteString("\n" + speaker + ": " + t.Text + "\n")
	}
	b.WriteString("\nAnswer the caller's next message:\n\n" + q.Message)
	return b.String()
}

// do implements workclient.Handler.
func (w *turns) do(ctx context.Context, t *workclient.Turn, emit func(workclient.Event)) (workclient.Answer, error) {
	var q question
	var none workclient.Answer
	if err := json.Unmarshal(t.Question, &q); err != nil {
		return none, problem.New(problem.SubstrateMisconfigured, "this worker does not understand the turn; update the worker")
	}
	if len(q.Files) > 0 {
		return none, problem.New(problem.SubstrateMisconfigured, "the agent takes only text, and the message has files; unset the setting input of the vacant")
	}
	key := ""
	if q.Context != nil {
		key = q.Caller + "/" + *q.Context
	}
	j := w.paused[key]
	delete(w.paused, key)
	if j != nil && !j.isDone() && j.wait.Stop() {
		option, ok := findOption(j.asked.Options, q.Message)
		if !ok {
			return w.pause(key, j)
		}
		j.asked.answer <- option
	} else {
		var err error
		if j, err = w.start(ctx, &q, key != ""); err != nil {
			return none, err
		}
	}
	hasText := false
	for end, questions := ctx.Done(), j.questions; ; {
		select {
		case e := <-j.events:
			hasText = hasText || e.Type == worker.TypeText
			emit(e)
		case j.asked = <-questions:
			return w.pause(key, j)
		case <-end:
			j.cancel(context.Cause(ctx))
			end, questions = nil, nil
		case <-j.done:
			a := workclient.Answer{}
			if u := j.result.Usage; u != nil {
				a.Usage = &worker.Usage{In: int64(u.In), Out: int64(u.Out), Cached: int64(u.Cached)}
			}
			if j.err == nil && !hasText {
				a.Text = "Done" // an answer needs a text
			}
			return a, j.err
		}
	}
}

// start starts a program for a turn, and gives it the prompt.
func (w *turns) start(ctx context.Context, q *question, mayPause bool) (*job, error) {
	j := &job{events: make(chan workclient.Event), questions: make(chan asked), done: make(chan struct{})}
	o := w.options
	o.Command = exec.Command(w.words[0], w.words[1:]...)
	o.ReadOnly = o.ReadOnly || acpclient.IsReadOnly(q.Message)
	if o.Ask == nil && mayPause {
		o.Ask = j.ask
	}
	agent, err := acpclient.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	var running context.Context
	running, j.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	go func() {
		defer close(j.done)
		j.result, j.err = agent.Prompt(running, q.prompt(), func(e acpclient.Event) error { return j.event(running, e) })
		j.err = errors.Join(j.err, agent.Close())
	}()
	return j, nil
}

// pause ends a turn with the question of its program, which then waits for the next turn.
func (w *turns) pause(key string, j *job) (workclient.Answer, error) {
	maps.DeleteFunc(w.paused, func(_ string, j *job) bool { return j.isDone() })
	if len(w.paused) >= maxPaused {
		j.cancel(context.Canceled)
		<-j.done
		return workclient.Answer{}, problem.New(problem.SubstrateBusy, "%d programs wait for answers of callers already", maxPaused)
	}
	j.wait = time.AfterFunc(pauseTime, func() { j.cancel(context.Canceled) })
	w.paused[key] = j
	return workclient.Answer{State: worker.StateAsks, Text: questionText(j.asked.Question)}, nil
}

func (w *turns) close() {
	for _, j := range w.paused {
		j.cancel(context.Canceled)
		<-j.done
	}
}

// job is one prompt to a program. It may last for several turns. While the job is paused, its
// events are not read, so the program waits.
type job struct {
	cancel    context.CancelCauseFunc
	events    chan workclient.Event
	questions chan asked
	done      chan struct{} // closed when result and err are set and the program has ended
	result    acpclient.Result
	err       error

	asked    asked       // last question of the program
	wait     *time.Timer // cancels the job if the pause becomes too long
	thoughts int         // size of the thoughts so far, in bytes
}

// asked is a question about a permission, with the channel that receives the answer.
type asked struct {
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

// maxThoughts limits the thoughts of a job that are sent to the host, in bytes, because the host
// limits the total size of a turn's events.
const maxThoughts = 512 << 10

// maxName limits the name and the id of a tool call, in bytes.
const maxName = 128

// short truncates a name to maxName bytes.
func short(name string) string { return strings.ToValidUTF8(name[:min(len(name), maxName)], "") }

func (j *job) ask(ctx context.Context, q acpclient.Question) (option string, err error) {
	a := asked{q, make(chan string, 1)}
	select {
	case j.questions <- a:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	select {
	case option = <-a.answer:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return option, err
}

// event converts an event of the program and sends it to the turn.
func (j *job) event(ctx context.Context, e acpclient.Event) error {
	out := workclient.Event{Type: worker.TypeText, Text: e.Text}
	switch {
	case e.Thought != "":
		if j.thoughts += len(e.Thought); j.thoughts > maxThoughts {
			return nil
		}
		out.Type, out.Text = worker.TypeThought, e.Thought
	case e.Call != "":
		out = workclient.Event{Type: worker.TypeTool, Tool: &call.ToolStep{ID: short(e.Call), Name: short(cmp.Or(e.Title, "tool"))}}
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
