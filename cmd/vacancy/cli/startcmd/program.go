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

// programCommand returns the shell command of the program, or "" if the agent has no program.
func (w *watcher) programCommand() string {
	if w.start != "" {
		return w.start
	}
	if w.file != agentFile && w.port == 0 {
		return "" // the program in the folder may belong to another agent
	}
	_, start := scaffold.FindLanguage(w.hasFile)
	return start
}

func (w *watcher) hasFile(name string) bool {
	_, err := os.Stat(filepath.Join(w.dir, name))
	return err == nil
}

// process is one run of an agent's program.
type process struct {
	cmd       *exec.Cmd
	startedAt time.Time
	exited    chan struct{} // closed when the program has ended
	done      chan struct{} // closed when its process group has also ended
	stopping  atomic.Bool
	killed    atomic.Bool
}

// startProgram starts the program. The returned process has no cmd if the agent has no program or
// the start fails.
func (w *watcher) startProgram() *process {
	command := w.programCommand()
	if command == "" {
		return &process{startedAt: w.Now()}
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
	outputReader, outputWriter, err := os.Pipe()
	if err == nil {
		cmd.Stdout, cmd.Stderr = outputWriter, outputWriter
		if err = errors.Join(cmd.Start(), outputWriter.Close()); err != nil {
			_ = outputReader.Close()
		}
	}
	if err != nil {
		w.printLine(kit.EscapeLine(command) + ": " + kit.EscapeLine(err.Error()))
		return &process{startedAt: w.Now()}
	}
	p := &process{cmd: cmd, startedAt: w.Now(), exited: make(chan struct{}), done: make(chan struct{})}
	go p.waitAndPrint(outputReader, w.printLine)
	return p
}

// outputTimeout limits the wait for the rest of the output. A process that left the group may hold
// the pipe open.
const outputTimeout = time.Second

func (p *process) waitAndPrint(output *os.File, printLine func(string)) {
	defer close(p.done)
	release := procgroup.Guard(p.cmd)
	outputDone := make(chan struct{})
	go func() { defer close(outputDone); printLines(output, printLine) }()
	err := p.cmd.Wait()
	stopping := p.stopping.Load()
	close(p.exited)
	for !p.killed.Load() && procgroup.IsAlive(p.cmd) {
		time.Sleep(groupPollInterval)
	}
	release()
	select {
	case <-outputDone:
	case <-time.After(outputTimeout):
	}
	_ = output.Close()
	<-outputDone
	if err != nil && !stopping {
		printLine("ended: " + kit.EscapeLine(err.Error()))
	}
}

const maxLineBytes = 16 << 10

func printLines(r io.Reader, printLine func(string)) {
	lineReader := bufio.NewReaderSize(r, maxLineBytes)
	for {
		line, isPrefix, err := lineReader.ReadLine()
		if err != nil {
			return
		}
		printLine(kit.EscapeLine(string(line)))
		// Omit the rest of a long line.
		for isPrefix && err == nil {
			_, isPrefix, err = lineReader.ReadLine()
		}
	}
}

// startTimeout limits how long a program may take until it listens.
const startTimeout = 5 * time.Second

// waitForStart waits until the program listens or ends, or until startTimeout.
func (w *watcher) waitForStart(ctx context.Context, program *process) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if program.cmd != nil {
		w.waitForPort(ctx, program.hasEnded)
	}
}

func (w *watcher) waitForPort(ctx context.Context, hasEnded func() bool) {
	for w.port != 0 && !hasEnded() && !w.isPortTaken(w.port) && cloud.Sleep(ctx, pollInterval) == nil {
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

const groupPollInterval = 50 * time.Millisecond

func (p *process) stop() {
	if p.cmd == nil || p.hasEnded() {
		return
	}
	p.stopping.Store(true)
	procgroup.End(p.cmd, false)
	select {
	case <-p.done:
	case <-time.After(procgroup.GracePeriod):
		procgroup.End(p.cmd, true)
		p.killed.Store(true) // do not wait for zombies in the group
		<-p.done
	}
}
