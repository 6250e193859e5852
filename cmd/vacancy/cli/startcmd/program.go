package startcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/procgroup"
	"github.com/vacancy-host/vacancy/cmd/vacancy/scaffold"
)

// command returns the shell command that starts the program, or "" if the agent has no program.
func (w *watching) command() string {
	if w.start != "" {
		return w.start
	}
	if w.file != agentFile && w.port == 0 {
		return "" // the folder has several agents, and the program may belong to another one
	}
	_, start := scaffold.Find(w.has)
	return start
}

func (w *watching) has(name string) bool {
	_, err := os.Stat(filepath.Join(w.dir, name))
	return err == nil
}

// process is one run of an agent's program.
type process struct {
	cmd      *exec.Cmd
	began    time.Time
	exited   chan struct{} // closed when the program itself has ended
	done     chan struct{} // closed when the process group has ended and the output is printed
	stopping atomic.Bool   // stop was called
	killed   atomic.Bool   // the process group was killed
}

// begin starts the program. If the agent has no program or the start fails, the returned process
// has no cmd.
func (w *watching) begin() *process {
	command := w.command()
	if command == "" {
		return &process{began: w.Now()}
	}
	cmd := procgroup.Shell(command)
	cmd.Dir = w.dir
	cmd.Env = slices.Clone(w.environ)
	if w.port != 0 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("PORT=%d", w.port))
	}
	if w.secret != "" {
		cmd.Env = append(cmd.Env, secretEnv+"="+w.secret)
	}
	procgroup.Own(cmd)
	lines, out, err := os.Pipe()
	if err == nil {
		cmd.Stdout, cmd.Stderr = out, out
		if err = errors.Join(cmd.Start(), out.Close()); err != nil {
			_ = lines.Close()
		}
	}
	if err != nil {
		w.print(kit.Printable(command) + ": " + kit.Printable(err.Error()))
		return &process{began: w.Now()}
	}
	p := &process{cmd: cmd, began: w.Now(), exited: make(chan struct{}), done: make(chan struct{})}
	go p.follow(lines, w.print)
	return p
}

// outputTime limits the wait for the rest of the output after the program's group has ended,
// because a process that left the group may hold the other end of the pipe.
const outputTime = time.Second

func (p *process) follow(lines *os.File, print func(string)) {
	defer close(p.done)
	release := procgroup.Guard(p.cmd)
	printed := make(chan struct{})
	go func() { defer close(printed); printLines(lines, print) }()
	err := p.cmd.Wait()
	stopping := p.stopping.Load()
	close(p.exited)
	for !p.killed.Load() && procgroup.IsAlive(p.cmd) {
		time.Sleep(groupPause)
	}
	release()
	select {
	case <-printed:
	case <-time.After(outputTime):
	}
	_ = lines.Close()
	<-printed
	if err != nil && !stopping {
		print("ended: " + kit.Printable(err.Error()))
	}
}

// maxLine limits the length of a program's printed line, in bytes.
const maxLine = 16 << 10

func printLines(r io.Reader, print func(string)) {
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, more, err := in.ReadLine()
		if err != nil {
			return
		}
		print(kit.Printable(string(line)))
		// Omit the rest of a line that is longer than maxLine.
		for more && err == nil {
			_, more, err = in.ReadLine()
		}
	}
}

// startTime limits how long a program may take until it listens.
const startTime = 5 * time.Second

// awaitStart waits at most startTime until the program listens or ends.
func (w *watching) awaitStart(ctx context.Context, program *process) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if program.cmd != nil {
		w.waitForPort(ctx, program.hasEnded)
	}
}

func (w *watching) waitForPort(ctx context.Context, hasEnded func() bool) {
	for w.port != 0 && !hasEnded() && !w.taken(w.port) && cloud.Wait(ctx, watchPause) == nil {
	}
}

func (p *process) hasEnded() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// groupPause is the time between two checks whether a program's process group is alive.
const groupPause = 50 * time.Millisecond

func (p *process) stop() {
	if p.cmd == nil || p.hasEnded() {
		return
	}
	p.stopping.Store(true)
	procgroup.End(p.cmd, false)
	select {
	case <-p.done:
	case <-time.After(procgroup.Grace):
		procgroup.End(p.cmd, true)
		p.killed.Store(true) // follow must not wait for the group, which may still contain zombies
		<-p.done
	}
}
