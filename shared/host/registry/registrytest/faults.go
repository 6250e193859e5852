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
	name                string
	prepare             []func(testing.TB, *registry.Registry, *identity.Key) error // earlier requests, sent without faults
	send                func(testing.TB, *registry.Registry, *identity.Key) error
	wantEvents          uint64
	acceptsRegistration func(*registry.Registration) bool // checks the final registration; nil if there must be none
}

func allRequests() []request {
	publish := func(d Draft) func(testing.TB, *registry.Registry, *identity.Key) error {
		return func(t testing.TB, r *registry.Registry, k *identity.Key) error {
			_, err := r.Publish(context.Background(), NewPublication(t, k, d))
			return err
		}
	}
	revoke := func(seq int64) func(testing.TB, *registry.Registry, *identity.Key) error {
		return func(t testing.TB, r *registry.Registry, k *identity.Key) error {
			_, err := Revoke(context.Background(), r, NewRevocation(t, k, seq, "stolen", event.RevokePayload))
			return err
		}
	}
	addClosedManifest := func(t testing.TB, r *registry.Registry, k *identity.Key) error {
		return AddManifest(context.Background(), r, NewManifest(t, Key(1), k, true))
	}
	addOpenManifest := func(t testing.TB, r *registry.Registry, k *identity.Key) error {
		return AddManifest(context.Background(), r, NewManifest(t, Key(2), k, false))
	}
	putListing := func(t testing.TB, r *registry.Registry, k *identity.Key) error {
		_, err := r.PutListing(context.Background(), NewListing(t, k, 1, nil))
		return err
	}
	setListing := func(t testing.TB, r *registry.Registry, k *identity.Key) error {
		_, err := r.SetListing(context.Background(), k.ID(), NewListing(t, k, 1, nil))
		return err
	}
	updateReputation := func(t testing.TB, r *registry.Registry, k *identity.Key) error {
		return SetReputation(context.Background(), r, k.ID(), reputation.NewState(Start))
	}
	probeAll := func(_ testing.TB, r *registry.Registry, _ *identity.Key) error {
		for {
			result, err := r.ProbeEndpoints(context.Background(), func(context.Context, string) error { return nil })
			if err != nil || !result.HasMore {
				return err
			}
		}
	}
	publishFirst, publishHidden := publish(Draft{}), publish(Draft{Visibility: lifecycle.Hidden})
	type step = func(testing.TB, *registry.Registry, *identity.Key) error
	return []request{
		{"first publish", nil, publishFirst, 1, func(reg *registry.Registration) bool { return reg.Visibility == lifecycle.Public }},
		{"second publish", []step{publishFirst}, publish(Draft{Seq: 2, Visibility: lifecycle.Hidden}), 2,
			func(reg *registry.Registration) bool { return reg.Visibility == lifecycle.Hidden }},
		{"publish after a manifest", []step{addClosedManifest}, publishHidden, 1, func(reg *registry.Registration) bool { return reg.Closed && reg.ParentProven }},
		{"revoke", []step{publishFirst}, revoke(2), 2, func(reg *registry.Registration) bool { return reg.Status == registry.StatusRevoked }},
		{"revocation without a registration", nil, revoke(1), 1, nil},
		{"manifest first", nil, addClosedManifest, 0, nil},
		{"manifest of a public vacant", []step{publishFirst}, addClosedManifest, 1,
			func(reg *registry.Registration) bool { return reg.Closed && reg.Visibility == lifecycle.Hidden }},
		{"closed manifest that replaces an open one", []step{publishFirst, addOpenManifest}, addClosedManifest, 1,
			func(reg *registry.Registration) bool {
				return reg.Closed && reg.Visibility == lifecycle.Hidden && *reg.Parent == Key(1).ID()
			}},
		{"signed listing", []step{publishFirst}, putListing, 1, func(reg *registry.Registration) bool { return reg.ListingSource == registry.SourceSigned }},
		{"operator's listing", []step{publishFirst}, setListing, 1, func(reg *registry.Registration) bool { return reg.ListingSource == registry.SourceOperator }},
		{"probe", []step{probeAll, publishFirst}, probeAll, 1, func(reg *registry.Registration) bool { return !reg.AwaitsProbe && reg.IsListed() }},
		{"reputation", []step{publishFirst}, updateReputation, 1, func(reg *registry.Registration) bool { return reg.Reputation != nil }},
	}
}

// testInterruptions makes each store call of each request fail in every way, either by itself or
// together with all later calls, as in a crash.
func testInterruptions(t *testing.T, inner store.Store) {
	keyIndex := 10_000
	for _, req := range allRequests() {
		interrupt := func(callIndex int, fault storetest.Fault, crash, appliedAfterResend bool) []string {
			keyIndex++
			return req.interrupt(t, inner, Key(keyIndex), callIndex, fault, crash, appliedAfterResend)
		}
		ops := interrupt(-1, storetest.NoFault, false, false)
		if len(ops) < 2 {
			t.Fatalf("%s makes %d store calls, want at least 2", req.name, len(ops))
		}
		caseIndex := 0
		for callIndex, op := range ops {
			for _, fault := range storetest.FaultsOf(op) {
				for _, crash := range []bool{false, true} {
					if caseIndex++; !storetest.InSample(caseIndex) {
						continue
					}
					interrupt(callIndex, fault, crash, false)
					if fault == storetest.Delayed {
						interrupt(callIndex, fault, crash, true)
					}
				}
			}
		}
	}
	wantNoViolations(t, inner)
}

// interrupt runs one request of k and applies fault to its store call number callIndex. In a crash,
// all later calls fail. It returns the store calls of the request.
func (q *request) interrupt(t *testing.T, inner store.Store, k *identity.Key, callIndex int, fault storetest.Fault, crash, appliedAfterResend bool) (ops []string) {
	t.Helper()
	name := fmt.Sprintf("%s, call %d %s, crash %t, applied after resend %t", q.name, callIndex, fault, crash, appliedAfterResend)
	faultlessRegistry := Open(inner, NewClock())
	for _, prepare := range q.prepare {
		if err := prepare(t, faultlessRegistry, k); err != nil {
			t.Fatalf("%s: earlier request: %v", name, err)
		}
	}
	isCommit := false
	lossy := &storetest.Lossy{Store: inner, ChooseFault: func(op string, _ []store.Write) storetest.Fault {
		ops = append(ops, op)
		switch n := len(ops) - 1; {
		case n == callIndex:
			isCommit = op == "Commit"
			return fault
		case n > callIndex && callIndex >= 0 && crash:
			return storetest.Lost
		}
		return storetest.NoFault
	}}
	withoutWaits := func(c *registry.Config) {
		c.Wait = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	}
	err := q.send(t, Open(lossy, NewClock(), withoutWaits), k)
	if err != nil && !problem.Is(err, problem.Unavailable) {
		t.Errorf("%s = %v, want nil or unavailable", name, err)
	}
	if err != nil && isCommit && !crash {
		t.Errorf("%s: the request failed after a single failed commit: %v", name, err)
	}
	if !appliedAfterResend {
		lossy.ApplyPending(context.Background())
	}
	if err := q.send(t, faultlessRegistry, k); err != nil {
		t.Errorf("%s: sent again = %v", name, err)
	}
	lossy.ApplyPending(context.Background())
	q.wantResult(t, name, faultlessRegistry, k.ID())
	return ops
}

func (q *request) wantResult(t *testing.T, name string, r *registry.Registry, id identity.ID) {
	t.Helper()
	tip, err := r.Store.Tip(context.Background(), registry.ActorStream(id))
	if err != nil || tip.Position != q.wantEvents {
		t.Errorf("%s: the vacant has %d events, %v, want %d", name, tip.Position, err, q.wantEvents)
	}
	reg, ok, err := r.Get(context.Background(), id)
	if err != nil || ok != (q.acceptsRegistration != nil) || ok && !q.acceptsRegistration(&reg) {
		t.Errorf("%s: registered: %t, %v, final registration %+v", name, ok, err, reg)
	}
}
