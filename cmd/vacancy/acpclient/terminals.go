package acpclient

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/coder/acp-go-sdk"

	"github.com/vacancy-host/vacancy/cmd/vacancy/procgroup"
	"github.com/vacancy-host/vacancy/cmd/vacancy/sessionlog"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const (
	maxTerminals          = 32
	defaultTerminalOutput = 1_000_000 // bytes
	maxTerminalOutput     = 4 << 20   // bytes
	terminalTimeout       = time.Hour
)

type terminals struct {
	mu           sync.Mutex
	createdCount int
	byID         map[string]*terminal
	closed       bool // no more terminals may be created
}

type terminal struct {
	tailBuffer
	cmd  *exec.Cmd
	kill context.CancelFunc
	done chan struct{} // closed when the command and all its processes have ended
}

// tailBuffer is a writer that stores only the last bytes written to it.
type tailBuffer struct {
	limit int

	mu          sync.Mutex
	buf         []byte
	isTruncated bool
}

func (o *tailBuffer) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.buf = append(o.buf, p...); len(o.buf) > 2*o.limit+4096 {
		o.buf, o.isTruncated = bytes.Clone(o.buf[len(o.buf)-o.limit:]), true
	}
	return len(p), nil
}

// tail returns the end of the output, and whether earlier output is missing.
func (o *tailBuffer) tail() (string, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	tail, isTruncated := o.buf, o.isTruncated
	if len(tail) > o.limit {
		tail, isTruncated = tail[len(tail)-o.limit:], true
	}
	for i := 0; isTruncated && i < utf8.UTFMax && len(tail) > 0 && !utf8.RuneStart(tail[0]); i++ {
		tail = tail[1:]
	}
	return strings.ToValidUTF8(string(tail), "\uFFFD"), isTruncated
}

func (t *terminal) exitStatus() *acp.TerminalExitStatus {
	select {
	case <-t.done:
	default:
		return nil
	}
	if name := procgroup.Signal(t.cmd); name != "" {
		return &acp.TerminalExitStatus{Signal: &name}
	}
	code := t.cmd.ProcessState.ExitCode()
	return &acp.TerminalExitStatus{ExitCode: &code}
}

// CreateTerminal implements acp.Client. The command is killed when the prompt ends.
func (r requestHandler) CreateTerminal(_ context.Context, q acp.CreateTerminalRequest) (acp.CreateTerminalResponse, error) {
	var empty acp.CreateTerminalResponse
	runningTurn := r.currentTurn()
	dir := "."
	if q.Cwd != nil {
		var err error
		if dir, err = r.relativeName(*q.Cwd); err != nil {
			return empty, err
		}
	}
	info, err := r.root.Stat(dir) // fails if a link leads out of the root
	switch {
	case r.opts.ReadOnly:
		return empty, refusalError("the mode is read-only, so no terminal can be created")
	case runningTurn == nil:
		return empty, refusalError("no prompt is running")
	case err != nil:
		return empty, fileError(dir, err)
	case !info.IsDir():
		return empty, refusalError("cwd: expected a folder, got %.300s", dir)
	}
	ctx, kill := context.WithTimeout(runningTurn.ctx, terminalTimeout)
	t := &terminal{tailBuffer: tailBuffer{limit: defaultTerminalOutput}, cmd: exec.CommandContext(ctx, q.Command, q.Args...), kill: kill, done: make(chan struct{})}
	t.cmd.Cancel = func() error { procgroup.End(t.cmd, true); return nil }
	if q.OutputByteLimit != nil {
		t.limit = min(max(*q.OutputByteLimit, 0), maxTerminalOutput)
	}
	t.cmd.Dir, t.cmd.Env = filepath.Join(r.opts.Root, dir), slices.Clone(r.opts.TerminalEnviron)
	for _, v := range q.Env {
		t.cmd.Env = append(t.cmd.Env, v.Name+"="+v.Value)
	}
	t.cmd.Stdout, t.cmd.Stderr, t.cmd.WaitDelay = t, t, outputTimeout
	procgroup.Own(t.cmd)
	terms := &r.terminals
	terms.mu.Lock()
	defer terms.mu.Unlock()
	if terms.closed || len(terms.byID) >= maxTerminals {
		kill()
		return empty, refusalError("the limit of %d terminals is reached; release one", maxTerminals)
	}
	if err := t.cmd.Start(); err != nil {
		kill()
		return empty, refusalError("command: %.300s does not start: %s", q.Command, problem.PlainMessage(err))
	}
	release := procgroup.Guard(t.cmd)
	terms.createdCount++
	id := fmt.Sprintf("terminal-%d", terms.createdCount)
	terms.byID[id] = t
	go func() {
		_ = t.cmd.Wait()
		procgroup.End(t.cmd, true) // processes that the command left running
		close(t.done)
		kill()
		release()
	}()
	name, _, _ := strings.Cut(strings.TrimSpace(q.Command), " ") // arguments may be secret
	r.log.Load().Write(sessionlog.CreateTerminal, "terminal_id", id, "command", filepath.Base(name))
	return acp.CreateTerminalResponse{TerminalId: id}, nil
}

func (a *Agent) findTerminal(id string) *terminal {
	a.terminals.mu.Lock()
	defer a.terminals.mu.Unlock()
	return a.terminals.byID[id]
}

// TerminalOutput implements acp.Client.
func (r requestHandler) TerminalOutput(_ context.Context, q acp.TerminalOutputRequest) (out acp.TerminalOutputResponse, err error) {
	if t := r.findTerminal(q.TerminalId); t != nil {
		out.ExitStatus = t.exitStatus() // read first, so that the output is complete if there is a status
		out.Output, out.Truncated = t.tail()
	}
	return out, nil
}

// WaitForTerminalExit implements acp.Client.
func (r requestHandler) WaitForTerminalExit(ctx context.Context, q acp.WaitForTerminalExitRequest) (out acp.WaitForTerminalExitResponse, err error) {
	t := r.findTerminal(q.TerminalId)
	if t == nil {
		return out, nil
	}
	select {
	case <-t.done:
	case <-ctx.Done():
		return out, ctx.Err()
	}
	s := t.exitStatus()
	out.ExitCode, out.Signal = s.ExitCode, s.Signal
	return out, nil
}

// KillTerminal implements acp.Client.
func (r requestHandler) KillTerminal(_ context.Context, q acp.KillTerminalRequest) (out acp.KillTerminalResponse, err error) {
	if t := r.findTerminal(q.TerminalId); t != nil {
		t.kill()
	}
	return out, nil
}

func (r requestHandler) ReleaseTerminal(_ context.Context, q acp.ReleaseTerminalRequest) (out acp.ReleaseTerminalResponse, err error) {
	if t := r.findTerminal(q.TerminalId); t != nil {
		t.kill()
		<-t.done
		r.terminals.mu.Lock()
		delete(r.terminals.byID, q.TerminalId)
		r.terminals.mu.Unlock()
	}
	return out, nil
}

func (t *terminals) releaseAll() {
	t.mu.Lock()
	t.closed = true
	released := t.byID
	t.byID = map[string]*terminal{}
	t.mu.Unlock()
	for _, term := range released {
		term.kill()
		<-term.done
	}
}
