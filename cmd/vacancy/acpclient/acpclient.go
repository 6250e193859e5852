// Package acpclient runs an agent program that speaks the Agent Client Protocol (ACP). It sends
// prompts to the program, and serves its requests for permissions, files and terminals.
//
// The program is not trusted. Its requests reach no file outside the root, even through links. If
// the mode is read-only, its requests write only below .vault and create no terminals. The program
// gets only the environment variables in [Options].
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

const (
	startTimeout  = time.Minute     // limit for opening the first session
	cancelTimeout = 5 * time.Second // limit for a prompt to end after session/cancel
	exitTimeout   = 2 * time.Second // limit for the program to end after its input was closed
	outputTimeout = time.Second     // limit for output after the program has ended; another process may hold the pipe open
)

// Options are the settings of an agent's program.
type Options struct {
	Command                  *exec.Cmd // program without pipes; it runs in Root
	Root                     string
	Environ, TerminalEnviron []string
	ReadOnly                 bool
	Approval                 Approval
	// Ask asks a person to choose an option, and returns "" if the person chooses none. The title
	// of the tool call in q is never nil. If Ask is nil, all questions are rejected.
	Ask func(ctx context.Context, q Question) (option string, err error)
	// Meta contains the _meta members of the request for a new session.
	Meta    map[string]any
	Version string
	Now     func() time.Time
	Logf    func(format string, args ...any)
}

// Agent is a running program with one session.
type Agent struct {
	opts    Options
	root    *os.Root
	conn    *acp.ClientSideConnection
	session acp.SessionId
	log     atomic.Pointer[sessionlog.Log] // the program may send requests before the session is opened
	stderr  tailBuffer
	stdin   io.WriteCloser
	stdout  *os.File
	exited  chan struct{}
	// readsMissingAsEmpty makes the read of a missing file return an empty text. Gemini CLI 0.61
	// reads each file before it writes the file, and treats an error as fatal.
	readsMissingAsEmpty bool

	terminals terminals

	mu          sync.Mutex
	turn        *turn // nil if no prompt is running
	abortReason error // reason why output is no longer read, or nil
	toolCalls   map[string]toolCall
}

type Event struct {
	Text, Thought string
	ToolCallID    string
	Title, Status string
}

type Result struct {
	Session      string
	Text         string
	WrittenPaths []string // sorted paths of files that the agent wrote through this program
	FinishReason substrate.FinishReason
	Usage        *substrate.Usage // nil if the agent reports none
}

type turn struct {
	ctx          context.Context
	fail         context.CancelCauseFunc // ends ctx and the prompt with an error
	emit         func(Event) error
	text         strings.Builder
	writtenPaths map[string]bool
	outputBytes  int
}

// Start starts an agent's program and opens a session. The caller must call Close.
func Start(ctx context.Context, o Options) (a *Agent, err error) {
	a = &Agent{opts: o, stderr: tailBuffer{limit: maxStderrTail}, exited: make(chan struct{}), toolCalls: map[string]toolCall{}}
	a.terminals.byID = map[string]*terminal{}
	if a.opts.Root, err = filepath.Abs(o.Root); err == nil {
		a.opts.Root, err = filepath.EvalSymlinks(a.opts.Root)
	}
	if err != nil {
		return nil, err
	}
	if a.root, err = os.OpenRoot(a.opts.Root); err != nil {
		return nil, err
	}
	if err := a.startProgram(); err != nil {
		_ = a.root.Close()
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := a.openSession(ctx); err != nil {
		return nil, errors.Join(a.explainFailure(ctx, err), a.Close())
	}
	log, err := sessionlog.Open(a.opts.Root, string(a.session), a.opts.Now)
	if err != nil {
		a.opts.Logf("warning: the session is not logged below %s: %s", a.opts.Root, problem.PlainMessage(err))
	}
	a.log.Store(log)
	return a, nil
}

func (a *Agent) startProgram() error {
	cmd := a.opts.Command
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.WaitDelay = a.opts.Root, a.opts.Environ, &a.stderr, outputTimeout
	procgroup.Own(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, stdoutWriter, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout = stdoutWriter
	err = cmd.Start()
	_ = stdoutWriter.Close()
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
		// The deadline is necessary because a process that left the group may hold the pipe open.
		_ = stdout.SetReadDeadline(time.Now().Add(outputTimeout))
	}()
	reader := newLineReader(a, stdout)
	reader.readMu.Lock() // no line is read before SetLogger, because the library would log its content
	a.conn = acp.NewClientSideConnection(requestHandler{a}, stdin, reader)
	a.conn.SetLogger(slog.New(slog.DiscardHandler))
	reader.readMu.Unlock()
	return nil
}

func (a *Agent) openSession(ctx context.Context) error {
	initialized, err := a.conn.Initialize(ctx, acp.InitializeRequest{
		ProtocolVersion: acp.ProtocolVersionNumber,
		ClientInfo:      &acp.Implementation{Name: "vacancy", Version: a.opts.Version},
		ClientCapabilities: acp.ClientCapabilities{
			Fs: acp.FileSystemCapabilities{ReadTextFile: true, WriteTextFile: true}, Terminal: true,
		},
	})
	if err != nil {
		return err
	}
	if initialized.ProtocolVersion != acp.ProtocolVersionNumber {
		return problem.New(problem.SubstrateMisconfigured, "the agent speaks version %d of ACP, expected %d", initialized.ProtocolVersion, acp.ProtocolVersionNumber)
	}
	a.readsMissingAsEmpty = initialized.AgentInfo != nil && initialized.AgentInfo.Name == "gemini-cli"
	s, err := a.conn.NewSession(ctx, acp.NewSessionRequest{Meta: a.opts.Meta, Cwd: a.opts.Root, McpServers: []acp.McpServer{}})
	a.session = s.SessionId
	return err
}

// Prompt sends a prompt and waits for the outcome. It calls emit for each event in order. If emit
// fails or ctx ends, Prompt asks the agent to cancel, and kills the agent five seconds later if it
// has not answered. After an error other than a refusal, the caller must close the agent.
func (a *Agent) Prompt(ctx context.Context, text string, emit func(Event) error) (Result, error) {
	t := &turn{emit: emit, writtenPaths: map[string]bool{}}
	t.ctx, t.fail = context.WithCancelCause(ctx)
	defer t.fail(nil)
	a.mu.Lock()
	isBusy := a.turn != nil
	if !isBusy {
		a.turn = t
	}
	a.mu.Unlock()
	if isBusy {
		return Result{}, problem.New(problem.Conflict, "the agent is still working on another prompt")
	}
	if a.opts.ReadOnly && !IsReadOnly(text) {
		text = readOnlyBanner + text
	}
	// The request does not use ctx, because Prompt awaits the answer even after a cancellation. It
	// runs in a goroutine, because its write hangs if the program does not read.
	type answer struct {
		acp.PromptResponse
		error
	}
	answers := make(chan answer, 1)
	go func() {
		r, err := a.conn.Prompt(context.WithoutCancel(ctx), acp.PromptRequest{SessionId: a.session, Prompt: []acp.ContentBlock{acp.TextBlock(text)}})
		answers <- answer{r, err}
	}()
	var outcome answer
	select {
	case outcome = <-answers:
	case <-t.ctx.Done():
		go func() { _ = a.conn.Cancel(context.WithoutCancel(ctx), acp.CancelNotification{SessionId: a.session}) }()
		select {
		case outcome = <-answers:
		case <-time.After(cancelTimeout):
			a.kill()
			outcome = <-answers
		}
	}
	a.mu.Lock()
	a.turn = nil
	r := Result{Session: string(a.session), Text: t.text.String()}
	for path := range t.writtenPaths {
		r.WrittenPaths = append(r.WrittenPaths, path)
	}
	a.mu.Unlock()
	slices.Sort(r.WrittenPaths)
	if u := outcome.Usage; u != nil {
		r.Usage = &substrate.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, Turns: 1}
		if u.CachedReadTokens != nil {
			r.Usage.CachedTokens = *u.CachedReadTokens
		}
	}
	if cause := context.Cause(t.ctx); cause != nil {
		return r, cause
	}
	if outcome.error != nil {
		return r, a.explainFailure(ctx, outcome.error)
	}
	switch outcome.StopReason {
	case acp.StopReasonEndTurn:
		r.FinishReason = substrate.FinishStop
	case acp.StopReasonMaxTokens, acp.StopReasonMaxTurnRequests:
		r.FinishReason = substrate.FinishLength
	case acp.StopReasonRefusal:
		return r, problem.New(problem.SubstrateRefused, "the agent refused the prompt")
	case acp.StopReasonCancelled:
		return r, problem.New(problem.SubstrateUnavailable, "the agent cancelled the prompt itself")
	default:
		r.FinishReason = substrate.FinishUnknown
	}
	return r, nil
}

const readOnlyBanner = "PERMISSION MODE: READ-ONLY\nWrite files only below .vault/, and leave all other files as they are.\n\n"

func IsReadOnly(prompt string) bool {
	firstLine, _, _ := strings.Cut(readOnlyBanner, "\n")
	return strings.HasPrefix(prompt, firstLine+"\n")
}

func (a *Agent) explainFailure(ctx context.Context, err error) error {
	a.mu.Lock()
	abortReason := a.abortReason
	a.mu.Unlock()
	if abortReason != nil {
		return abortReason
	}
	// The connection may end just before the program does.
	select {
	case <-a.conn.Done():
		select {
		case <-a.exited:
		case <-time.After(outputTimeout):
		}
	default:
	}
	select {
	case <-a.exited:
		text := "the agent's program ended (" + a.opts.Command.ProcessState.String() + ")"
		if stderrTail, _ := a.stderr.tail(); strings.TrimSpace(stderrTail) != "" {
			text += ". Its last output was:\n" + substrate.Redact(strings.TrimSpace(stderrTail), maxStderrTail)
		}
		return problem.New(problem.SubstrateUnavailable, "%s", text)
	default:
	}
	var refusal *acp.RequestError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return problem.New(problem.DeadlineExceeded, "the agent's program did not open a session within %s", startTimeout)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &refusal) && refusal.Code == authRequired:
		return problem.New(problem.SubstrateMisconfigured, "the agent needs a login: start its program yourself and log in, or pass the environment variable with its key by --env NAME")
	case errors.As(err, &refusal):
		data, _ := json.Marshal(refusal.Data)
		return problem.New(problem.SubstrateUnavailable, "the agent answered with error %d: %.300s %.300s", refusal.Code, refusal.Message, data)
	}
	return err
}

const authRequired = -32000

// Close ends the program, its terminals and all processes that they started.
func (a *Agent) Close() error {
	a.terminals.releaseAll()
	_ = a.stdin.Close()
	for _, step := range []struct {
		after time.Duration
		kill  bool
	}{{exitTimeout, false}, {procgroup.GracePeriod, true}} {
		select {
		case <-a.exited:
		case <-time.After(step.after):
			procgroup.End(a.opts.Command, step.kill)
		}
	}
	<-a.exited
	<-a.conn.Done()
	_ = a.stdout.Close()
	return errors.Join(a.log.Load().Close(), a.root.Close())
}

// abort kills the program and records the reason.
func (a *Agent) abort(reason error) {
	a.mu.Lock()
	a.abortReason = cmp.Or(a.abortReason, reason)
	a.mu.Unlock()
	a.kill()
}

func (a *Agent) kill() {
	select {
	case <-a.exited: // its process id may now belong to another process
	default:
		procgroup.End(a.opts.Command, true)
	}
}

func (a *Agent) currentTurn() *turn {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.turn == nil || a.turn.ctx.Err() != nil {
		return nil
	}
	return a.turn
}

const maxStderrTail = 2 << 10

type requestHandler struct{ *Agent }

var _ acp.Client = requestHandler{}

// SessionUpdate implements acp.Client. lines.go handles the updates.
func (requestHandler) SessionUpdate(context.Context, acp.SessionNotification) error { return nil }

func refusalError(format string, args ...any) error {
	return &acp.RequestError{Code: -32602, Message: fmt.Sprintf(format, args...)}
}
