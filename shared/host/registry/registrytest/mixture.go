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
	workers  = 4
	deeds    = 60 // operations per worker
	vacants  = 12
	firstOne = 5000 // index of the first vacant's key
)

// mixture runs random operations on a few vacants from several registries concurrently, over a
// store with a fault in one of ten calls. Then it checks the invariants.
func mixture(t *testing.T, inner store.Store) {
	var wg sync.WaitGroup
	var lossy [workers]*storetest.Lossy
	for i := range workers {
		seed := uint64(i + 1)
		dice, fates := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
		var mu sync.Mutex
		lossy[i] = &storetest.Lossy{Store: inner, Decide: func(string, []store.Write) storetest.Fault {
			mu.Lock()
			defer mu.Unlock()
			if fates.IntN(10) > 0 {
				return storetest.NoFault
			}
			return storetest.FatesOf("Commit")[fates.IntN(4)]
		}}
		r := Open(lossy[i], NewClock(), func(c *registry.Config) {
			c.Wait = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
		})
		wg.Go(func() {
			for n := range deeds {
				name, err := deed(t, r, dice, fmt.Sprintf("%d-%d", i, n))
				if err != nil && !isExpected(err) {
					t.Errorf("worker %d, operation %d, %s = %v", i, n, name, err)
				}
			}
		})
	}
	wg.Wait()
	for _, l := range lossy {
		l.AwaitPending(context.Background())
	}
	wantWhole(t, inner)
	tip, err := inner.Tip(t.Context(), registry.EventStream())
	if err != nil || tip.Position < workers*deeds/12 {
		t.Errorf("%d events, %v: too few for this test", tip.Position, err)
	}
	for n := range vacants {
		wantRefused(t, inner, Key(firstOne+n).ID())
	}
}

func isExpected(err error) bool {
	switch problem.AsError(err).Kind {
	case problem.Unavailable, problem.Sequence, problem.Idempotency, problem.Equivocation, problem.Revoked, problem.Forbidden, problem.NotFound, problem.Conflict:
		return true
	}
	return false
}

func deed(t *testing.T, r *registry.Registry, dice *rand.Rand, unique string) (string, error) {
	ctx := context.Background()
	k := Key(firstOne + dice.IntN(vacants))
	seq, err := r.NextActorSeq(ctx, k.ID())
	if err != nil {
		return "ask", err
	}
	switch what := dice.IntN(20); {
	case what < 12:
		d := Draft{Seq: seq, Key: unique,
			Visibility: []lifecycle.Visibility{lifecycle.Public, lifecycle.Hidden, lifecycle.Restricted}[dice.IntN(3)]}
		if g, ok, err := r.Get(ctx, k.ID()); err != nil {
			return "read", err
		} else if ok && dice.IntN(3) == 0 {
			d.Text, d.Key = "words of "+unique, event.ReplacesKeyAt(g.CardHash, seq)
		}
		_, err := r.Publish(ctx, Publication(t, k, d))
		return "publish", err
	case what < 14:
		_, err := r.PutListing(ctx, Listing(t, k, int64(dice.IntN(20)+1), nil))
		return "list", err
	case what < 16:
		s, err := reputation.NewState(Start).Update(reputation.Factual, dice.Float64(), 1, Start)
		if err == nil {
			err = SetReputation(ctx, r, k.ID(), s)
		}
		return "judge", err
	case what < 18:
		return "state", SetState(ctx, r, k.ID(), lifecycle.States()[dice.IntN(6)])
	case what < 19:
		closed := dice.IntN(2) == 0
		parent := firstOne - 1
		if !closed {
			parent--
		}
		return "manifest", AddManifest(ctx, r, Manifest(t, Key(parent), k, closed))
	case dice.IntN(4) == 0:
		_, err := Revoke(ctx, r, Revocation(t, k, seq, "stolen", event.RevokePayload))
		return "revoke", err
	}
	return "nothing", nil
}

// wantRefused requires that a vacant with a closed manifest is hidden and that other vacants are
// not closed.
func wantRefused(t *testing.T, inner store.Store, id identity.ID) {
	t.Helper()
	ctx := context.Background()
	d, err := inner.Doc(ctx, registry.ManifestKey(id))
	if err != nil {
		t.Fatal(err)
	}
	var m registry.ManifestDocument
	if d.Version > 0 {
		if m, err = registry.ManifestDocs.Parse(d); err != nil {
			t.Fatal(err)
		}
	}
	g, ok, err := Open(inner, NewClock()).Get(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case !ok:
	case m.Manifest.ClosedByDefault != g.Closed || g.Closed && g.Visibility != lifecycle.Hidden:
		t.Errorf("%s is %s, closed: %t; its manifest closes it: %t", id.Short(), g.Visibility, g.Closed, m.Manifest.ClosedByDefault)
	case d.Version > 0 && (!g.ParentProven || *g.Parent != m.Manifest.ParentID):
		t.Errorf("%s has another parent than its manifest", id.Short())
	}
}
