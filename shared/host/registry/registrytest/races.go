package registrytest

import (
	"context"
	"sync"
	"testing"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// Run runs all tests of this package with stores that open returns.
func Run(t *testing.T, open func(testing.TB) store.Store) {
	t.Run("of many publications with one actor_seq exactly one is accepted", func(t *testing.T) { oneWins(t, open(t)) })
	t.Run("each of many concurrent publications gets its own position", func(t *testing.T) { allEnd(t, open(t)) })
	t.Run("a closed manifest hides its child, whatever arrives concurrently", func(t *testing.T) { closes(t, open(t)) })
	t.Run("random concurrent operations leave one valid chain", func(t *testing.T) { mixture(t, open(t)) })
	t.Run("an interrupted request leaves valid data and can be sent again", func(t *testing.T) { brokenOff(t, open(t)) })
}

const (
	crowd     = 200
	processes = 4
	children  = 12
)

func wantWhole(t *testing.T, s store.Store) {
	t.Helper()
	for _, err := range Check(context.Background(), s) {
		t.Error(err)
	}
}

// atOnce publishes concurrently from many goroutines through several registries with one store.
// Each registry stands for a process.
func atOnce(t *testing.T, s store.Store, publication func(i int) registry.Publication) ([]registry.Receipt, []error) {
	t.Helper()
	var registries [processes]*registry.Registry
	for i := range registries {
		registries[i] = Open(s, NewClock())
	}
	receipts, errs := make([]registry.Receipt, crowd), make([]error, crowd)
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range crowd {
		p := publication(i)
		wg.Go(func() {
			<-begin
			receipts[i], errs[i] = registries[i%processes].Publish(ctx, p)
		})
	}
	close(begin)
	wg.Wait()
	return receipts, errs
}

func oneWins(t *testing.T, s store.Store) {
	k := Key(1)
	if _, err := Open(s, NewClock()).Publish(t.Context(), Publication(t, k, Draft{})); err != nil {
		t.Fatal(err)
	}
	_, errs := atOnce(t, s, func(i int) registry.Publication {
		return Publication(t, k, Draft{Seq: 2, Key: "racer " + string(rune('a'+i)), Visibility: lifecycle.Restricted})
	})
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !problem.Is(err, problem.Sequence) || problem.AsError(err).Text() != "actor_seq must equal last_seq + 1 = 3, got 2":
			t.Errorf("Publish() = %v, want a refusal with the expected actor_seq", err)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d publications were accepted, want 1", won, crowd)
	}
	wantWhole(t, s)
}

func allEnd(t *testing.T, s store.Store) {
	receipts, errs := atOnce(t, s, func(i int) registry.Publication { return Publication(t, Key(1000+i), Draft{}) })
	seqs := map[uint64]bool{}
	for i, r := range receipts {
		if errs[i] != nil {
			t.Errorf("Publish() = %v", errs[i])
		}
		seqs[r.Seq] = true
	}
	if len(seqs) != crowd {
		t.Errorf("%d publishers have %d positions, want one each", crowd, len(seqs))
	}
	tip, err := s.Tip(t.Context(), registry.EventStream())
	if err != nil || tip.Position != crowd {
		t.Errorf("the last event is %d, %v, want %d", tip.Position, err, crowd)
	}
	wantWhole(t, s)
}

// closes sends an open manifest, the closed manifests of two parents, and a publication of the
// child to different registries concurrently. In any order, exactly one closed manifest must be
// stored and the child must be hidden.
func closes(t *testing.T, s store.Store) {
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	opener, parents := Key(1), []*identity.Key{Key(2), Key(3)}
	for n := range children {
		k := Key(2000 + n)
		open, p := Manifest(t, opener, k, false), Publication(t, k, Draft{})
		closed := []composite.Manifest{Manifest(t, parents[0], k, true), Manifest(t, parents[1], k, true)}
		deeds := []func(*registry.Registry) error{
			func(r *registry.Registry) error { return AddManifest(ctx, r, closed[0]) },
			func(r *registry.Registry) error { return AddManifest(ctx, r, closed[1]) },
			func(r *registry.Registry) error { return AddManifest(ctx, r, open) },
			func(r *registry.Registry) error { _, err := r.Publish(ctx, p); return err },
		}
		errs := make([]error, len(deeds))
		begin := make(chan struct{})
		var wg sync.WaitGroup
		for i, do := range deeds {
			r := Open(s, NewClock())
			wg.Go(func() {
				<-begin
				errs[i] = do(r)
			})
		}
		close(begin)
		wg.Wait()
		wantClosed(t, s, k.ID(), parents, errs)
	}
	wantWhole(t, s)
}

// wantClosed requires that exactly one of two parents has closed id, and that the other requests
// failed only for this reason.
func wantClosed(t *testing.T, s store.Store, id identity.ID, parents []*identity.Key, errs []error) {
	t.Helper()
	for i, kind := range []problem.Kind{problem.Conflict, problem.Conflict, problem.Conflict, problem.Forbidden} {
		if errs[i] != nil && !problem.Is(errs[i], kind) {
			t.Errorf("request %d = %v, want nil or %q", i, errs[i], kind)
		}
	}
	won := 0
	if errs[0] != nil {
		won = 1
	}
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Errorf("AddManifest() of two closed manifests = %v, %v, want exactly one refusal", errs[0], errs[1])
	}
	d, err := s.Doc(t.Context(), registry.RegistrationKey(id))
	if err != nil {
		t.Fatal(err)
	}
	g, err := registry.RegistrationDocs.Parse(d)
	if err != nil {
		t.Fatal(err)
	}
	if !g.Closed || !g.ParentProven || *g.Parent != parents[won].ID() || (g.FirstSeq > 0) != (errs[3] == nil) || g.FirstSeq > 0 && g.Visibility != lifecycle.Hidden {
		t.Errorf("final visibility %s, closed: %t, parent %v, first event %d; want it closed by %s", g.Visibility, g.Closed, g.Parent, g.FirstSeq, parents[won].ID().Short())
	}
	wantRefused(t, s, id)
}
