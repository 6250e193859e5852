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

func PassThrough(ctx context.Context, do func(context.Context) error) error { return do(ctx) }

// LoseRequest skips the call. The caller gets an error that leaves the outcome open.
func LoseRequest(context.Context, func(context.Context) error) error {
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

// TimeOut skips the call and returns the error of an exceeded deadline.
func TimeOut(context.Context, func(context.Context) error) error {
	return fmt.Errorf("%w: injected: %w", store.ErrUnavailable, context.DeadlineExceeded)
}

// CallTwice makes the call twice, like a retrying network. The caller gets the second outcome.
func CallTwice(ctx context.Context, do func(context.Context) error) error {
	_ = do(ctx)
	return do(ctx)
}

// CallAfter returns a step that makes the call after f returns.
func CallAfter(f func()) Step {
	return func(ctx context.Context, do func(context.Context) error) error {
		f()
		return do(ctx)
	}
}

// Delayed delays a call until Apply. The caller gets an error.
type Delayed struct{ call func(context.Context) error }

func (d *Delayed) Step(_ context.Context, do func(context.Context) error) error {
	d.call = do
	return fmt.Errorf("%w: injected: no answer yet", store.ErrUnavailable)
}

func (d *Delayed) Apply(ctx context.Context) error { return d.call(ctx) }

func Repeat(step Step, n int) []Step { return slices.Repeat([]Step{step}, n) }

// Script wraps a store and applies prepared steps to its calls. It records the name of every call.
// It is safe for concurrent use.
type Script struct {
	Intercept
	mu        sync.Mutex
	steps     map[string][]Step
	callNames []string
}

func NewScript(inner store.Store) *Script {
	s := &Script{steps: map[string][]Step{}}
	s.Intercept = Intercept{Store: inner, Handle: s.handle}
	return s
}

// PrepareNext prepares steps for the next calls with a name (see Op), in order. Without a prepared
// step, a call is passed to the wrapped store.
func (s *Script) PrepareNext(name string, steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps[name] = append(s.steps[name], steps...)
}

func (s *Script) PreparedSteps() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, steps := range s.steps {
		n += len(steps)
	}
	return n
}

func (s *Script) DropSteps() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.steps)
}

// TakeCallNames returns the names of the calls since the last TakeCallNames.
func (s *Script) TakeCallNames() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := s.callNames
	s.callNames = nil
	return names
}

func (s *Script) handle(ctx context.Context, op Op, do func(context.Context) error) error {
	s.mu.Lock()
	s.callNames = append(s.callNames, op.Name)
	step := Step(PassThrough)
	if steps := s.steps[op.Name]; len(steps) > 0 {
		step, s.steps[op.Name] = steps[0], steps[1:]
	}
	s.mu.Unlock()
	return step(ctx, do)
}
