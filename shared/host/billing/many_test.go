package billing_test

import (
	"context"
	"crypto/rand"
	"flag"
	mathrand "math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var calls = flag.Int("calls", 2000, "how many synthetic calls TestSyntheticCallsAddUp makes")

// sweptCalls is the number of calls between two sweeps, as in some minutes of a busy host.
const sweptCalls = 10_000

// Many calls of ten accounts, by tokens, of which some fail, some are never run and one in
// twenty is sent again: answers, usage and balances agree to the micro-dollar.
func TestSyntheticCallsAddUp(t *testing.T) {
	file, err := bolt.Open(filepath.Join(t.TempDir(), "data"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w := newWorldOver(t, file)
	w.price = &price.Price{Version: 1, Flat: 7, InputPrice: money.Dollar, MaxCharge: 500, FeeBasisPoints: 333}
	data, err := price.VersionDocs.Encode(*w.price)
	w.must(err)
	w.must(file.Commit(t.Context(), store.Put{Key: price.VersionKey(w.vacant.ID(), 1), WriteID: store.WriteID{1}, Data: data}))
	w.behave = func(ctx context.Context, _ *call.Host, e envelope.Envelope) (envelope.Message, error) {
		h := e.Hash()
		call.RecordUsage(ctx, call.Usage{InputTokens: uint64(h[1]) * 3})
		if h[0]%16 == 0 {
			return envelope.Message{}, context.Canceled
		}
		return envelope.Message{Role: envelope.RoleAgent, Parts: []string{"yes"}}, nil
	}
	const credit = 1_000_000 * money.Dollar
	accounts := make([]billing.Account, 10)
	for i := range accounts {
		accounts[i] = w.account(name(i), []int{1, 4, 16}[i%3], credit)
	}
	h := w.host()
	_, err = w.billing.Sweep(t.Context(), h)
	w.must(err)
	const callers = 32
	var charged [10]atomic.Int64
	var answers, left atomic.Int64
	senders := make([]*caller, callers)
	for i := range senders {
		senders[i] = w.linked(accounts[i%len(accounts)], 0)
	}
	send := func(c *caller, of int) {
		for left.Add(-1) >= 0 {
			e := c.next("hi")
			c.last = e
			if mathrand.IntN(50) == 0 {
				if _, out := h.AcceptForRun(context.Background(), identity.ID{}, e, call.Options{}); out.Problem != nil { // and no Run
					t.Error(out.Problem)
				}
				continue
			}
			out := h.Send(context.Background(), identity.ID{}, e)
			switch {
			case out.Problem == nil:
				charged[of].Add(int64(out.Charge))
				answers.Add(1)
			case out.State != call.Unanswered:
				t.Errorf("Send() = %v", out.Problem)
			}
			if mathrand.IntN(20) == 0 {
				h.Send(context.Background(), identity.ID{}, e)
			}
		}
	}
	m := usage.Meter{Store: file, Feed: file, Now: w.clock.NowFunc(0), Rand: rand.Reader, TenantOf: func(context.Context, identity.ID) (string, error) { return "", nil }}
	var folded int
	var folding time.Duration
	for made := 0; made < *calls; made += sweptCalls {
		left.Store(int64(min(sweptCalls, *calls-made)))
		var all sync.WaitGroup
		for i, c := range senders {
			all.Go(func() { send(c, i%len(accounts)) })
		}
		all.Wait()
		w.clock.Advance(3 * time.Minute)
		_, err = w.billing.Sweep(t.Context(), h)
		w.must(err)
		began := time.Now()
		f, err := m.Fold(t.Context())
		w.must(err)
		folded, folding = folded+f.Rows, folding+time.Since(began)
	}
	t.Logf("%d rows folded in %v", folded, folding)
	var total usage.Counts
	for i, a := range accounts {
		w.wantBalance(a, credit-money.Amount(charged[i].Load()))
		var paid usage.Counts
		w.must(usage.EachPaidHour(t.Context(), file, a.ID, time.Time{}, time.Time{}, func(h usage.Hour) error { paid.Add(h.Counts); return nil }))
		if int64(paid.Charge) != charged[i].Load() {
			t.Errorf("usage of %s is %d, its answers cost %d", a.Tenant, paid.Charge, charged[i].Load())
		}
		total.Add(paid)
	}
	var earned usage.Counts
	w.must(usage.EachEarnedHour(t.Context(), file, "", time.Time{}, time.Time{}, func(h usage.Hour) error { earned.Add(h.Counts); return nil }))
	if earned != total || earned.Answers != uint64(answers.Load()) || earned.Answers+earned.Voids != uint64(*calls) {
		t.Errorf("earned %+v, paid %+v; %d calls of which %d were answered", earned, total, *calls, answers.Load())
	}
}
