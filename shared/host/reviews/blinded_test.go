package reviews_test

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/reviews"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

func (f *fixture) blind(c called, signal float64) review.Blinded {
	f.Helper()
	b, err := f.rate(c, signal, func(r *review.Record) { r.Claim = "in secret" }).Blind(f.Context(), c.by, rand.Reader)
	f.Must(err)
	return b
}

// rows returns the reviews of a vacant.
func (f *fixture) rows(id identity.ID) (all []review.Row) {
	f.Helper()
	rows, err := f.Store.Rows(f.Context(), reviews.Stream(id), 1, store.MaxPage, store.Ascending)
	f.Must(err)
	for _, row := range rows {
		r, err := review.DecodeRow(row.Data)
		f.Must(err)
		all = append(all, r)
	}
	return all
}

func TestBlindedReviewsAreCountedTogether(t *testing.T) {
	f := open(t)
	shop := f.host("acme", "shop")
	keys := []*identity.Key{f.key(), f.key(), f.key()}
	for i, of := range []int{0, 0, 1} {
		b := f.blind(f.call(keys[of], shop), 1)
		out, err := f.Reviews.SubmitBlinded(t.Context(), b)
		if err != nil || out.Waiting != i+1 || out.Submitted != 0 {
			t.Fatalf("Blind() = %+v, %v, want %d that wait", out, err, i+1)
		}
		if _, err := f.Reviews.SubmitBlinded(t.Context(), b); !errors.Is(err, reviews.ErrCommitmentUsed) {
			t.Errorf("Blind() again = %v, want %v", err, reviews.ErrCommitmentUsed)
		}
		f.Clock.Advance(time.Minute)
	}
	if r := f.reputation(shop); r.Rows != 0 {
		t.Errorf("%d reviews were counted before the third reviewer", r.Rows)
	}
	third := f.call(keys[2], shop)
	b := f.blind(third, 1)
	other := b
	other.Reveal.Nonce[0]++
	if _, err := f.Reviews.SubmitBlinded(t.Context(), other); !problem.Is(err, problem.BadSignature) {
		t.Errorf("Blind() with another nonce = %v, want %v", err, problem.BadSignature)
	}
	if _, err := f.Reviews.Submit(t.Context(), b.Record); !problem.Is(err, problem.BadSignature) {
		t.Errorf("Submit() without its reveal = %v, want %v", err, problem.BadSignature)
	}
	out, err := f.Reviews.SubmitBlinded(t.Context(), b)
	if err != nil || out.Waiting != 0 || out.Submitted != 4 {
		t.Fatalf("Blind() = %+v, %v, want 4 that are counted", out, err)
	}
	rows := f.rows(shop)
	for _, row := range rows {
		if !row.At.Equal(rows[0].At) || row.Reveal == nil || row.Reviewer() != row.Reveal.Reviewer {
			t.Errorf("a blinded review is counted at %v by %s", row.At, row.Reviewer().Short())
		}
	}
	if _, err := f.Reviews.SubmitBlinded(t.Context(), b); !errors.Is(err, reviews.ErrCommitmentUsed) {
		t.Errorf("Blind() of a counted one = %v, want %v", err, reviews.ErrCommitmentUsed)
	}
	f.refused(f.rate(third, 0), problem.AlreadyReviewed, "an open review of a call with a blinded one")
	f.WantWhole()
}

func TestACrashWithinAReleaseIsCompleted(t *testing.T) {
	for failAt := 1; failAt <= 6; failAt++ {
		f := open(t)
		shop := f.host("acme", "shop")
		for range 2 {
			f.blindly(shop)
		}
		b := f.blind(f.call(f.key(), shop), 1)
		f.faults.stopAt(failAt)
		_, _ = f.Reviews.SubmitBlinded(t.Context(), b)
		f.faults.stopAt(0)
		f.Clock.Advance(time.Hour)
		if f.reputation(shop).Rows < 3 {
			f.blindly(shop)
		}
		if n := len(f.rows(shop)); n < 3 || n > 4 {
			t.Errorf("after a crash at commit %d, %d reviews are counted", failAt, n)
		}
		f.WantWhole()
	}
}

// blindly reviews a vacant blindly by a new key.
func (f *fixture) blindly(id identity.ID) {
	f.Helper()
	b := f.blind(f.call(f.key(), id), 1)
	_, err := f.Reviews.SubmitBlinded(f.Context(), b)
	f.Must(err)
}

func TestWaitingReviewsExpireAndAreLimited(t *testing.T) {
	f := open(t)
	shop := f.host("acme", "shop")
	key := f.key()
	var all []review.Blinded
	for range 16 {
		all = append(all, f.blind(f.call(key, shop), 1))
	}
	var stored atomic.Int64
	var wg sync.WaitGroup
	for _, b := range all {
		wg.Go(func() {
			_, err := f.Reviews.SubmitBlinded(context.WithoutCancel(t.Context()), b)
			if err == nil {
				stored.Add(1)
			} else if !problem.Is(err, problem.TooManyRequests) {
				t.Errorf("Blind() = %v, want %v", err, problem.TooManyRequests)
			}
		})
	}
	wg.Wait()
	if stored.Load() != reviews.MaxPerPair {
		t.Errorf("%d reviews of one reviewer wait, want %d", stored.Load(), reviews.MaxPerPair)
	}
	c := f.call(f.key(), shop)
	if out, err := f.Reviews.SubmitBlinded(t.Context(), f.blind(c, 1)); err != nil || out.Waiting != reviews.MaxPerPair+1 {
		t.Errorf("Blind() by another reviewer = %+v, %v, want that it waits", out, err)
	}
	b := all[0]
	f.Clock.Advance(30*24*time.Hour + time.Second)
	if out, err := f.Reviews.SubmitBlinded(t.Context(), b); err != nil || out.Waiting != 1 {
		t.Errorf("Blind() after 30 days = %+v, %v, want one that waits", out, err)
	}
	c.hash = identity.Sum([]byte("x"))
	if _, err := f.Reviews.SubmitBlinded(t.Context(), f.blind(c, 1)); !problem.Is(err, problem.NoMatchingCall) {
		t.Errorf("Blind() without a call = %v, want %v", err, problem.NoMatchingCall)
	}
}
