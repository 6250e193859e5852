package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
)

// updateTests tests store.Updater with the adapter.
var updateTests = []contractTest{
	{"no concurrent update is lost", testConcurrentUpdates},
	{"after a fault in any call, the update is applied once or not at all", testLossyUpdates},
	{"a crash between read and commit leaves nothing", testCrashedUpdate},
	{"an update without writes commits nothing", testEmptyUpdate},
}

func newUpdater(s store.Store) store.Updater {
	return store.Updater{Store: s, Rand: rand.Reader}
}

// appendLetter adds a letter to a document, so that the document shows which updates were applied
// and how often.
func appendLetter(k store.Key, letter string) func(context.Context, *store.Tx) error {
	return func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, k)
		tx.Put(store.Doc{Key: k, Data: append(d.Data, letter...)})
		return err
	}
}

func testConcurrentUpdates(t *testing.T, h Adapter) {
	s := h.Open(t)
	const writers = 8
	k := newKey()
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for i := range writers {
		wg.Go(func() { errs[i] = newUpdater(s).Update(t.Context(), appendLetter(k, string(rune('a'+i)))) })
	}
	wg.Wait()
	d, err := s.Doc(t.Context(), k)
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	for i := range writers {
		if letter := string(rune('a' + i)); strings.Count(string(d.Data), letter) != 1 {
			t.Errorf("document = %q, want each of %d letters once", d.Data, writers)
		}
	}
}

// testLossyUpdates applies each fault to each of the first three calls of an update. An update that
// succeeds was applied once. An update that fails was applied at most once, even after its delayed
// writes were applied.
func testLossyUpdates(t *testing.T, h Adapter) {
	s := h.Open(t)
	for _, fault := range FaultsOf("Commit") {
		for faultyCall := 1; faultyCall <= 3; faultyCall++ {
			t.Run(fmt.Sprintf("call %d %s", faultyCall, fault), func(t *testing.T) {
				k, calls := newKey(), 0
				l := &Lossy{Store: s, ChooseFault: func(string, []store.Write) Fault {
					if calls++; calls == faultyCall {
						return fault
					}
					return NoFault
				}}
				u := newUpdater(l)
				u.Wait = func(context.Context, time.Duration) error { return nil }
				err := u.Update(t.Context(), appendLetter(k, "x"))
				for _, commitErr := range l.ApplyPending(t.Context()) {
					if commitErr != nil && !store.IsConflict(commitErr) {
						t.Errorf("a delayed write returns %v", commitErr)
					}
				}
				d, readErr := s.Doc(t.Context(), k)
				if readErr != nil {
					t.Fatal(readErr)
				}
				if got := string(d.Data); err == nil && got != "x" || err != nil && got != "x" && got != "" {
					t.Errorf("Update() = %v, document = %q, want the letter once, or not at all after an error", err, got)
				}
			})
		}
	}
}

func testCrashedUpdate(t *testing.T, h Adapter) {
	s := h.Open(t)
	k := newKey()
	crash := errors.New("crash")
	err := newUpdater(s).Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return errors.Join(appendLetter(k, "x")(ctx, tx), crash)
	})
	d, readErr := s.Doc(t.Context(), k)
	if !errors.Is(err, crash) || readErr != nil || d.Version != 0 {
		t.Errorf("Update() = %v, document version %d, %v; want the error and no document", err, d.Version, readErr)
	}
}

func testEmptyUpdate(t *testing.T, h Adapter) {
	s := h.Open(t)
	commits := 0
	l := &Lossy{Store: s, ChooseFault: func(_ string, writes []store.Write) Fault {
		if writes != nil {
			commits++
		}
		return NoFault
	}}
	if err := newUpdater(l).Update(t.Context(), func(context.Context, *store.Tx) error { return nil }); err != nil || commits != 0 {
		t.Errorf("Update() = %v with %d commits, want none", err, commits)
	}
}
