package javaserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Server is a running server.
type Server struct {
	Endpoint string // http://127.0.0.1:PORT

	name   string
	stdin  io.Closer
	kill   func() error
	exited chan struct{}
}

// Options configure the start of a server.
type Options struct {
	JVM  func(lib string) []string // options of the Java virtual machine
	Args []string                  // of the launcher
	Env  []string                  // added to this process's own
}

// Start starts a server from the install in cacheDir, and installs it if
// missing. ctx limits the start. The server runs until Stop, or until the end
// of this process closes its standard input.
func (r Recipe) Start(ctx context.Context, cacheDir string, opts Options) (*Server, error) {
	install, err := r.Fetch(ctx, cacheDir)
	if err != nil {
		return nil, err
	}
	java, err := r.tool("java")
	if err != nil {
		return nil, err
	}
	lib := filepath.Join(install, "lib")
	classPath := filepath.Join(install, "classes") + string(os.PathListSeparator) + filepath.Join(lib, "*")
	args := append(opts.JVM(lib), "-cp", classPath, r.Class)
	cmd := exec.Command(java, append(args, opts.Args...)...)
	cmd.Env = append(os.Environ(), opts.Env...)
	complaints := &excerpt{most: 4 << 10}
	cmd.Stderr = complaints
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", r.Name, err)
	}
	s := &Server{name: r.Name, stdin: stdin, kill: cmd.Process.Kill, exited: make(chan struct{})}
	port := make(chan int, 1)
	go func() {
		defer close(s.exited)
		readPort(stdout, port)
		_ = cmd.Wait() // the exit status is irrelevant; complaints has the last output
	}()
	select {
	case p := <-port:
		s.Endpoint = "http://127.0.0.1:" + strconv.Itoa(p)
		return s, nil
	case <-s.exited:
		return nil, fmt.Errorf("%s ended before it listened: %s", r.Name, complaints)
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("%s did not listen in time: %w: %s", r.Name, ctx.Err(), complaints), s.Stop())
	}
}

// readPort sends the port from the launcher's "listening PORT", and then drains
// the output so that the server never blocks on a full pipe.
func readPort(stdout io.Reader, port chan<- int) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		word, number, _ := strings.Cut(lines.Text(), " ")
		if p, err := strconv.Atoi(number); word == "listening" && err == nil {
			port <- p
			break
		}
	}
	_, _ = io.Copy(io.Discard, stdout)
}

// Stop stops the server and waits for its end.
func (s *Server) Stop() error {
	_ = s.stdin.Close() // closed already at a second Stop
	select {
	case <-s.exited:
		return nil
	case <-time.After(5 * time.Second):
	}
	if err := s.kill(); err != nil {
		return fmt.Errorf("%s ignores the end of its input: %w", s.name, err)
	}
	<-s.exited
	return nil
}

// excerpt keeps the first bytes of a program's output, because the cause comes
// first.
type excerpt struct {
	mu   sync.Mutex
	most int
	buf  bytes.Buffer
}

func (w *excerpt) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(p[:min(len(p), w.most-w.buf.Len())])
	return len(p), nil
}

func (w *excerpt) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.TrimSpace(w.buf.String())
}
