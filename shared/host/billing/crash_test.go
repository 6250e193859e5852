package billing_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/due"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// dying is a store of a process that dies at its n-th call: before it, or after it was
// applied. Every later call fails.
type dying struct {
	store.Store
	mu    sync.Mutex
	left  int
	after bool
}

var errDead = errors.New("the process is dead")

func (s *dying) dies() (before, now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left--
	return s.left < 0 || s.left == 0 && !s.after, s.left == 0
}

func (s *dying) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	if dead, _ := s.dies(); dead {
		return store.Doc{}, store.NotAppliedError(errDead)
	}
	return s.Store.Doc(ctx, k)
}

func (s *dying) Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error) {
	return s.Store.Docs(ctx, r, n, cursor) // a sweep reads hundreds of empty pages
}

func (s *dying) Rows(ctx context.Context, name store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	if dead, _ := s.dies(); dead {
		return nil, store.NotAppliedError(errDead)
	}
	return s.Store.Rows(ctx, name, from, n, d)
}

func (s *dying) Commit(ctx context.Context, writes ...store.Write) error {
	dead, now := s.dies()
	if dead {
		return store.NotAppliedError(errDead)
	}
	if err := s.Store.Commit(ctx, writes...); err != nil || !now {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, errDead)
}

// everywhere runs an operation in a process that dies at its first call, at its second and
// so on, until it is done without dying, and then again in a process that lives.
func everywhere(t *testing.T, test func(t *testing.T, s *dying) (done bool)) {
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			if n > 200 {
				t.Fatal("the operation never ends")
			}
			if test(t, &dying{Store: memory.New(), left: n, after: after}) {
				break
			}
		}
	}
}

func TestACreditThatDiesIsMadeOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, s *dying) bool {
		w := newWorldOver(t, s.Store)
		a := w.account("acme", 4, 100)
		_, _, err := w.instance(s).Credit(t.Context(), a.ID, 50, "k", "")
		died := err != nil
		_, replayed, err := w.billing.Credit(t.Context(), a.ID, 50, "k", "")
		w.must(err)
		w.wantBalance(a, 150)
		if got := sums(t, w, a); got != 150 {
			t.Errorf("rows say %d", got)
		}
		return !died && replayed
	})
}

func TestALinkAndAKeyThatDieAreMadeOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, s *dying) bool {
		w := newWorldOver(t, s.Store)
		a := w.account("acme", 1, 0)
		c := w.caller()
		text := c.claim(a.ID, 5)
		_, err := w.instance(s).Link(t.Context(), a.ID, text)
		died := err != nil
		_, err = w.billing.Link(t.Context(), a.ID, text)
		w.must(err)
		links, err := w.billing.Links(t.Context(), a.ID)
		w.must(err)
		changes, err := w.billing.Changes(t.Context(), a.ID, 1, 100)
		w.must(err)
		if len(links) != 1 || len(changes) != 2 {
			t.Errorf("%d links, %d changes; want 1 and 2", len(links), len(changes))
		}
		return !died
	})
}

// A sweep that dies leaves what the next completes: every call is decided once, and no
// reminder stays.
func TestASweepThatDiesIsCompleted(t *testing.T) {
	everywhere(t, func(t *testing.T, s *dying) bool {
		w := newWorldOver(t, s.Store)
		a := w.account("acme", 4, 20_000)
		h := w.host()
		_, err := w.billing.Sweep(t.Context(), h)
		w.must(err)
		for i := range 3 {
			c := w.linked(a, 0)
			e := c.next("hi")
			if i == 0 {
				w.wantOutcome("Send()", h.Send(t.Context(), identity.ID{}, e), 0)
			} else if _, out := h.AcceptForRun(t.Context(), identity.ID{}, e, call.Options{}); out.Problem != nil {
				t.Fatal(out.Problem)
			}
		}
		w.clock.Advance(3 * time.Minute)
		_, err = w.instance(s).Sweep(t.Context(), w.hostOf(s, w.instance(s)))
		died := err != nil
		_, err = w.billing.Sweep(t.Context(), w.host())
		w.must(err)
		w.wantBalance(a, 18_000)
		left, err := w.billing.Sweep(t.Context(), w.host())
		w.must(err)
		if left != (due.SweepResult{}) {
			t.Errorf("a third sweep finds %+v", left)
		}
		return !died
	})
}

// A priced call whose process dies has one of its four fates, and its money is where its
// rows say.
func TestAPricedCallThatDiesKeepsItsMoney(t *testing.T) {
	for _, text := range []string{"hi", "fail"} {
		everywhere(t, func(t *testing.T, s *dying) bool {
			w := newWorldOver(t, s.Store)
			a := w.account("acme", 4, 20_000)
			_, err := w.billing.Sweep(t.Context(), w.host())
			w.must(err)
			c := w.linked(a, 0)
			e := c.next(text)
			first := w.hostOf(s, w.instance(s)).Send(t.Context(), identity.ID{}, e)
			died := first.Problem != nil && first.Problem.Kind == problem.Unavailable
			w.clock.Advance(3 * time.Minute)
			_, err = w.billing.Sweep(t.Context(), w.host())
			w.must(err)
			again := w.host().Send(t.Context(), identity.ID{}, e)
			want := money.Amount(20_000)
			if first.Problem == nil || again.Problem == nil || again.State == call.Answered {
				want -= 2000
			}
			w.wantBalance(a, want)
			if again.State == call.Pending {
				t.Errorf("the call is %q after the sweep", again.State)
			}
			return !died
		})
	}
}
