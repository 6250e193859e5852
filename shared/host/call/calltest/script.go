package calltest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/vacancy-host/vacancy/shared/store"
)

// Step decides what happens to one store call; do makes the call.
type Step func(ctx context.Context, do func(context.Context) error) error

// Pass makes the call.
func Pass(ctx context.Context, do func(context.Context) error) error { return do(ctx) }

// NotApplied does not make the call; the caller gets an error that leaves the
// outcome open.
func NotApplied(context.Context, func(context.Context) error) error {
	return fmt.Errorf("%w: injected: the request was lost", store.ErrUnavailable)
}

// Throttled is a call that the database throttles.
func Throttled(context.Context, func(context.Context) error) error {
	return fmt.Errorf("%w: injected: throttled", store.ErrUnavailable)
}

// Unacked makes the call; the caller gets an error.
func Unacked(ctx context.Context, do func(context.Context) error) error {
	_ = do(ctx)
	return fmt.Errorf("%w: injected: the acknowledgement was lost", store.ErrUnavailable)
}

// TimedOut waits for the context's deadline; the call is not applied.
func TimedOut(context.Context, func(context.Context) error) error {
	return fmt.Errorf("%w: injected: %w", store.ErrUnavailable, context.DeadlineExceeded)
}

// Twice makes the call twice, as a network may; the caller gets the second
// outcome.
func Twice(ctx context.Context, do func(context.Context) error) error {
	_ = do(ctx)
	return do(ctx)
}

// After runs f and then makes the call.
func After(f func()) Step {
	return func(ctx context.Context, do func(context.Context) error) error {
		f()
		return do(ctx)
	}
}

// Late delays a call. The caller gets an error; Land makes the call, any time
// later, and returns its outcome.
type Late struct{ do func(context.Context) error }

// Step is the Step that delays the call.
func (l *Late) Step(_ context.Context, do func(context.Context) error) error {
	l.do = do
	return fmt.Errorf("%w: injected: no answer yet", store.ErrUnavailable)
}

// Land makes the delayed call.
func (l *Late) Land(ctx context.Context) error { return l.do(ctx) }

// Repeat returns n copies of a step.
func Repeat(step Step, n int) []Step { return slices.Repeat([]Step{step}, n) }

// Script is a store whose calls take prepared steps. It records the name of
// every call. Safe for concurrent use.
type Script struct {
	Intercept
	mu    sync.Mutex
	next  map[string][]Step
	trace []string
}

// NewScript wraps a store. Without prepared steps every call passes.
func NewScript(inner store.Store) *Script {
	s := &Script{next: map[string][]Step{}}
	s.Intercept = Intercept{Store: inner, Around: s.around}
	return s
}

// Next prepares steps for the next calls of a name (see Op), in order; later
// calls of this name pass again.
func (s *Script) Next(name string, steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next[name] = append(s.next[name], steps...)
}

// Pending returns the number of prepared steps that no call has taken.
func (s *Script) Pending() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, steps := range s.next {
		n += len(steps)
	}
	return n
}

// Drop discards the prepared steps.
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
