package registry_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

func wantVenues(t *testing.T, r *registry.Registry, what string, want int64) {
	t.Helper()
	if n, err := r.ListedCount(t.Context()); err != nil || n != want {
		t.Errorf("VenueCount() after %s = %d, %v, want %d", what, n, err, want)
	}
}

func TestTheCountOfVenuesChangesWithWhatSearchShows(t *testing.T) {
	home := memory.New()
	r := open(home, newClock())
	wantVenues(t, r, "nothing", 0)
	a, b := key(1), key(2)
	mustPublish(t, r, a, draft{})
	mustPublish(t, r, b, draft{Visibility: lifecycle.Hidden})
	wantVenues(t, r, "a public and a hidden one", 1)
	mustPublish(t, r, b, draft{Seq: 2})
	wantVenues(t, r, "the hidden one is shown", 2)
	for _, step := range []struct {
		state lifecycle.State
		want  int64
	}{{lifecycle.Hibernating, 1}, {lifecycle.Hibernating, 1}, {lifecycle.Active, 2}} {
		must(t, registrytest.SetState(t.Context(), r, a.ID(), step.state))
		wantVenues(t, r, fmt.Sprint("a state of ", step.state), step.want)
	}
	must(t, errorOf(registrytest.Revoke(t.Context(), r, revocationPut(t, b, 3, "over", event.RevokePayload))))
	wantVenues(t, r, "a revocation", 1)
	must(t, registrytest.AddManifest(t.Context(), r, registrytest.NewManifest(t, key(3), a, true)))
	wantVenues(t, r, "a manifest that closes", 0)
}

func TestASlugIsTheFirstVacants(t *testing.T) {
	r := open(memory.New(), newClock())
	ids := [2]identity.ID{key(1).ID(), key(2).ID()}
	for i := range ids {
		mustPublish(t, r, key(byte(1+i)), draft{})
	}
	set := func(i int, slug string) error {
		_, err := r.SetListing(t.Context(), ids[i], listing.Listing{Venue: &listing.Venue{Slug: slug, Category: "agent", Location: "global"}})
		return err
	}
	holds := func(slug string, want *identity.ID) {
		t.Helper()
		g, ok, err := r.FindBySlug(t.Context(), slug)
		if err != nil || ok != (want != nil) || ok && g.ID != *want {
			t.Errorf("FindVenue(%s) = %v, %t, %v, want %v", slug, g.ID.Short(), ok, err, want)
		}
	}
	must(t, set(0, "warung"))
	if err := set(1, "warung"); !problem.Is(err, problem.Conflict) {
		t.Errorf("SetListing() of a taken slug = %v, want Conflict", err)
	}
	holds("warung", &ids[0])
	must(t, set(0, "beach"))
	holds("beach", &ids[0])
	holds("warung", nil)
	if err := set(1, "warung"); err != nil {
		t.Errorf("SetListing() of a slug that was given up = %v", err)
	}
	holds("warung", &ids[1])
	if g := get(t, r, ids[1]); g.Venue().Slug != "warung" || g.Venue().Category != "agent" {
		t.Errorf("Venue() = %+v", g.Venue())
	}
	if g := get(t, r, ids[0]); g.Venue().Slug != "beach" {
		t.Errorf("Venue() = %+v", g.Venue())
	}
}

func TestASignedListingTakesNoSlugThatAnotherVacantGaveUp(t *testing.T) {
	r := open(memory.New(), newClock())
	for i := range 2 {
		mustPublish(t, r, key(byte(1+i)), draft{})
	}
	put := func(i byte, version int64, slug string) error {
		_, err := r.PutListing(t.Context(), signedListing(t, key(i), version, func(l *listing.Listing) {
			l.Venue = &listing.Venue{Slug: slug, Category: "agent", Location: "global"}
		}))
		return err
	}
	for _, step := range []struct {
		vacant  byte
		version int64
		slug    string
		refused []problem.Kind
	}{
		{1, 1, "warung", nil}, {1, 2, "beach", nil},
		{2, 1, "warung", []problem.Kind{problem.Conflict}}, {2, 1, "beach", []problem.Kind{problem.Conflict}},
		{2, 1, "-warung", []problem.Kind{problem.Malformed}},
		{1, 3, "warung", nil}, {2, 1, "beach", []problem.Kind{problem.Conflict}}, {2, 1, "hills", nil},
	} {
		err := put(step.vacant, step.version, step.slug)
		if (err == nil) != (step.refused == nil) || err != nil && !problem.Is(err, step.refused[0]) {
			t.Errorf("PutListing() of %d with %s = %v, want %v", step.vacant, step.slug, err, step.refused)
		}
	}
}

// Earlier versions of the program replaced the claim of a slug that was given up by "".
func TestASlugWithoutAKnownVacantIsFree(t *testing.T) {
	home := memory.New()
	r := open(home, newClock())
	mustPublish(t, r, key(1), draft{})
	must(t, home.Commit(t.Context(), store.Put{Key: registry.SlugKey("warung"), WriteID: store.WriteID{1}}))
	l := signedListing(t, key(1), 1, func(l *listing.Listing) {
		l.Venue = &listing.Venue{Slug: "warung", Category: "agent", Location: "global"}
	})
	if _, err := r.PutListing(t.Context(), l); err != nil {
		t.Error(err)
	}
	if g, ok, err := r.FindBySlug(t.Context(), "warung"); err != nil || !ok || g.ID != key(1).ID() {
		t.Errorf("FindVenue() = %v, %t, %v", g.ID, ok, err)
	}
}

func TestOfManyThatClaimASlugOneHasIt(t *testing.T) {
	home := memory.New()
	r := open(home, newClock())
	const all = 8
	for i := range all {
		mustPublish(t, r, key(byte(1+i)), draft{})
	}
	errs := make(chan error, all)
	for i := range all {
		go func() {
			_, err := open(home, newClock()).SetListing(context.Background(), key(byte(1+i)).ID(),
				listing.Listing{Venue: &listing.Venue{Slug: "one", Category: "agent", Location: "global"}})
			errs <- err
		}()
	}
	won := 0
	for range all {
		if err := <-errs; err == nil {
			won++
		} else if !problem.Is(err, problem.Conflict) && !problem.Is(err, problem.Unavailable) {
			t.Errorf("SetListing() = %v", err)
		}
	}
	if won != 1 {
		t.Errorf("%d vacants have the slug, want 1", won)
	}
}
