// Package acpclient runs a program that is an agent by the Agent Client Protocol (ACP), gives it prompts, and serves
// what it asks for: files and terminals below a root, and permissions.
//
// A program that breaks the protocol is expected. The package reads its lines itself (lines.go) and gives the library
// only whole lines of JSON, so that a flood waits in the program's pipe and not in memory. Each prompt ends with the
// context of its caller: the agent is asked to cancel, and killed with all that it started if it does not.
//
// The invariants: no file outside of the root is read or written by a request of the agent, whatever links lead there.
// If the mode is read-only, the agent's requests write only below .vault and create no terminals. The program gets only
// the environment variables that its caller names.
package acpclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/acp-go-sdk"

	"github.com/vacancy-host/vacancy/cmd/vacancy/procgroup"
	"github.com/vacancy-host/vacancy/cmd/vacancy/sessionlog"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Limits in time.
const (
	startTime  = time.Minute     // from the start of the program to its first session
	cancelTime = 5 * time.Second // from session/cancel to the end of the prompt
	endTime    = 2 * time.Second // from the end of its input to the end of the program
	outputTime = time.Second     // from the end of a program to the end of its output, which another process may hold
)

// Options are the settings of an agent's program.
type Options struct {
	Command *exec.Cmd // with its arguments and without any pipe; it runs in Root
	Root    string
	// Environ are the variables of the program, TerminalEnviron of its terminals.
	Environ, TerminalEnviron []string
	ReadOnly                 bool
	Approval                 Approval
	// Ask asks a person which option to choose. It returns "" if the person chooses none. If Ask is nil, questions are
	// rejected. The question has a title.
	Ask func(ctx context.Context, q Question) (option string, err error)
	// Meta has extension members of the new session (_meta).
	Meta    map[string]any
	Version string // of this program
	Now     func() time.Time
	Note    func(format string, args ...any) // prints a warning
}

// Agent is a running program with one session.
type Agent struct {
	o       Options
	root    *os.Root
	conn    *acp.ClientSideConnection
	session acp.SessionId
	log     atomic.Pointer[sessionlog.Log] // the program may send requests before the session is opened
	stderr  output
	stdin   io.WriteCloser
	stdout  *os.File
	exited  chan struct{} // closed when the program has ended
	// readsMissing means that the program reads a missing file as an empty one. Gemini CLI reads a file before it writes
	// it, and treats each error as fatal (0.61: its library rejects with an object that is not an Error).
	readsMissing bool

	terminals terminals

	mu     sync.Mutex
	turn   *turn // the prompt under way, or nil
	broken error // why the program is not read any more
	calls  map[string]call
}

// Event is a part of the agent's work on a prompt: a piece of text or of thought, or the state of a tool call.
type Event struct {
	Text, Thought string
	Call          string // id of the tool call
	Title, Status string // title and status of the tool call
}

// Result is the end of a prompt.
type Result struct {
	Session string
	Text    string
	Written []string // files below the root that the agent wrote through this program, sorted
	Why     substrate.FinishReason
	Usage   *substrate.Usage // nil if the agent reports none
}

// turn is a prompt under way.
type turn struct {
	ctx     context.Context
	fail    context.CancelCauseFunc
	emit    func(Event) error
	text    strings.Builder
	written map[string]bool
	bytes   int // bytes that the program wrote
}

// Start starts the program of an agent, and a session. The caller must call Close.
func Start(ctx context.Context, o Options) (a *Agent, err error) {
	a = &Agent{o: o, stderr: output{limit: maxTail}, exited: make(chan struct{}), calls: map[string]call{}}
	a.terminals.all = map[string]*terminal{}
	if a.o.Root, err = filepath.Abs(o.Root); err == nil {
		a.o.Root, err = filepath.EvalSymlinks(a.o.Root) // the session's working directory
	}
	if err != nil {
		return nil, err
	}
	if a.root, err = os.OpenRoot(a.o.Root); err != nil {
		return nil, err
	}
	if err := a.start(); err != nil {
		_ = a.root.Close()
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if err := a.open(ctx); err != nil {
		return nil, errors.Join(a.failure(ctx, err), a.Close())
	}
	log, err := sessionlog.Open(a.o.Root, string(a.session), a.o.Now)
	if err != nil {
		a.o.Note("warning: the session is not logged below %s: %s", a.o.Root, problem.PlainMessage(err))
	}
	a.log.Store(log)
	return a, nil
}

// start starts the program and connects its standard streams.
func (a *Agent) start() error {
	cmd := a.o.Command
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.WaitDelay = a.o.Root, a.o.Environ, &a.stderr, outputTime
	procgroup.Own(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, out, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout = out
	err = cmd.Start()
	_ = out.Close()
	if err != nil {
		_ = stdout.Close()
		return problem.Wrap(problem.Usage, err, "the agent's program does not start: %s", problem.PlainMessage(err))
	}
	a.stdin, a.stdout = stdin, stdout
	release := procgroup.Guard(cmd)
	go func() {
		_ = cmd.Wait()
		procgroup.End(cmd, true) // what the program left running
		release()
		close(a.exited)
		// The lines that are in the pipe already are read; a process that left the group may hold its other end.
		_ = stdout.SetReadDeadline(time.Now().Add(outputTime))
	}()
	in := newLines(a, stdout)
	in.ready.Lock() // the library logs contents until SetLogger
	a.conn = acp.NewClientSideConnection(requests{a}, stdin, in)
	a.conn.SetLogger(slog.New(slog.DiscardHandler))
	in.ready.Unlock()
	return nil
}

// open negotiates the protocol and opens a session.
func (a *Agent) open(ctx context.Context) error {
	about, err := a.conn.Initialize(ctx, acp.InitializeRequest{
		ProtocolVersion: acp.ProtocolVersionNumber,
		ClientInfo:      &acp.Implementation{Name: "vacancy", Version: a.o.Version},
		ClientCapabilities: acp.ClientCapabilities{
			Fs: acp.FileSystemCapabilities{ReadTextFile: true, WriteTextFile: true}, Terminal: true,
		},
	})
	if err != nil {
		return err
	}
	if about.ProtocolVersion != acp.ProtocolVersionNumber {
		return problem.New(problem.SubstrateMisconfigured, "the agent speaks version %d of ACP, expected %d", about.ProtocolVersion, acp.ProtocolVersionNumber)
	}
	a.readsMissing = about.AgentInfo != nil && about.AgentInfo.Name == "gemini-cli"
	s, err := a.conn.NewSession(ctx, acp.NewSessionRequest{Meta: a.o.Meta, Cwd: a.o.Root, McpServers: []acp.McpServer{}})
	a.session = s.SessionId
	return err
}

// Prompt gives the agent a text and waits for the end of its work. emit is called for each piece of it, in order; the
// agent waits while emit does. If emit fails, or ctx ends, the agent is asked to cancel, and killed after five seconds.
// After an error other than a refusal the agent must be closed.
func (a *Agent) Prompt(ctx context.Context, text string, emit func(Event) error) (Result, error) {
	t := &turn{emit: emit, written: map[string]bool{}}
	t.ctx, t.fail = context.WithCancelCause(ctx)
	defer t.fail(nil)
	a.mu.Lock()
	busy := a.turn != nil
	if !busy {
		a.turn = t
	}
	a.mu.Unlock()
	if busy {
		return Result{}, problem.New(problem.Conflict, "the agent works on another prompt")
	}
	if a.o.ReadOnly && !IsReadOnly(text) {
		text = readOnlyBanner + text
	}
	// The request runs without ctx: after a cancellation its answer is awaited. It may hang in a write to a program that
	// does not read.
	type answer struct {
		acp.PromptResponse
		error
	}
	answers := make(chan answer, 1)
	go func() {
		r, err := a.conn.Prompt(context.WithoutCancel(ctx), acp.PromptRequest{SessionId: a.session, Prompt: []acp.ContentBlock{acp.TextBlock(text)}})
		answers <- answer{r, err}
	}()
	var got answer
	select {
	case got = <-answers:
	case <-t.ctx.Done():
		go func() { _ = a.conn.Cancel(context.WithoutCancel(ctx), acp.CancelNotification{SessionId: a.session}) }()
		select {
		case got = <-answers:
		case <-time.After(cancelTime):
			a.kill()
			got = <-answers
		}
	}
	a.mu.Lock()
	a.turn = nil
	r := Result{Session: string(a.session), Text: t.text.String()}
	for path := range t.written {
		r.Written = append(r.Written, path)
	}
	a.mu.Unlock()
	slices.Sort(r.Written)
	if u := got.Usage; u != nil {
		r.Usage = &substrate.Usage{In: u.InputTokens, Out: u.OutputTokens, Turns: 1}
		if u.CachedReadTokens != nil {
			r.Usage.Cached = *u.CachedReadTokens
		}
	}
	if cause := context.Cause(t.ctx); cause != nil {
		return r, cause
	}
	if got.error != nil {
		return r, a.failure(ctx, got.error)
	}
	switch got.StopReason {
	case acp.StopReasonEndTurn:
		r.Why = substrate.Stop
	case acp.StopReasonMaxTokens, acp.StopReasonMaxTurnRequests:
		r.Why = substrate.Length
	case acp.StopReasonRefusal:
		return r, problem.New(problem.SubstrateRefused, "the agent refused the prompt")
	case acp.StopReasonCancelled:
		return r, problem.New(problem.SubstrateUnavailable, "the agent cancelled the prompt itself")
	default:
		r.Why = substrate.Unknown
	}
	return r, nil
}

// readOnlyBanner begins each prompt of a session that may only read.
const readOnlyBanner = "PERMISSION MODE: READ-ONLY\nWrite files only below .vault/, and leave all other files as they are.\n\n"

// IsReadOnly reports whether a prompt begins as one of a session that may only read.
func IsReadOnly(prompt string) bool {
	first, _, _ := strings.Cut(readOnlyBanner, "\n")
	return strings.HasPrefix(prompt, first+"\n")
}

// failure describes an error of a request to the agent.
func (a *Agent) failure(ctx context.Context, err error) error {
	a.mu.Lock()
	broken := a.broken
	a.mu.Unlock()
	if broken != nil {
		return broken
	}
	// The connection may end just before the program does.
	select {
	case <-a.conn.Done():
		select {
		case <-a.exited:
		case <-time.After(outputTime):
		}
	default:
	}
	select {
	case <-a.exited:
		text := "the agent's program ended (" + a.o.Command.ProcessState.String() + ")"
		if last, _ := a.stderr.text(); strings.TrimSpace(last) != "" {
			text += ". Its last output was:\n" + substrate.Redact(strings.TrimSpace(last), maxTail)
		}
		return problem.New(problem.SubstrateUnavailable, "%s", text)
	default:
	}
	var refusal *acp.RequestError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return problem.New(problem.Deadline, "the agent's program did not open a session within %s", startTime)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &refusal) && refusal.Code == authRequired:
		return problem.New(problem.SubstrateMisconfigured, "the agent needs a login: run it once by itself and log in, or pass the variable of its key with --env NAME")
	case errors.As(err, &refusal):
		data, _ := json.Marshal(refusal.Data)
		return problem.New(problem.SubstrateUnavailable, "the agent answered with error %d: %.300s %.300s", refusal.Code, refusal.Message, data)
	}
	return err
}

// authRequired is the code of the error of an agent that needs a login.
const authRequired = -32000

// Close ends the program, its terminals and all that they started. A program that does not end with its input is killed.
func (a *Agent) Close() error {
	a.terminals.releaseAll()
	_ = a.stdin.Close()
	for _, end := range []struct {
		after time.Duration
		kill  bool
	}{{endTime, false}, {procgroup.Grace, true}} {
		select {
		case <-a.exited:
		case <-time.After(end.after):
			procgroup.End(a.o.Command, end.kill)
		}
	}
	<-a.exited
	<-a.conn.Done()
	_ = a.stdout.Close()
	return errors.Join(a.log.Load().Close(), a.root.Close())
}

// abort ends the reading of the program, and with it the connection, for a reason.
func (a *Agent) abort(reason error) {
	a.mu.Lock()
	a.broken = cmp.Or(a.broken, reason)
	a.mu.Unlock()
	a.kill()
}

// kill ends the program with all that it started.
func (a *Agent) kill() {
	select {
	case <-a.exited: // its number may be another process's
	default:
		procgroup.End(a.o.Command, true)
	}
}

// current returns the prompt under way, unless it was cancelled.
func (a *Agent) current() *turn {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.turn == nil || a.turn.ctx.Err() != nil {
		return nil
	}
	return a.turn
}

// maxTail limits the kept end of the program's standard error in bytes.
const maxTail = 2 << 10

// requests serves the requests of an agent.
type requests struct{ *Agent }

var _ acp.Client = requests{}

// SessionUpdate implements acp.Client. The updates do not reach the library (lines.go).
func (requests) SessionUpdate(context.Context, acp.SessionNotification) error { return nil }

// refuse returns the error of a request of the agent.
func refuse(format string, args ...any) error {
	return &acp.RequestError{Code: -32602, Message: fmt.Sprintf(format, args...)}
}
