package registrytest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
	"github.com/vacancy-host/vacancy/shared/trust/reputation"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// request is a request that concerns one vacant. The test interrupts the request at each of its
// store calls and then sends it again.
type request struct {
	name    string
	prepare []func(testing.TB, *registry.Registry, *identity.Key) error // earlier requests, sent without faults
	send    func(testing.TB, *registry.Registry, *identity.Key) error
	events  uint64                            // expected number of events of the vacant
	want    func(*registry.Registration) bool // checks the final registration; nil if there must be none
}

func requests() []request {
	publish := func(d Draft) func(testing.TB, *registry.Registry, *identity.Key) error {
		return func(t testing.TB, r *registry.Registry, k *identity.Key) error {
			_, err := r.Publish(context.Background(), Publication(t, k, d))
			return err
		}
	}
	revoke := func(seq int64) func(testing.TB, *registry.Registry, *identity.Key) error {
		return func(t testing.TB, r *registry.Registry, k *identity.Key) error {
			_, err := Revoke(context.Background(), r, Revocation(t, k, seq, "stolen", event.RevokePayload))
			return err
		}
	}
	manifest := func(t testing.TB, r *registry.Registry, k *identity.Key) error {
		return AddManifest(context.Background(), r, Manifest(t, Key(1), k, true))
	}
	openHandler := func(t testing.TB, r *registry.Registry, k *identity.Key) error {
		return AddManifest(context.Background(), r, Manifest(t, Key(2), k, false))
	}
	list := func(t testing.TB, r *registry.Registry, k *identity.Key) error {
		_, err := r.PutListing(context.Background(), Listing(t, k, 1, nil))
		return err
	}
	set := func(t testing.TB, r *registry.Registry, k *identity.Key) error {
		_, err := r.SetListing(context.Background(), k.ID(), Listing(t, k, 1, nil))
		return err
	}
	judge := func(t testing.TB, r *registry.Registry, k *identity.Key) error {
		return SetReputation(context.Background(), r, k.ID(), reputation.NewState(Start))
	}
	// Reach is called until no endpoint waits.
	reach := func(_ testing.TB, r *registry.Registry, _ *identity.Key) error {
		for {
			reached, err := r.Reach(context.Background(), func(context.Context, string) error { return nil })
			if err != nil || !reached.More {
				return err
			}
		}
	}
	first, hidden := publish(Draft{}), publish(Draft{Visibility: lifecycle.Hidden})
	type step = func(testing.TB, *registry.Registry, *identity.Key) error
	return []request{
		{"first publish", nil, first, 1, func(g *registry.Registration) bool { return g.Visibility == lifecycle.Public }},
		{"second publish", []step{first}, publish(Draft{Seq: 2, Visibility: lifecycle.Hidden}), 2,
			func(g *registry.Registration) bool { return g.Visibility == lifecycle.Hidden }},
		{"publish after a manifest", []step{manifest}, hidden, 1, func(g *registry.Registration) bool { return g.Closed && g.ParentProven }},
		{"revoke", []step{first}, revoke(2), 2, func(g *registry.Registration) bool { return g.Status == registry.StatusRevoked }},
		{"revocation without a registration", nil, revoke(1), 1, nil},
		{"manifest first", nil, manifest, 0, nil},
		{"manifest of a public vacant", []step{first}, manifest, 1,
			func(g *registry.Registration) bool { return g.Closed && g.Visibility == lifecycle.Hidden }},
		{"closed manifest that replaces an open one", []step{first, openHandler}, manifest, 1,
			func(g *registry.Registration) bool {
				return g.Closed && g.Visibility == lifecycle.Hidden && *g.Parent == Key(1).ID()
			}},
		{"signed listing", []step{first}, list, 1, func(g *registry.Registration) bool { return g.ListingSource == registry.SourceSigned }},
		{"operator's listing", []step{first}, set, 1, func(g *registry.Registration) bool { return g.ListingSource == registry.SourceOperator }},
		{"probe", []step{reach, first}, reach, 1, func(g *registry.Registration) bool { return !g.AwaitsProbe && g.IsListed() }},
		{"reputation", []step{first}, judge, 1, func(g *registry.Registration) bool { return g.Reputation != nil }},
	}
}

// brokenOff makes each store call of each request fail in every way, either alone or together with
// all later calls, as in a crash. Delayed writes are applied before or after the request is sent
// again. Each round uses another vacant.
func brokenOff(t *testing.T, inner store.Store) {
	next := 10_000
	for _, q := range requests() {
		play := func(callIndex int, fate storetest.Fault, crash, lateLast bool) []string {
			next++
			return q.play(t, inner, Key(next), callIndex, fate, crash, lateLast)
		}
		ops := play(-1, storetest.NoFault, false, false)
		if len(ops) < 2 {
			t.Fatalf("%s makes %d store calls, want at least 2", q.name, len(ops))
		}
		n := 0
		for callIndex, op := range ops {
			for _, fate := range storetest.FatesOf(op) {
				for _, crash := range []bool{false, true} {
					if n++; !storetest.InSample(n) {
						continue
					}
					play(callIndex, fate, crash, false)
					if fate == storetest.Delayed {
						play(callIndex, fate, crash, true)
					}
				}
			}
		}
	}
	wantWhole(t, inner)
}

// play runs one request of k and applies fate to its store call number callIndex. In a crash, all later
// calls fail. It returns the store calls of the request.
func (q *request) play(t *testing.T, inner store.Store, k *identity.Key, callIndex int, fate storetest.Fault, crash, lateLast bool) (ops []string) {
	t.Helper()
	name := fmt.Sprintf("%s, call %d %s, crash %t, late last %t", q.name, callIndex, fate, crash, lateLast)
	clean := Open(inner, NewClock())
	for _, prepare := range q.prepare {
		if err := prepare(t, clean, k); err != nil {
			t.Fatalf("%s: earlier request: %v", name, err)
		}
	}
	commit := false
	lossy := &storetest.Lossy{Store: inner, Decide: func(op string, _ []store.Write) storetest.Fault {
		ops = append(ops, op)
		switch n := len(ops) - 1; {
		case n == callIndex:
			commit = op == "Commit"
			return fate
		case n > callIndex && callIndex >= 0 && crash:
			return storetest.Lost
		}
		return storetest.NoFault
	}}
	hurried := func(c *registry.Config) {
		c.Wait = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	}
	err := q.send(t, Open(lossy, NewClock(), hurried), k)
	if err != nil && !problem.Is(err, problem.Unavailable) {
		t.Errorf("%s = %v, want nil or unavailable", name, err)
	}
	if err != nil && commit && !crash {
		t.Errorf("%s: the request failed after a single failed commit: %v", name, err)
	}
	if !lateLast {
		lossy.AwaitPending(context.Background())
	}
	if err := q.send(t, clean, k); err != nil {
		t.Errorf("%s: sent again = %v", name, err)
	}
	lossy.AwaitPending(context.Background())
	q.check(t, name, clean, k.ID())
	return ops
}

func (q *request) check(t *testing.T, name string, r *registry.Registry, id identity.ID) {
	t.Helper()
	tip, err := r.Store.Tip(context.Background(), registry.ActorStream(id))
	if err != nil || tip.Position != q.events {
		t.Errorf("%s: the vacant has %d events, %v, want %d", name, tip.Position, err, q.events)
	}
	g, ok, err := r.Get(context.Background(), id)
	if err != nil || ok != (q.want != nil) || ok && !q.want(&g) {
		t.Errorf("%s: registered: %t, %v, final registration %+v", name, ok, err, g)
	}
}
