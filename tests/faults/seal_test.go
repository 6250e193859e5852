package faults

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/tests/faultproxy"
)

// sealRequests are all requests of a Seal with one new event.
var sealRequests = []request{
	{"the read of the head", "GetItem", 1},
	{"the read of the lease", "GetItem", 2},
	{"the second read of the head", "GetItem", 3},
	{"the look for new events", "Query", 1},
	{"the read of new events", "Query", 2},
	{"the look behind them", "Query", 3},
	{"the lease", "PutItem", 1},
	{"head, checkpoint and epoch", "TransactWriteItems", 1},
	{"the lease given back", "PutItem", 2},
}

// Every request of a Seal fails once in every way: the next Seal finishes it,
// no event is sealed twice or left out, and what is stored follows from the
// events.
func TestFaultInOneRequestOfASeal(t *testing.T) {
	h := newFixture(t)
	clean := h.Store(h.Endpoint)
	server := h.Open(t, clean, time.Now, h.kinds())
	now := time.Now()
	logOver := func(s store.Store) *translog.Log {
		l, err := translog.NewForRegistry(translog.Config{
			Store: s, Identity: server.Vacants.HostSigner, Now: func() time.Time { return now }, Rand: rand.Reader,
			Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l, events := logOver(clean), uint64(0)
	if _, err := l.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, r := range sealRequests {
		for _, f := range faultproxy.Faults() {
			if n++; !storetest.InSample(n) || f == faultproxy.Hang || f == faultproxy.HangAfter {
				continue // as long as a client waits, and then like a dropped connection
			}
			t.Run(fmt.Sprintf("%s, %v", r.name, f), func(t *testing.T) {
				v := lifecycle.Public // an unchanged visibility makes no event
				if events%2 == 1 {
					v = lifecycle.Restricted
				}
				if _, _, err := server.Vacants.Publish(t.Context(), h.vacant, vacants.PublishOptions{Visibility: &v}); err != nil {
					t.Fatal(err)
				}
				events++
				proxy := faultproxy.Start(t, h.Endpoint)
				proxy.Set(faultproxy.Rule{Operation: r.operation, Nth: r.nth, Fault: f, For: 20 * time.Millisecond})
				_, err := logOver(h.faulty(proxy.URL, time.Second)).Seal(t.Context())
				if err != nil && (r.operation == "PutItem" || r.operation == "TransactWriteItems" || !problem.Is(err, problem.Unavailable)) {
					t.Errorf("Seal() = %v, want nil, or unavailable if it cannot read", err)
				}
				now = now.Add(2 * time.Minute) // a lease that was not returned is over
				s, err := l.Seal(t.Context())
				if err != nil || s.Size != events {
					t.Fatalf("the next Seal() = %d, %v, want %d", s.Size, err, events)
				}
				if _, err := proxy.Release(); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
	now = now.Add(2 * time.Minute)
	if sealed, err := translog.CheckRegistry(t.Context(), clean, func(f translog.Mismatch) { t.Errorf("fault: %+v", f) }); err != nil || sealed != events {
		t.Errorf("CheckRegistry() = %d, %v, want %d", sealed, err, events)
	}
	if s, err := l.Seal(t.Context()); err != nil || s.EpochCount != events {
		t.Errorf("Seal() = %d epochs, %v, want one for each of %d events", s.EpochCount, err, events)
	}
}
