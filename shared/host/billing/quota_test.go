package billing_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/tenant/quota"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestAnAccountHasAtMostItsQuotaOfKeysAndLinks(t *testing.T) {
	w := newWorld(t)
	w.billing.Quotas = quota.Quotas{"keys": 2, "links": 1}
	a := w.account("acme", 1, 0)
	var made atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			switch _, _, err := w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{}); {
			case err == nil:
				made.Add(1)
			case !problem.Is(err, problem.QuotaReached):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if made.Load() != 2 {
		t.Errorf("%d keys were made at once, want 2", made.Load())
	}

	c := w.linked(a, 0)
	_, err := w.billing.Link(t.Context(), a.ID, w.caller().claim(a.ID, 0))
	if !problem.Is(err, problem.QuotaReached) {
		t.Errorf("the second link = %v", err)
	}
	w.clock.Advance(time.Second)
	if _, err := w.billing.Link(t.Context(), a.ID, c.claim(a.ID, 5)); err != nil {
		t.Errorf("a new claim for the first link = %v", err)
	}
	w.must(w.billing.Unlink(t.Context(), nil, a.ID, c.key.ID()))
	w.linked(a, 0)
}
