// Package booktest is the contract suite of dispatch.Book, which every book must pass.
package booktest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var self, firstTarget, secondTarget = identity.ID{1}, identity.ID{2}, identity.ID{3}

// Run tests the contract with the books that open returns. All of them must use the same storage.
func Run(t *testing.T, open func() dispatch.Book) {
	c := contract{open}
	t.Run("a pair without a state has an empty one", c.testEmpty)
	t.Run("a saved state is loaded by the next session of the pair, and by no other pair", c.testSave)
	t.Run("a second session waits, and gives up with its context", c.testWaiting)
	t.Run("sessions of one pair never overlap", c.testExclusion)
}

type contract struct{ open func() dispatch.Book }

func (c contract) openSession(t *testing.T, target identity.ID) dispatch.Session {
	t.Helper()
	s, err := c.open().Open(t.Context(), self, target)
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	return s
}

func load(t *testing.T, s dispatch.Session) dispatch.State {
	t.Helper()
	st, err := s.Load()
	if err != nil {
		t.Fatalf("Load() = %v", err)
	}
	return st
}

func closeSession(t *testing.T, s dispatch.Session) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("Close() = %v", err)
	}
}

func (c contract) testEmpty(t *testing.T) {
	s := c.openSession(t, firstTarget)
	defer closeSession(t, s)
	if d := cmp.Diff(dispatch.State{Self: self, Target: firstTarget}, load(t, s)); d != "" {
		t.Errorf("Load() (-want +got):\n%s", d)
	}
}

func (c contract) testSave(t *testing.T) {
	want := dispatch.State{Self: self, Target: firstTarget, LostAnswers: 3, CallKey: "x"}
	s := c.openSession(t, firstTarget)
	if err := s.Save(want); err != nil {
		t.Fatalf("Save() = %v", err)
	}
	if d := cmp.Diff(want, load(t, s)); d != "" {
		t.Errorf("Load() (-want +got):\n%s", d)
	}
	closeSession(t, s)
	s, other := c.openSession(t, firstTarget), c.openSession(t, secondTarget)
	defer closeSession(t, s)
	defer closeSession(t, other)
	if d := cmp.Diff(want, load(t, s)); d != "" {
		t.Errorf("Load() (-want +got):\n%s", d)
	}
	if d := cmp.Diff(dispatch.State{Self: self, Target: secondTarget}, load(t, other)); d != "" {
		t.Errorf("Load() of another pair (-want +got):\n%s", d)
	}
}

func (c contract) testWaiting(t *testing.T) {
	s := c.openSession(t, firstTarget)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.open().Open(ctx, self, firstTarget); !errors.Is(err, context.Canceled) {
		t.Errorf("Open() of a busy pair = %v, want context.Canceled", err)
	}
	closeSession(t, s)
	closeSession(t, s) // closing twice has no further effect
	closeSession(t, c.openSession(t, firstTarget))
}

func (c contract) testExclusion(t *testing.T) {
	const workers, rounds = 8, 20
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range rounds {
				s, err := c.open().Open(t.Context(), self, secondTarget)
				if err != nil {
					t.Errorf("Open() = %v", err)
					return
				}
				st, err := s.Load()
				if err == nil {
					st.LostAnswers++
					err = s.Save(st)
				}
				if err = errors.Join(err, s.Close()); err != nil {
					t.Errorf("session = %v", err)
				}
			}
		})
	}
	wg.Wait()
	s := c.openSession(t, secondTarget)
	defer closeSession(t, s)
	if got := load(t, s).LostAnswers; got != workers*rounds {
		t.Errorf("%d changes are left of %d", got, workers*rounds)
	}
}
