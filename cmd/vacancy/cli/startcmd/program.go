package startcmd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/scaffold"
)

// command returns the shell command that starts the program, or "" without a program.
func (w *watching) command() string {
	if w.start != "" {
		return w.start
	}
	if w.file != agentFile && w.port == 0 {
		return "" // a program in the folder of many agents is not of each one
	}
	_, start := scaffold.Find(w.has)
	return start
}

// has reports whether the folder has a file.
func (w *watching) has(name string) bool {
	_, err := os.Stat(filepath.Join(w.dir, name))
	return err == nil
}

// child is a running program.
type child struct {
	cmd      *exec.Cmd
	began    time.Time
	lines    io.Closer // its output
	done     chan struct{}
	stopping atomic.Bool
}

// begin starts the program. Without a program, the child has no cmd.
func (w *watching) begin() *child {
	command := w.command()
	if command == "" {
		return &child{}
	}
	cmd := inShell(command)
	cmd.Dir = w.dir
	cmd.Env = os.Environ()
	if w.port != 0 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("PORT=%d", w.port))
	}
	if w.secret != "" {
		cmd.Env = append(cmd.Env, secretEnv+"="+w.secret)
	}
	ownGroup(cmd)
	lines, err := cmd.StdoutPipe()
	if err == nil {
		cmd.Stderr = cmd.Stdout
		err = cmd.Start()
	}
	if err != nil {
		w.print(kit.Printable(command) + ": " + kit.Printable(err.Error()))
		return &child{}
	}
	c := &child{cmd: cmd, began: w.Now(), lines: lines, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		printLines(lines, w.print)
		if err := cmd.Wait(); err != nil && !c.stopping.Load() {
			w.print("ended: " + kit.Printable(err.Error()))
		}
	}()
	return c
}

// maxLine bounds a printed line of a program in bytes.
const maxLine = 16 << 10

// printLines prints what r has, to its end. The rest of a line that is too long is left out.
func printLines(r io.Reader, print func(string)) {
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, more, err := in.ReadLine()
		if err != nil {
			return
		}
		print(kit.Printable(string(line)))
		for more && err == nil {
			_, more, err = in.ReadLine()
		}
	}
}

// startTime bounds how long a program may take until it listens.
const startTime = 5 * time.Second

// await waits until the program listens or ends.
func (w *watching) await(ctx context.Context, program *child) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for program.cmd != nil && w.port != 0 && !program.gone() && !w.taken(w.port) {
		if cloud.Wait(ctx, watchPause) != nil {
			return
		}
	}
}

// gone reports whether a program has ended with all that it started.
func (c *child) gone() bool {
	if c.cmd == nil {
		return false
	}
	select {
	case <-c.done:
		return !groupLives(c.cmd)
	default:
		return false
	}
}

// Times of an end: between asking a program to end and killing it, and between two looks at whether it has ended.
const (
	stopTime  = 3 * time.Second
	stopPause = 20 * time.Millisecond
)

// stop ends the program and all that it started.
func (c *child) stop() {
	if c.cmd == nil || c.gone() {
		return
	}
	c.stopping.Store(true)
	endGroup(c.cmd, false)
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	for !c.gone() {
		if cloud.Wait(ctx, stopPause) != nil {
			endGroup(c.cmd, true)
			_ = c.lines.Close() // a process that left the group may hold the other end
			<-c.done
			return
		}
	}
}
