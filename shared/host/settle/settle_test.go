package settle_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/settle"
	"github.com/vacancy-host/vacancy/shared/store"
)

// home says what it is told to, one error a commit.
type home struct {
	store.Store
	says []error
	asks int
}

func (h *home) Commit(context.Context, ...store.Write) error {
	err := h.says[min(h.asks, len(h.says)-1)]
	h.asks++
	return err
}

func TestCommitAsksAgainOnlyWhileTheOutcomeIsUnknown(t *testing.T) {
	conflict := &store.ConflictError{Version: 2}
	closed := fmt.Errorf("%w: %w", store.ErrUnavailable, store.ErrClosed)
	for name, c := range map[string]struct {
		says []error
		asks int
		want error
	}{
		"applied":             {[]error{nil}, 1, nil},
		"refused":             {[]error{conflict}, 1, conflict},
		"lost, then applied":  {[]error{store.ErrUnavailable, store.ErrUnavailable, nil}, 3, nil},
		"lost, then refused":  {[]error{store.ErrUnavailable, conflict}, 2, conflict},
		"lost for good":       {[]error{store.ErrUnavailable}, settle.Tries, store.ErrUnavailable},
		"the store is closed": {[]error{closed}, 1, closed},
	} {
		h := &home{says: c.says}
		var waits []time.Duration
		err := settle.Commit(t.Context(), h, func(_ context.Context, d time.Duration) error {
			waits = append(waits, d)
			return nil
		})
		if !errors.Is(err, c.want) || h.asks != c.asks || len(waits) != c.asks-1 {
			t.Errorf("%s: Commit() = %v after %d asks and %d waits, want %v after %d", name, err, h.asks, len(waits), c.want, c.asks)
		}
		for i := 1; i < len(waits); i++ {
			if waits[i] <= waits[i-1] {
				t.Errorf("%s: waits %v do not grow", name, waits)
			}
		}
	}
}

func TestCommitStopsWithTheWait(t *testing.T) {
	h := &home{says: []error{store.ErrUnavailable}}
	err := settle.Commit(t.Context(), h, func(context.Context, time.Duration) error { return context.Canceled })
	if !errors.Is(err, store.ErrUnavailable) || h.asks != 1 {
		t.Errorf("Commit() = %v after %d asks, want that the outcome is unknown after 1", err, h.asks)
	}
}

func TestOvertakenIsARefusalBySomebodyElsesWrite(t *testing.T) {
	got := map[string]bool{}
	for name, err := range map[string]error{
		"conflict": fmt.Errorf("x: %w", &store.ConflictError{}), "taken": &store.TakenError{},
		"bounds": &store.BoundsError{}, "unavailable": store.ErrUnavailable, "nothing": nil,
	} {
		got[name] = settle.Overtaken(err)
	}
	want := map[string]bool{"conflict": true, "taken": true, "bounds": false, "unavailable": false, "nothing": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Overtaken() (-want +got):\n%s", diff)
	}
}

func TestBackOffWaitsLongerAndNeverBeyondItsBounds(t *testing.T) {
	ends := bytes.Repeat([]byte{0xff}, 8)
	for _, try := range []int{1, 3, 6, 100} {
		var waited time.Duration
		err := settle.BackOff(t.Context(), func(_ context.Context, d time.Duration) error { waited = d; return nil }, bytes.NewReader(ends), try)
		if most := min(5*time.Millisecond<<min(try, 10), 250*time.Millisecond); err != nil || waited < 0 || waited >= most {
			t.Errorf("BackOff(%d) waited %v, %v, want less than %v", try, waited, err, most)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	wait := func(context.Context, time.Duration) error { return nil }
	if err := settle.BackOff(gone, wait, bytes.NewReader(ends), 1); !errors.Is(err, context.Canceled) {
		t.Errorf("BackOff() for who is gone = %v, want canceled", err)
	}
	if err := settle.BackOff(t.Context(), wait, bytes.NewReader(nil), 1); err == nil {
		t.Error("BackOff() without randomness succeeded")
	}
}

func TestPatienceIsForWhoBringsNoDeadline(t *testing.T) {
	ctx, cancel := settle.WithPatience(t.Context())
	defer cancel()
	if _, ok := ctx.Deadline(); !ok {
		t.Error("WithPatience() gave no deadline")
	}
	mine, end := context.WithTimeout(t.Context(), time.Hour)
	defer end()
	kept, cancel := settle.WithPatience(mine)
	defer cancel()
	got, _ := kept.Deadline()
	if want, _ := mine.Deadline(); got != want {
		t.Errorf("WithPatience() moved a deadline to %v, want %v", got, want)
	}
}
