package calltest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/vacancy-host/vacancy/shared/store"
)

// Step says what becomes of one call to the store: do makes the call.
type Step func(ctx context.Context, do func(context.Context) error) error

// Pass lets the call through.
func Pass(ctx context.Context, do func(context.Context) error) error { return do(ctx) }

// NotApplied is a call that never arrives; the caller hears an error that does
// not tell.
func NotApplied(context.Context, func(context.Context) error) error {
	return fmt.Errorf("%w: injected: the request was lost", store.ErrUnavailable)
}

// Throttled is a call that the host turns away.
func Throttled(context.Context, func(context.Context) error) error {
	return fmt.Errorf("%w: injected: throttled", store.ErrUnavailable)
}

// Unacked is a call that is carried out; the caller hears an error.
func Unacked(ctx context.Context, do func(context.Context) error) error {
	_ = do(ctx)
	return fmt.Errorf("%w: injected: the acknowledgement was lost", store.ErrUnavailable)
}

// TimedOut is a call that ends with its context's deadline, not applied.
func TimedOut(context.Context, func(context.Context) error) error {
	return fmt.Errorf("%w: injected: %w", store.ErrUnavailable, context.DeadlineExceeded)
}

// Twice is a call that the network delivers twice; the caller hears the second
// outcome.
func Twice(ctx context.Context, do func(context.Context) error) error {
	_ = do(ctx)
	return do(ctx)
}

// After runs f, then lets the call through.
func After(f func()) Step {
	return func(ctx context.Context, do func(context.Context) error) error {
		f()
		return do(ctx)
	}
}

// Late holds a call back. The caller hears an error; Land carries the call out,
// any time later, and returns its outcome.
type Late struct{ do func(context.Context) error }

// Step is the step that holds the call back.
func (l *Late) Step(_ context.Context, do func(context.Context) error) error {
	l.do = do
	return fmt.Errorf("%w: injected: no answer yet", store.ErrUnavailable)
}

// Land carries the call out.
func (l *Late) Land(ctx context.Context) error { return l.do(ctx) }

// Repeat is step n times.
func Repeat(step Step, n int) []Step { return slices.Repeat([]Step{step}, n) }

// Script is a store whose calls take prepared steps. It notes the name of every
// call. Safe for concurrent use.
type Script struct {
	Intercept
	mu    sync.Mutex
	next  map[string][]Step
	trace []string
}

// NewScript wraps a store. Without further words every call passes.
func NewScript(inner store.Store) *Script {
	s := &Script{next: map[string][]Step{}}
	s.Intercept = Intercept{Store: inner, Around: s.around}
	return s
}

// Next prepares the next calls of a name (see Op) in the order they come;
// after those, calls of this name pass again.
func (s *Script) Next(name string, steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next[name] = append(s.next[name], steps...)
}

// Pending are the prepared steps that no call has taken.
func (s *Script) Pending() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, steps := range s.next {
		n += len(steps)
	}
	return n
}

// Drop forgets the prepared steps.
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
