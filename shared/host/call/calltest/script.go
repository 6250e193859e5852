package calltest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/vacancy-host/vacancy/shared/store"
)

// Step decides what happens to one store call. do makes the call.
type Step func(ctx context.Context, do func(context.Context) error) error

func Pass(ctx context.Context, do func(context.Context) error) error { return do(ctx) }

// NotApplied skips the call. The caller gets an error that leaves the outcome open.
func NotApplied(context.Context, func(context.Context) error) error {
	return fmt.Errorf("%w: injected: the request was lost", store.ErrUnavailable)
}

// Throttle skips the call and returns the error of a throttling database.
func Throttle(context.Context, func(context.Context) error) error {
	return fmt.Errorf("%w: injected: throttled", store.ErrUnavailable)
}

// LoseAck makes the call but returns an error.
func LoseAck(ctx context.Context, do func(context.Context) error) error {
	_ = do(ctx)
	return fmt.Errorf("%w: injected: the acknowledgement was lost", store.ErrUnavailable)
}

// TimedOut skips the call and returns the error of an exceeded deadline.
func TimedOut(context.Context, func(context.Context) error) error {
	return fmt.Errorf("%w: injected: %w", store.ErrUnavailable, context.DeadlineExceeded)
}

// CallTwice makes the call twice, like a retrying network. The caller gets the second outcome.
func CallTwice(ctx context.Context, do func(context.Context) error) error {
	_ = do(ctx)
	return do(ctx)
}

// After returns a step that makes the call after f returns.
func After(f func()) Step {
	return func(ctx context.Context, do func(context.Context) error) error {
		f()
		return do(ctx)
	}
}

// Delayed delays a call. The caller gets an error. Land makes the call later and returns its outcome.
type Delayed struct{ do func(context.Context) error }

func (l *Delayed) Step(_ context.Context, do func(context.Context) error) error {
	l.do = do
	return fmt.Errorf("%w: injected: no answer yet", store.ErrUnavailable)
}

func (l *Delayed) Land(ctx context.Context) error { return l.do(ctx) }

func Repeat(step Step, n int) []Step { return slices.Repeat([]Step{step}, n) }

// Script wraps a store and applies prepared steps to its calls. It records the name of every call.
// It is safe for concurrent use.
type Script struct {
	Intercept
	mu    sync.Mutex
	next  map[string][]Step
	trace []string
}

func NewScript(inner store.Store) *Script {
	s := &Script{next: map[string][]Step{}}
	s.Intercept = Intercept{Store: inner, Around: s.around}
	return s
}

// Next prepares steps for the next calls with a name (see Op), in order. Without a prepared step, a
// call is passed to the wrapped store.
func (s *Script) Next(name string, steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next[name] = append(s.next[name], steps...)
}

func (s *Script) Pending() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, steps := range s.next {
		n += len(steps)
	}
	return n
}

// Drop discards all prepared steps.
func (s *Script) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.next)
}

// Trace returns the names of the calls since the last Trace.
func (s *Script) Trace() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.trace
	s.trace = nil
	return t
}

func (s *Script) around(ctx context.Context, op Op, do func(context.Context) error) error {
	s.mu.Lock()
	s.trace = append(s.trace, op.Name)
	step := Step(Pass)
	if q := s.next[op.Name]; len(q) > 0 {
		step, s.next[op.Name] = q[0], q[1:]
	}
	s.mu.Unlock()
	return step(ctx, do)
}
