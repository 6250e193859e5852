package cli

import (
	"context"
	"regexp"
	"strings"
	"sync"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
)

// watched is a writer that calls then once, when the output contains seen.
type watched struct {
	mu   sync.Mutex
	text strings.Builder
	seen string
	then func()
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.text.Write(p)
	if w.then != nil && strings.Contains(w.text.String(), w.seen) {
		w.then()
		w.then = nil
	}
	return n, err
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// dev runs a host in process until the test ends and returns its URL.
func (s *shell) dev() string {
	s.t.Helper()
	ctx, interrupt := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan int, 1)
	out := &watched{seen: "The log:", then: func() { close(ready) }}
	errs := &watched{}
	a := &kit.App{Out: out, Err: errs, Env: s.env, Now: s.clock, Rand: s.rand}
	go func() { ended <- a.Run(ctx, rootCommand(a), []string{"dev", "--listen", "127.0.0.1:0"}) }()
	s.t.Cleanup(func() {
		interrupt()
		if code := <-ended; code != 0 {
			s.t.Errorf("dev = exit %d: %s", code, errs)
		}
	})
	select {
	case <-ready:
	case code := <-ended:
		ended <- code
		s.t.Fatalf("dev = exit %d before it was ready: %s", code, errs)
	}
	return regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`).FindString(out.String())
}
