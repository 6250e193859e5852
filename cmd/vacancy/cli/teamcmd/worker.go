package teamcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"sync"
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

// WorkerCommand returns the command by which an ACP agent on this machine does the turns of a vacant.
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
below .vault are written, and no terminals run. The agent's own tools are its own: run it in a
container if you do not trust it. COMMAND gets the variables that each program needs, such as PATH
and HOME, and those that --env names.

--approval decides what an agent may do that asks. By default you are asked here, or, if the
input is not a terminal, the caller is asked at the host: the caller's next message in the same
context answers.

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
			if _, known := providers[f.provider]; f.provider != "" && !known {
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
	fs.StringVar(&f.provider, "provider", "", "the agent's program, by its file: gemini or claude")
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
	return With(ctx, a, f.where, func(c op.Client) error {
		_, operates := c.(*kit.AdminAPI)
		s := statusLine{App: a, name: name}
		worker := workclient.Worker{Client: workclient.Client{Client: c, Operator: operates}, Vacant: name, Handle: w.do, Observe: s.observe}
		return worker.Run(ctx)
	})
}

// statusLine prints what a worker does.
type statusLine struct {
	*kit.App
	name            string
	connected, away bool
	began           time.Time
}

func (s *statusLine) observe(now workclient.Status) {
	name := kit.Printable(s.name)
	switch {
	case now.Connected && s.away:
		s.Note("%s is connected again", name)
	case now.Connected && !s.connected:
		s.Note("%s is connected. Ctrl-C ends the worker. Its turns:", name)
	case now.Err != nil && !s.away:
		s.Note("%s is not connected: %s; trying again", name, kit.Printable(kit.FullText(kit.ProblemOf(now.Err))))
	}
	s.connected, s.away = s.connected || now.Connected, now.Err != nil
	switch {
	case now.Turn == nil:
	case !now.Ended:
		s.began = s.Now()
	case now.Failure != nil:
		s.Note("%s: a turn failed after %s: %s", name, s.Now().Sub(s.began).Round(time.Millisecond), kit.EscapeControls(kit.FullText(kit.ProblemOf(now.Failure)), "\n\t"))
	default:
		s.Note("%s: a turn took %s", name, s.Now().Sub(s.began).Round(time.Millisecond))
	}
}

// turns does the turns of a vacant by an agent. Each turn has a program of its own. If the program asks for a permission
// that the caller decides, the turn ends with the question, and the next turn of the caller's context continues it.
type turns struct {
	*kit.App
	options acpclient.Options
	words   []string

	mu     sync.Mutex
	paused map[string]*job // by caller and context
	closed bool
}

const (
	// maxPaused limits the programs that wait for callers, and pauseTime their time.
	maxPaused = 16
	pauseTime = 30 * time.Minute
)

// question is the JSON of a turn.
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

// prompt returns the message with what was said before.
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
		return none, problem.New(problem.SubstrateMisconfigured, "the turn is not one that this worker knows; update the worker")
	}
	if len(q.Files) > 0 {
		return none, problem.New(problem.SubstrateMisconfigured, "the agent takes only text, and the message has files; unset the setting input of the vacant")
	}
	key := ""
	if q.Context != nil {
		key = q.Caller + "/" + *q.Context
	}
	w.mu.Lock()
	j := w.paused[key]
	delete(w.paused, key)
	w.mu.Unlock()
	if j != nil {
		option, ok := chosen(j.pending.Question, q.Message)
		if !ok {
			return w.pause(key, j)
		}
		j.resume(option, emit)
	} else {
		var err error
		if j, err = w.start(ctx, &q, key != "", emit); err != nil {
			return none, err
		}
	}
	select {
	case asked := <-j.questions:
		j.detach(asked)
		return w.pause(key, j)
	case <-j.done:
	case <-ctx.Done():
		j.cancel(context.Cause(ctx))
		<-j.done
	}
	a := workclient.Answer{}
	if u := j.result.Usage; u != nil {
		a.Usage = &worker.Usage{In: int64(u.In), Out: int64(u.Out), Cached: int64(u.Cached)}
	}
	if j.err == nil && !j.hasText() {
		a.Text = "Done" // an answer needs a text
	}
	return a, j.err
}

// start starts a program for a turn, and gives it the prompt.
func (w *turns) start(ctx context.Context, q *question, mayPause bool, emit func(workclient.Event)) (*job, error) {
	j := &job{emit: emit, questions: make(chan asked), done: make(chan struct{})}
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
		j.result, j.err = agent.Prompt(running, q.prompt(), j.event)
		j.err = errors.Join(j.err, agent.Close())
	}()
	return j, nil
}

// pause ends a turn with the question of its program, which then waits for the next turn.
func (w *turns) pause(key string, j *job) (workclient.Answer, error) {
	w.mu.Lock()
	full := w.closed || len(w.paused) >= maxPaused || w.paused[key] != nil
	if !full {
		w.paused[key] = j
		time.AfterFunc(pauseTime, func() { w.drop(key, j) })
	}
	w.mu.Unlock()
	if full {
		j.cancel(context.Canceled)
		<-j.done
		return workclient.Answer{}, problem.New(problem.SubstrateBusy, "%d programs wait for answers of callers already", maxPaused)
	}
	return workclient.Answer{State: worker.StateAsks, Text: questionText(j.pending.Question)}, nil
}

// drop ends a program that waits for its caller for too long.
func (w *turns) drop(key string, j *job) {
	w.mu.Lock()
	waits := w.paused[key] == j
	if waits {
		delete(w.paused, key)
	}
	w.mu.Unlock()
	if waits {
		j.cancel(context.Canceled)
	}
}

func (w *turns) close() {
	w.mu.Lock()
	w.closed = true
	all := w.paused
	w.paused = map[string]*job{}
	w.mu.Unlock()
	for _, j := range all {
		j.cancel(context.Canceled)
		<-j.done
	}
}

// job is a prompt of a program, which may last for several turns.
type job struct {
	cancel    context.CancelCauseFunc
	questions chan asked
	done      chan struct{} // closed when result and err are set and the program has ended
	result    acpclient.Result
	err       error
	pending   asked // the question while the job is paused

	mu     sync.Mutex
	emit   func(workclient.Event) // of the turn; nil while the job is paused
	missed []workclient.Event     // events while the job is paused
	texts  bool                   // the turn has a text

	thoughts int // bytes
}

// maxThoughts limits the thoughts that the host gets in bytes, because it limits all events of a turn together.
const maxThoughts = 512 << 10

// maxName limits a name in bytes.
const maxName = 128

// short returns the beginning of a name.
func short(name string) string { return strings.ToValidUTF8(name[:min(len(name), maxName)], "") }

// asked is a question whose answer the program waits for.
type asked struct {
	acpclient.Question
	answer chan string
}

func (j *job) ask(ctx context.Context, q acpclient.Question) (string, error) {
	a := asked{q, make(chan string, 1)}
	select {
	case j.questions <- a:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	select {
	case option := <-a.answer:
		return option, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (j *job) detach(a asked) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pending, j.emit = a, nil
}

// resume continues the job in another turn.
func (j *job) resume(option string, emit func(workclient.Event)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.texts = false
	for _, e := range j.missed {
		j.texts = j.texts || e.Type == worker.TypeText
		emit(e)
	}
	j.missed, j.emit = nil, emit
	j.pending.answer <- option
}

func (j *job) hasText() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.texts
}

// event reports an event of the program to the host.
func (j *job) event(e acpclient.Event) error {
	out := workclient.Event{Type: worker.TypeText, Text: e.Text}
	switch {
	case e.Thought != "":
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
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.thoughts += len(e.Thought); j.thoughts > maxThoughts && e.Thought != "" {
		return nil
	}
	j.texts = j.texts || e.Text != ""
	if j.emit == nil {
		j.missed = append(j.missed, out)
		return nil
	}
	j.emit(out)
	return nil
}
