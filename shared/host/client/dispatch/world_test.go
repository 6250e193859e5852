package dispatch_test

import (
	"context"
	"errors"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/dispatchtest"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/memorybook"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// world is a caller, a host and the wire between them.
type world struct {
	*dispatch.Caller
	clock *dispatchtest.Clock
	host  *dispatchtest.Host
	wire  *dispatchtest.Wire
	book  *recorder
}

func newWorld(t testing.TB) *world {
	c := dispatchtest.NewClock()
	h := dispatchtest.NewHost(t, c.Now)
	w := &dispatchtest.Wire{Host: h}
	b := &recorder{book: &memorybook.Book{}}
	return &world{
		Caller: &dispatch.Caller{Signer: dispatchtest.NewKey(t, 1), Book: b, Transport: w, Now: c.Now, Rand: &dispatchtest.Random{Seed: 7}, Wait: c.Wait},
		clock:  c, host: h, wire: w, book: b,
	}
}

// device is another caller with the same key and its own state.
func (w *world) device() *world {
	d := *w
	c := *w.Caller
	d.book = &recorder{book: &memorybook.Book{}}
	c.Book = d.book
	d.Caller = &c
	return &d
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// errorOf returns the error of a call that returns a value, too.
func errorOf[T any](_ T, err error) error { return err }

// errorOf2 returns the error of a call that returns two values, too.
func errorOf2[T, U any](_ T, _ U, err error) error { return err }

func (w *world) state(t testing.TB) dispatch.State {
	t.Helper()
	s, err := w.book.book.Open(context.Background(), w.Signer.ID(), w.host.ID())
	must(t, err)
	defer s.Close()
	st, err := s.Load()
	must(t, err)
	return st
}

// setState replaces the saved state.
func (w *world) setState(t testing.TB, change func(*dispatch.State)) {
	t.Helper()
	s, err := w.book.book.Open(context.Background(), w.Signer.ID(), w.host.ID())
	must(t, err)
	defer s.Close()
	st, err := s.Load()
	must(t, err)
	change(&st)
	must(t, s.Save(st))
}

func (w *world) call(text string) (dispatch.Result, error) {
	return w.Call(context.Background(), w.host.Target(), dispatchtest.UserMessage(text))
}

// answers calls the host and requires its answer.
func (w *world) answers(t testing.TB, text string) dispatch.Result {
	t.Helper()
	res, err := w.call(text)
	dispatchtest.WantAnswer(t, res, err, "echo: "+text)
	return res
}

// fails calls the host and requires a failure of a kind that says the texts.
func (w *world) fails(t testing.TB, text string, kind problem.Kind, says ...string) dispatch.Result {
	t.Helper()
	res, err := w.call(text)
	dispatchtest.WantKind(t, err, kind, says...)
	return res
}

// resets resets the chain.
func (w *world) resets(t testing.TB) {
	t.Helper()
	if res, err := w.Reset(t.Context(), w.host.Target()); err != nil || !res.IsReset {
		t.Fatalf("Reset() = %+v, %v", res, err)
	}
}

// recorder is a Book whose sessions may die at a Save.
type recorder struct {
	book  dispatch.Book
	saves int
	// die, if set, says whether the process dies at the n-th Save (from 1):
	// "before" it took effect or "after".
	die func(n int) string
	// check, if set, is called with each saved state.
	check func(dispatch.State)
}

var errDied = errors.New("the process died")

func (b *recorder) Open(ctx context.Context, self, target identity.ID) (dispatch.Session, error) {
	s, err := b.book.Open(ctx, self, target)
	return &recordedSession{Session: s, b: b}, err
}

type recordedSession struct {
	dispatch.Session
	b    *recorder
	dead bool
}

func (s *recordedSession) Save(st dispatch.State) error {
	if s.dead {
		return errDied
	}
	s.b.saves++
	how := ""
	if s.b.die != nil {
		how = s.b.die(s.b.saves)
	}
	if how == "before" {
		s.dead = true
		return errDied
	}
	if s.b.check != nil {
		s.b.check(st)
	}
	if err := s.Session.Save(st); err != nil {
		return err
	}
	if how == "after" {
		s.dead = true
		return errDied
	}
	return nil
}
