// Package acpclient runs an agent program that speaks the Agent Client Protocol (ACP), sends it prompts, and serves its
// requests for files and terminals below a root, and for permissions.
//
// The program may violate the protocol. The package reads the program's lines itself (lines.go) and passes only complete
// lines of JSON to the library, so that excess output waits in the program's pipe and not in memory. When the context of
// a prompt ends, the package asks the agent to cancel, and kills the program with all processes that it started if it
// does not cancel in time.
//
// The following holds at all times. The agent's requests read and write no file outside the root, even through links.
// If the mode is read-only, they write only below .vault and create no terminals. The program gets only the environment
// variables in Options.
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

// Time limits.
const (
	startTime  = time.Minute     // limit for a started program to open its first session
	cancelTime = 5 * time.Second // limit for a prompt to end after session/cancel
	endTime    = 2 * time.Second // limit for the program to end after its input was closed
	outputTime = time.Second     // limit for the output to end after the program; another process may hold the pipe open
)

// Options are the settings of an agent's program.
type Options struct {
	Command *exec.Cmd // the program with its arguments and without pipes; it runs in Root
	Root    string
	// Environ is the environment of the program, and TerminalEnviron is the environment of its terminals.
	Environ, TerminalEnviron []string
	ReadOnly                 bool
	Approval                 Approval
	// Ask asks a person which option to choose. It returns "" if the person chooses none. The title of the tool call in
	// q is never nil. If Ask is nil, all questions are answered with a rejection.
	Ask func(ctx context.Context, q Question) (option string, err error)
	// Meta contains the extension members (_meta) of the request for a new session.
	Meta    map[string]any
	Version string // version of this program
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
	// readsMissing means that the program gets an empty text when it reads a missing file. Gemini CLI reads a file before
	// it writes the file, and treats each error as fatal (in version 0.61, its library rejects with an object that is not
	// an Error).
	readsMissing bool

	terminals terminals

	mu     sync.Mutex
	turn   *turn           // running prompt, or nil
	broken error           // reason why the program's output is no longer read, or nil
	calls  map[string]call // running tool calls by id
}

// Event is a part of the agent's work on a prompt: a piece of text or of thought, or the state of a tool call.
type Event struct {
	Text, Thought string
	Call          string // id of the tool call
	Title, Status string // title and status of the tool call
}

// Result is the outcome of a prompt.
type Result struct {
	Session string
	Text    string
	Written []string               // files below the root that the agent wrote through this program, sorted
	Why     substrate.FinishReason // reason why the agent ended its answer
	Usage   *substrate.Usage       // nil if the agent reports none
}

// turn is a running prompt.
type turn struct {
	ctx     context.Context
	fail    context.CancelCauseFunc // ends ctx and the prompt with an error
	emit    func(Event) error
	text    strings.Builder
	written map[string]bool
	bytes   int // bytes that the program wrote
}

// Start starts the program of an agent, and opens a session. The caller must call Close.
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
		procgroup.End(cmd, true) // processes that the program left running
		release()
		close(a.exited)
		// Lines that are already in the pipe are still read. The deadline is necessary because a process that left the
		// group may hold the other end of the pipe.
		_ = stdout.SetReadDeadline(time.Now().Add(outputTime))
	}()
	in := newLines(a, stdout)
	in.ready.Lock() // no line is read before SetLogger, because the library would log its content
	a.conn = acp.NewClientSideConnection(requests{a}, stdin, in)
	a.conn.SetLogger(slog.New(slog.DiscardHandler))
	in.ready.Unlock()
	return nil
}

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

// Prompt sends a prompt to the agent and waits for the outcome. It calls emit for each event in order, and reads no more
// of the agent's output until emit returns. If emit fails or ctx ends, Prompt asks the agent to cancel, and kills it if
// it has not answered within five seconds. After an error other than a refusal, the caller must close the agent.
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
	// The request does not use ctx, because its answer is awaited after a cancellation. It runs in a goroutine, because
	// its write hangs if the program does not read.
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

func IsReadOnly(prompt string) bool {
	first, _, _ := strings.Cut(readOnlyBanner, "\n")
	return strings.HasPrefix(prompt, first+"\n")
}

func (a *Agent) failure(ctx context.Context, err error) error {
	a.mu.Lock()
	broken := a.broken
	a.mu.Unlock()
	if broken != nil {
		return broken
	}
	// The connection may end just before the program does, so wait briefly for the program's exit state.
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

// authRequired is the ACP error code of an agent that needs a login.
const authRequired = -32000

// Close ends the program, its terminals and all processes that they started. It closes the program's input, asks the
// program to end if it still runs after endTime, and finally kills it.
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

// abort kills the program, and records reason as the cause of all failed requests.
func (a *Agent) abort(reason error) {
	a.mu.Lock()
	a.broken = cmp.Or(a.broken, reason)
	a.mu.Unlock()
	a.kill()
}

func (a *Agent) kill() {
	select {
	case <-a.exited: // its process id may now belong to another process
	default:
		procgroup.End(a.o.Command, true)
	}
}

// current returns the running prompt, or nil if there is none or it was canceled.
func (a *Agent) current() *turn {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.turn == nil || a.turn.ctx.Err() != nil {
		return nil
	}
	return a.turn
}

// maxTail limits the bytes that are kept from the end of the program's standard error.
const maxTail = 2 << 10

// requests serves the requests of an agent.
type requests struct{ *Agent }

var _ acp.Client = requests{}

// SessionUpdate implements acp.Client. It does nothing, because lines.go handles the updates.
func (requests) SessionUpdate(context.Context, acp.SessionNotification) error { return nil }

func refuse(format string, args ...any) error {
	return &acp.RequestError{Code: -32602, Message: fmt.Sprintf(format, args...)}
}
