package registrytest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
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

const (
	workerCount    = 4
	opsPerWorker   = 60
	vacantCount    = 12
	firstVacantKey = 5000
)

// testRandomOperations runs random operations on a few vacants from several registries
// concurrently, over a store with a fault in one of ten calls. Then it checks the invariants.
func testRandomOperations(t *testing.T, inner store.Store) {
	var wg sync.WaitGroup
	var lossy [workerCount]*storetest.Lossy
	for i := range workerCount {
		seed := uint64(i + 1)
		rnd, faultRnd := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
		var mu sync.Mutex
		lossy[i] = &storetest.Lossy{Store: inner, ChooseFault: func(string, []store.Write) storetest.Fault {
			mu.Lock()
			defer mu.Unlock()
			if faultRnd.IntN(10) > 0 {
				return storetest.NoFault
			}
			return storetest.FaultsOf("Commit")[faultRnd.IntN(4)]
		}}
		r := Open(lossy[i], NewClock(), func(c *registry.Config) {
			c.Wait = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
		})
		wg.Go(func() {
			for n := range opsPerWorker {
				name, err := runRandomOperation(t, r, rnd, fmt.Sprintf("%d-%d", i, n))
				if err != nil && !isExpected(err) {
					t.Errorf("worker %d, operation %d, %s = %v", i, n, name, err)
				}
			}
		})
	}
	wg.Wait()
	for _, l := range lossy {
		l.ApplyPending(context.Background())
	}
	wantNoViolations(t, inner)
	tip, err := inner.Tip(t.Context(), registry.EventStream())
	if err != nil || tip.Position < workerCount*opsPerWorker/12 {
		t.Errorf("%d events, %v: too few for this test", tip.Position, err)
	}
	for n := range vacantCount {
		wantClosedAsManifest(t, inner, Key(firstVacantKey+n).ID())
	}
}

func isExpected(err error) bool {
	switch problem.AsError(err).Kind {
	case problem.Unavailable, problem.OutOfSequence, problem.IdempotencyConflict, problem.Equivocation, problem.Revoked, problem.Forbidden, problem.NotFound, problem.Conflict:
		return true
	}
	return false
}

func runRandomOperation(t *testing.T, r *registry.Registry, rnd *rand.Rand, suffix string) (string, error) {
	ctx := context.Background()
	k := Key(firstVacantKey + rnd.IntN(vacantCount))
	seq, err := r.NextActorSeq(ctx, k.ID())
	if err != nil {
		return "ask", err
	}
	switch choice := rnd.IntN(20); {
	case choice < 12:
		d := Draft{Seq: seq, Key: suffix,
			Visibility: []lifecycle.Visibility{lifecycle.Public, lifecycle.Hidden, lifecycle.Restricted}[rnd.IntN(3)]}
		if reg, ok, err := r.Get(ctx, k.ID()); err != nil {
			return "read", err
		} else if ok && rnd.IntN(3) == 0 {
			d.Text, d.Key = "words of "+suffix, event.ReplacesKeyAt(reg.CardHash, seq)
		}
		_, err := r.Publish(ctx, NewPublication(t, k, d))
		return "publish", err
	case choice < 14:
		_, err := r.PutListing(ctx, NewListing(t, k, int64(rnd.IntN(20)+1), nil))
		return "list", err
	case choice < 16:
		s, err := reputation.NewState(Start).Update(reputation.Factual, rnd.Float64(), 1, Start)
		if err == nil {
			err = SetReputation(ctx, r, k.ID(), s)
		}
		return "judge", err
	case choice < 18:
		return "state", SetState(ctx, r, k.ID(), lifecycle.States()[rnd.IntN(6)])
	case choice < 19:
		closed := rnd.IntN(2) == 0
		parent := firstVacantKey - 1
		if !closed {
			parent--
		}
		return "manifest", AddManifest(ctx, r, NewManifest(t, Key(parent), k, closed))
	case rnd.IntN(4) == 0:
		_, err := Revoke(ctx, r, NewRevocation(t, k, seq, "stolen", event.RevokePayload))
		return "revoke", err
	}
	return "nothing", nil
}

// wantClosedAsManifest requires that a registration agrees with the vacant's manifest.
func wantClosedAsManifest(t *testing.T, inner store.Store, id identity.ID) {
	t.Helper()
	ctx := context.Background()
	doc, err := inner.Doc(ctx, registry.ManifestKey(id))
	if err != nil {
		t.Fatal(err)
	}
	var manifest registry.ManifestDocument
	if doc.Version > 0 {
		if manifest, err = registry.ManifestDocs.Parse(doc); err != nil {
			t.Fatal(err)
		}
	}
	reg, ok, err := Open(inner, NewClock()).Get(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case !ok:
	case manifest.Manifest.ClosedByDefault != reg.Closed || reg.Closed && reg.Visibility != lifecycle.Hidden:
		t.Errorf("%s is %s, closed: %t; its manifest closes it: %t", id.Short(), reg.Visibility, reg.Closed, manifest.Manifest.ClosedByDefault)
	case doc.Version > 0 && (!reg.ParentProven || *reg.Parent != manifest.Manifest.ParentID):
		t.Errorf("%s has another parent than its manifest", id.Short())
	}
}
