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

// Limits of terminals.
const (
	maxTerminals  = 32
	defaultOutput = 1_000_000 // bytes
	maxTerminal   = 4 << 20   // bytes of output
	terminalTime  = time.Hour
)

type terminals struct {
	mu    sync.Mutex
	count int
	all   map[string]*terminal
	ended bool // no more terminals may be created
}

// terminal is a command of the agent.
type terminal struct {
	output
	cmd  *exec.Cmd
	kill context.CancelFunc
	done chan struct{} // closed when the command and all processes that it started have ended
}

// output is a writer that stores only the last bytes written to it.
type output struct {
	limit int // bytes

	mu    sync.Mutex
	end   []byte
	isCut bool // earlier output was discarded
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.end = append(o.end, p...); len(o.end) > 2*o.limit+4096 {
		o.end, o.isCut = bytes.Clone(o.end[len(o.end)-o.limit:]), true
	}
	return len(p), nil
}

// text returns the end of the output, without an incomplete first character, and whether earlier output is missing.
func (o *output) text() (string, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	end, cut := o.end, o.isCut
	if len(end) > o.limit {
		end, cut = end[len(end)-o.limit:], true
	}
	for i := 0; cut && i < utf8.UTFMax && len(end) > 0 && !utf8.RuneStart(end[0]); i++ {
		end = end[1:]
	}
	return strings.ToValidUTF8(string(end), "\uFFFD"), cut
}

// status returns how the command ended, or nil if it is still running.
func (t *terminal) status() *acp.TerminalExitStatus {
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

// CreateTerminal implements acp.Client. The command is killed when the prompt ends, or after terminalTime.
func (r requests) CreateTerminal(_ context.Context, q acp.CreateTerminalRequest) (acp.CreateTerminalResponse, error) {
	var none acp.CreateTerminalResponse
	p := r.current()
	dir := "."
	if q.Cwd != nil {
		var err error
		if dir, err = r.name(*q.Cwd); err != nil {
			return none, err
		}
	}
	info, err := r.root.Stat(dir) // fails if a link leads out of the root
	switch {
	case r.o.ReadOnly:
		return none, refuse("the mode is read-only, and a terminal could write files")
	case p == nil:
		return none, refuse("no prompt is under way")
	case err != nil:
		return none, fileError(dir, err)
	case !info.IsDir():
		return none, refuse("cwd: expected a folder, got %.300s", dir)
	}
	ctx, kill := context.WithTimeout(p.ctx, terminalTime)
	t := &terminal{output: output{limit: defaultOutput}, cmd: exec.CommandContext(ctx, q.Command, q.Args...), kill: kill, done: make(chan struct{})}
	t.cmd.Cancel = func() error { procgroup.End(t.cmd, true); return nil }
	if q.OutputByteLimit != nil {
		t.limit = min(max(*q.OutputByteLimit, 0), maxTerminal)
	}
	t.cmd.Dir, t.cmd.Env = filepath.Join(r.o.Root, dir), slices.Clone(r.o.TerminalEnviron)
	for _, v := range q.Env {
		t.cmd.Env = append(t.cmd.Env, v.Name+"="+v.Value)
	}
	t.cmd.Stdout, t.cmd.Stderr, t.cmd.WaitDelay = t, t, outputTime
	procgroup.Own(t.cmd)
	pool := &r.terminals
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if pool.ended || len(pool.all) >= maxTerminals {
		kill()
		return none, refuse("the limit of %d terminals is reached; release one", maxTerminals)
	}
	if err := t.cmd.Start(); err != nil {
		kill()
		return none, refuse("command: %.300s does not start: %s", q.Command, problem.PlainMessage(err))
	}
	release := procgroup.Guard(t.cmd)
	pool.count++
	id := fmt.Sprintf("terminal-%d", pool.count)
	pool.all[id] = t
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

func (a *Agent) find(id string) *terminal {
	a.terminals.mu.Lock()
	defer a.terminals.mu.Unlock()
	return a.terminals.all[id]
}

// TerminalOutput implements acp.Client. The output of an unknown terminal is empty.
func (r requests) TerminalOutput(_ context.Context, q acp.TerminalOutputRequest) (out acp.TerminalOutputResponse, err error) {
	if t := r.find(q.TerminalId); t != nil {
		out.ExitStatus = t.status() // read before the output, so that the output is complete if there is a status
		out.Output, out.Truncated = t.text()
	}
	return out, nil
}

// WaitForTerminalExit implements acp.Client. It returns at once if the terminal is unknown.
func (r requests) WaitForTerminalExit(ctx context.Context, q acp.WaitForTerminalExitRequest) (out acp.WaitForTerminalExitResponse, err error) {
	t := r.find(q.TerminalId)
	if t == nil {
		return out, nil
	}
	select {
	case <-t.done:
	case <-ctx.Done():
		return out, ctx.Err()
	}
	s := t.status()
	out.ExitCode, out.Signal = s.ExitCode, s.Signal
	return out, nil
}

// KillTerminal implements acp.Client. The output of the terminal can still be read.
func (r requests) KillTerminal(_ context.Context, q acp.KillTerminalRequest) (out acp.KillTerminalResponse, err error) {
	if t := r.find(q.TerminalId); t != nil {
		t.kill()
	}
	return out, nil
}

func (r requests) ReleaseTerminal(_ context.Context, q acp.ReleaseTerminalRequest) (out acp.ReleaseTerminalResponse, err error) {
	if t := r.find(q.TerminalId); t != nil {
		t.kill()
		<-t.done
		r.terminals.mu.Lock()
		delete(r.terminals.all, q.TerminalId)
		r.terminals.mu.Unlock()
	}
	return out, nil
}

// releaseAll kills all terminals, and prevents the creation of new ones.
func (t *terminals) releaseAll() {
	t.mu.Lock()
	t.ended = true
	released := t.all
	t.all = map[string]*terminal{}
	t.mu.Unlock()
	for _, term := range released {
		term.kill()
		<-term.done
	}
}
