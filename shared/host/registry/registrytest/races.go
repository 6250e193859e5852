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
	t.Run("of many publications with one actor_seq exactly one is accepted", func(t *testing.T) { testOneWins(t, open(t)) })
	t.Run("each of many concurrent publications gets its own position", func(t *testing.T) { testAllPublish(t, open(t)) })
	t.Run("a closed manifest hides its child, whatever arrives concurrently", func(t *testing.T) { testClosedManifestWins(t, open(t)) })
	t.Run("random concurrent operations leave one valid chain", func(t *testing.T) { testRandomOperations(t, open(t)) })
	t.Run("an interrupted request leaves valid data and can be sent again", func(t *testing.T) { testInterruptions(t, open(t)) })
}

const (
	publisherCount = 200
	processCount   = 4
	childCount     = 12
)

func wantNoViolations(t *testing.T, s store.Store) {
	t.Helper()
	for _, err := range Check(context.Background(), s) {
		t.Error(err)
	}
}

// publishConcurrently publishes from many goroutines through several registries with one store.
// Each registry stands for a process.
func publishConcurrently(t *testing.T, s store.Store, newPublication func(i int) registry.Publication) ([]registry.Receipt, []error) {
	t.Helper()
	var registries [processCount]*registry.Registry
	for i := range registries {
		registries[i] = Open(s, NewClock())
	}
	receipts, errs := make([]registry.Receipt, publisherCount), make([]error, publisherCount)
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range publisherCount {
		p := newPublication(i)
		wg.Go(func() {
			<-start
			receipts[i], errs[i] = registries[i%processCount].Publish(ctx, p)
		})
	}
	close(start)
	wg.Wait()
	return receipts, errs
}

func testOneWins(t *testing.T, s store.Store) {
	k := Key(1)
	if _, err := Open(s, NewClock()).Publish(t.Context(), NewPublication(t, k, Draft{})); err != nil {
		t.Fatal(err)
	}
	_, errs := publishConcurrently(t, s, func(i int) registry.Publication {
		return NewPublication(t, k, Draft{Seq: 2, Key: "racer " + string(rune('a'+i)), Visibility: lifecycle.Restricted})
	})
	winners := 0
	for _, err := range errs {
		switch {
		case err == nil:
			winners++
		case !problem.Is(err, problem.OutOfSequence) || problem.AsError(err).Text() != "actor_seq must equal last_seq + 1 = 3, got 2":
			t.Errorf("Publish() = %v, want a refusal with the expected actor_seq", err)
		}
	}
	if winners != 1 {
		t.Errorf("%d of %d publications were accepted, want 1", winners, publisherCount)
	}
	wantNoViolations(t, s)
}

func testAllPublish(t *testing.T, s store.Store) {
	receipts, errs := publishConcurrently(t, s, func(i int) registry.Publication { return NewPublication(t, Key(1000+i), Draft{}) })
	seqs := map[uint64]bool{}
	for i, r := range receipts {
		if errs[i] != nil {
			t.Errorf("Publish() = %v", errs[i])
		}
		seqs[r.Seq] = true
	}
	if len(seqs) != publisherCount {
		t.Errorf("%d publishers have %d positions, want one each", publisherCount, len(seqs))
	}
	tip, err := s.Tip(t.Context(), registry.EventStream())
	if err != nil || tip.Position != publisherCount {
		t.Errorf("the last event is %d, %v, want %d", tip.Position, err, publisherCount)
	}
	wantNoViolations(t, s)
}

// testClosedManifestWins sends manifests and a publication of one child concurrently. In any order,
// exactly one closed manifest must be stored and the child must be hidden.
func testClosedManifestWins(t *testing.T, s store.Store) {
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	openParent, closingParents := Key(1), []*identity.Key{Key(2), Key(3)}
	for n := range childCount {
		k := Key(2000 + n)
		openManifest, publication := NewManifest(t, openParent, k, false), NewPublication(t, k, Draft{})
		closedManifests := []composite.Manifest{NewManifest(t, closingParents[0], k, true), NewManifest(t, closingParents[1], k, true)}
		operations := []func(*registry.Registry) error{
			func(r *registry.Registry) error { return AddManifest(ctx, r, closedManifests[0]) },
			func(r *registry.Registry) error { return AddManifest(ctx, r, closedManifests[1]) },
			func(r *registry.Registry) error { return AddManifest(ctx, r, openManifest) },
			func(r *registry.Registry) error { _, err := r.Publish(ctx, publication); return err },
		}
		errs := make([]error, len(operations))
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i, operation := range operations {
			r := Open(s, NewClock())
			wg.Go(func() {
				<-start
				errs[i] = operation(r)
			})
		}
		close(start)
		wg.Wait()
		wantClosed(t, s, k.ID(), closingParents, errs)
	}
	wantNoViolations(t, s)
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
	winner := 0
	if errs[0] != nil {
		winner = 1
	}
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Errorf("AddManifest() of two closed manifests = %v, %v, want exactly one refusal", errs[0], errs[1])
	}
	doc, err := s.Doc(t.Context(), registry.RegistrationKey(id))
	if err != nil {
		t.Fatal(err)
	}
	reg, err := registry.RegistrationDocs.Parse(doc)
	if err != nil {
		t.Fatal(err)
	}
	if !reg.Closed || !reg.ParentProven || *reg.Parent != parents[winner].ID() || (reg.FirstSeq > 0) != (errs[3] == nil) || reg.FirstSeq > 0 && reg.Visibility != lifecycle.Hidden {
		t.Errorf("final visibility %s, closed: %t, parent %v, first event %d; want it closed by %s", reg.Visibility, reg.Closed, reg.Parent, reg.FirstSeq, parents[winner].ID().Short())
	}
	wantClosedAsManifest(t, s, id)
}
