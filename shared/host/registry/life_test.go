package registry_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/trust/reputation"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

func TestARevokedKeyPublishesNothingMore(t *testing.T) {
	inner, k := memory.New(), key(1)
	r := open(inner, newClock())
	first := mustPublish(t, r, k, draft{Key: "one"})
	v := revocationPut(t, k, 2, "stolen", event.RevokePayload)
	receipt, err := registrytest.Revoke(t.Context(), r, v)
	if want := (registry.Receipt{ID: k.ID(), Visibility: lifecycle.Public, Seq: 2, CardHash: first.CardHash}); receipt != want || err != nil {
		t.Fatalf("Revoke() = %+v, %v, want %+v", receipt, err, want)
	}
	wantWhole(t, inner)
	g := get(t, r, k.ID())
	if g.Status != registry.StatusRevoked || g.IsListed() {
		t.Errorf("the registration is %s, listed: %t", g.Status, g.IsListed())
	}
	if gone, err := r.IsRevoked(t.Context(), k.ID()); !gone || err != nil {
		t.Errorf("IsRevoked() = %t, %v, want true", gone, err)
	}
	before := everything(t, inner)
	l := signedListing(t, k, 1, nil)
	refused := map[string]func() error{
		"publish": func() error {
			_, err := r.Publish(t.Context(), publication(t, k, draft{Seq: 3}))
			return err
		},
		"revoke once more": func() error {
			v := revocationPut(t, k, 3, "again", event.RevokePayload)
			v.IdempotencyKey = "other"
			e := event.Event{Type: event.Revoke, Actor: v.ID, IdempotencyKey: v.IdempotencyKey, Time: v.Time, ActorSeq: 3, Payload: event.RevokePayload(v.ID, v.Reason)}
			v.Signature, _ = k.Sign(t.Context(), e.AppendSignedBytes(nil))
			_, err := registrytest.Revoke(t.Context(), r, v)
			return err
		},
		"list": func() error {
			_, err := r.PutListing(t.Context(), l)
			return err
		},
		"set a listing": func() error {
			_, err := r.SetListing(t.Context(), k.ID(), l)
			return err
		},
		"be a parent": func() error { return registrytest.AddManifest(t.Context(), r, manifest(t, k, key(2), false)) },
		"be a child":  func() error { return registrytest.AddManifest(t.Context(), r, manifest(t, key(2), k, false)) },
	}
	for name, do := range refused {
		if err := do(); !problem.Is(err, problem.Revoked) {
			t.Errorf("%s = %v, want revoked", name, err)
		}
	}
	// Sending the event again does not change the stored registration.
	if again, err := r.Publish(t.Context(), publication(t, k, draft{Key: "one"})); again.Seq != 1 || !again.Replayed || err != nil {
		t.Errorf("Publish() of the first event again = %+v, %v, want its receipt", again, err)
	}
	if again, err := registrytest.Revoke(t.Context(), r, v); again.Seq != 2 || !again.Replayed || err != nil {
		t.Errorf("Revoke() again = %+v, %v, want its receipt", again, err)
	}
	must(t, registrytest.SetReputation(t.Context(), r, k.ID(), reputation.NewState(start)))
	if diff := cmp.Diff(before, everything(t, inner)); diff != "" {
		t.Errorf("a revoked key changed (-before +after):\n%s", diff)
	}
}

func TestARevocationIsTakenInBothFormsOfItsPayload(t *testing.T) {
	const reason = "密鑰被盜 \"x\""
	for name, payload := range map[string]func(identity.ID, string) []byte{"UTF-8": event.RevokePayload, "escaped": event.RevokePayloadASCII} {
		inner, k := memory.New(), key(1)
		r := open(inner, newClock())
		if _, err := registrytest.Revoke(t.Context(), r, revocationPut(t, k, 1, reason, payload)); err != nil {
			t.Errorf("%s: Revoke() = %v", name, err)
		}
		wantWhole(t, inner)
		id := k.ID()
		if hidden, err := r.Events(t.Context(), id, nil, 0, 10); err != nil || len(hidden) != 0 {
			t.Errorf("%s: Events() of a key that was never registered = %d, %v for everybody, want none", name, len(hidden), err)
		}
		got, err := r.Events(t.Context(), id, &id, 0, 10)
		if err != nil || len(got) != 1 || string(got[0].Payload) != string(payload(k.ID(), reason)) {
			t.Errorf("%s: Events() = %d, %v, want the payload as it was signed", name, len(got), err)
		}
		list, next, err := r.ListRevocations(t.Context(), "", 10)
		want := []registry.RevocationRecord{{ID: k.ID(), Reason: reason, Time: start.UnixMilli(), Seq: 1, ActorSeq: 1, Hash: got[0].Hash}}
		if diff := cmp.Diff(want, list); diff != "" || next != "" || err != nil {
			t.Errorf("%s: ListRevocations() = %q, %v (-want +got):\n%s", name, next, err, diff)
		}
		// The key was never registered and cannot be registered.
		if _, err := r.Publish(t.Context(), publication(t, k, draft{Seq: 2})); !problem.Is(err, problem.Revoked) {
			t.Errorf("%s: Publish() = %v, want revoked", name, err)
		}
		if _, err := r.View(t.Context(), k.ID(), nil); !problem.Is(err, problem.NotFound) {
			t.Errorf("%s: View() = %v, want not found", name, err)
		}
	}
}

func TestEveryRefusalOfARevocationHasItsKind(t *testing.T) {
	k := key(1)
	for _, tt := range []struct {
		name string
		with func(*registry.Revocation)
		kind problem.Kind
	}{
		{"no reason", func(v *registry.Revocation) { v.Reason = " " }, problem.InvalidMember},
		{"a long reason", func(v *registry.Revocation) { v.Reason = strings.Repeat("r", event.MaxReasonBytes+1) }, problem.InvalidMember},
		{"count 0", func(v *registry.Revocation) { v.ActorSeq = 0 }, problem.InvalidMember},
		{"a long key", func(v *registry.Revocation) { v.IdempotencyKey = strings.Repeat("k", event.MaxIdempotencyKeyBytes+1) }, problem.InvalidMember},
		{"another reason", func(v *registry.Revocation) { v.Reason = "other" }, problem.BadSignature},
		{"another's key", func(v *registry.Revocation) { v.ID = key(2).ID() }, problem.BadSignature},
		{"a gap", func(v *registry.Revocation) { *v = revocationPut(t, k, 5, "r", event.RevokePayload) }, problem.OutOfSequence},
		{"the count again", func(v *registry.Revocation) { *v = revocationPut(t, k, 1, "r", event.RevokePayload) }, problem.OutOfSequence},
	} {
		r := open(memory.New(), newClock())
		mustPublish(t, r, k, draft{})
		v := revocationPut(t, k, 2, "r", event.RevokePayload)
		tt.with(&v)
		if _, err := registrytest.Revoke(t.Context(), r, v); !problem.Is(err, tt.kind) {
			t.Errorf("%s: Revoke() = %v, want %s", tt.name, err, tt.kind)
		}
		if gone, err := r.IsRevoked(t.Context(), v.ID); gone || err != nil {
			t.Errorf("%s: IsRevoked() = %t, %v, want false", tt.name, gone, err)
		}
	}
}

func TestRevokeAddsToTheCallersCommit(t *testing.T) {
	home, k := &registrytest.CommitRecorder{Store: memory.New()}, key(1)
	record := store.Key{Partition: "v#", Sort: "record"}
	r := open(home, newClock())
	mustPublish(t, r, k, draft{Endpoint: hostURL + k.ID().String()})
	v := revocationPut(t, k, 2, "over", event.RevokePayload)
	for _, replayed := range []bool{false, true} {
		err := registrytest.Update(t.Context(), r, func(ctx context.Context, tx *store.Tx) error {
			receipt, err := r.Revoke(ctx, tx, v)
			if receipt.Seq != 2 || receipt.Replayed != replayed {
				t.Errorf("Revoke() = %+v, want event 2, replayed: %t", receipt, replayed)
			}
			if !replayed {
				tx.Put(store.Doc{Key: record, Data: []byte("SUNK")})
			}
			return err
		})
		if err != nil || len(home.LastWrites) != 7 {
			t.Fatalf("Update() = %v, %d writes, want 6 of the registry and one beside", err, len(home.LastWrites))
		}
	}
	d, err := home.Doc(t.Context(), record)
	if err != nil || string(d.Data) != "SUNK" {
		t.Errorf("the host's record = %q, %v", d.Data, err)
	}
	if g := get(t, r, k.ID()); g.State != lifecycle.Sunk {
		t.Errorf("the registration is %s, want SUNK", g.State)
	}
	wantWhole(t, home)
}

func TestSetStateChangesTheRegistrationOnly(t *testing.T) {
	home, c, k := &registrytest.CommitRecorder{Store: memory.New()}, newClock(), key(1)
	r := open(home, c)
	set := func(what string, s lifecycle.State, writes int) {
		t.Helper()
		home.LastWrites = nil
		if err := registrytest.SetState(t.Context(), r, k.ID(), s); err != nil || len(home.LastWrites) != writes {
			t.Errorf("SetState() %s = %v, %d writes, want %d", what, err, len(home.LastWrites), writes)
		}
	}
	set("of an unregistered vacant", lifecycle.Sunk, 0)
	mustPublish(t, r, k, draft{})
	set("without a change", lifecycle.Active, 0)
	c.Advance(time.Hour)
	set("of a change", lifecycle.Hibernating, 2) // and the count of venues
	g := get(t, r, k.ID())
	if g.State != lifecycle.Hibernating || !g.StateSince.Equal(c.Now()) || g.IsListed() || g.ChangeKey != registry.FormatChangeKey(c.Now()) {
		t.Errorf("committed: %s since %v, listed: %t, at %s", g.State, g.StateSince, g.IsListed(), g.ChangeKey)
	}
	wantWhole(t, home)
}

func TestVacantHibernatingForThirtyDaysIsStale(t *testing.T) {
	c, k := newClock(), key(1)
	r := open(memory.New(), c)
	mustPublish(t, r, k, draft{State: lifecycle.Hibernating})
	for _, tt := range []struct {
		after time.Duration
		want  lifecycle.State
	}{{0, lifecycle.Hibernating}, {registry.StaleAge - 1, lifecycle.Hibernating}, {registry.StaleAge, lifecycle.Stale}} {
		g := get(t, r, k.ID())
		if got := g.EffectiveState(start.Add(tt.after)); got != tt.want {
			t.Errorf("EffectiveState() after %v = %s, want %s", tt.after, got, tt.want)
		}
	}
	// Sending the event again does not wake the vacant.
	c.Advance(20 * time.Hour)
	mustPublish(t, r, k, draft{Seq: 2, State: lifecycle.Hibernating, SignedAt: c.Now()})
	if g := get(t, r, k.ID()); !g.StateSince.Equal(start) {
		t.Errorf("asleep since %v, want %v", g.StateSince, start)
	}
}

func TestOnlyActivePublicVacantsAreListed(t *testing.T) {
	for _, state := range lifecycle.States() {
		for _, v := range []lifecycle.Visibility{lifecycle.Hidden, lifecycle.Restricted, lifecycle.Public} {
			r, k := open(memory.New(), newClock()), key(1)
			mustPublish(t, r, k, draft{State: state, Visibility: v})
			g := get(t, r, k.ID())
			if got, want := g.IsListed(), state == lifecycle.Active && v == lifecycle.Public; got != want {
				t.Errorf("Listed() of one that is %s and %s = %t, want %t", state, v, got, want)
			}
		}
	}
}

func TestASignedListingIsTakenOnce(t *testing.T) {
	inner, c, k := memory.New(), newClock(), key(1)
	r := open(inner, c)
	if _, err := r.PutListing(t.Context(), signedListing(t, k, 1, nil)); !problem.Is(err, problem.NotFound) {
		t.Errorf("PutListing() of who is not registered = %v, want not found", err)
	}
	one := signedListing(t, k, 1, nil)
	mustPublish(t, r, k, draft{BeforeSign: func(p *registry.Publication) { p.Listing = &one }})
	if g := get(t, r, k.ID()); g.ListingSource != registry.SourceSigned || g.Listing.Hash() != one.Hash() {
		t.Errorf("published with a listing: %s", g.ListingSource)
	}
	three := signedListing(t, k, 3, func(l *listing.Listing) { l.Summary = "三" })
	c.Advance(time.Second)
	g, err := r.PutListing(t.Context(), three)
	if err != nil || g.Listing.Summary != "三" || g.ChangeKey != registry.FormatChangeKey(c.Now()) || g.DocVersion != 3 {
		t.Errorf("PutListing() = %+v, %v", g, err)
	}
	if diff := cmp.Diff(get(t, r, k.ID()), g, asKept); diff != "" {
		t.Errorf("PutListing() (-kept +returned):\n%s", diff)
	}
	before := everything(t, inner)
	if _, err := r.PutListing(t.Context(), three); err != nil {
		t.Errorf("PutListing() again = %v", err)
	}
	forged := three
	forged.Tags = []string{"other"}
	for name, tt := range map[string]struct {
		l    listing.Listing
		kind problem.Kind
	}{
		"an old one":                {one, problem.Conflict},
		"another of the version":    {signedListing(t, k, 3, nil), problem.Conflict},
		"a changed one":             {forged, problem.BadSignature},
		"one that breaks the limit": {listing.Listing{VacantID: k.ID()}, problem.Malformed},
	} {
		if _, err := r.PutListing(t.Context(), tt.l); !problem.Is(err, tt.kind) {
			t.Errorf("%s: PutListing() = %v, want %s", name, err, tt.kind)
		}
	}
	if diff := cmp.Diff(before, everything(t, inner)); diff != "" {
		t.Errorf("a refused listing changed (-before +after):\n%s", diff)
	}
}

func TestAListingOfTheOperatorIsMarkedAndHoldsNoVersionBack(t *testing.T) {
	inner, k := memory.New(), key(1)
	r := open(inner, newClock())
	mustPublish(t, r, k, draft{})
	two := signedListing(t, k, 2, nil)
	must(t, errorOf(r.PutListing(t.Context(), two)))
	set := listing.Listing{Version: 99, Tags: []string{"set"}, Signature: make([]byte, 64)}
	g, err := r.SetListing(t.Context(), k.ID(), set)
	if err != nil || g.ListingSource != registry.SourceOperator || g.Listing.Version != 2 || len(g.Listing.Signature) != 0 || g.Listing.Tags[0] != "set" {
		t.Fatalf("SetListing() = %s %+v, %v, want it marked", g.ListingSource, g.Listing, err)
	}
	if kept := get(t, r, k.ID()); kept.ListingSource != registry.SourceOperator || kept.Listing.Tags[0] != "set" {
		t.Errorf("kept: %s %+v", kept.ListingSource, kept.Listing)
	}
	before := everything(t, inner)
	if _, err := r.SetListing(t.Context(), k.ID(), set); err != nil {
		t.Errorf("SetListing() again = %v", err)
	}
	// A recorded earlier listing cannot be restored.
	if _, err := r.PutListing(t.Context(), two); !problem.Is(err, problem.Conflict) {
		t.Errorf("PutListing() of the old one = %v, want a conflict", err)
	}
	if diff := cmp.Diff(before, everything(t, inner)); diff != "" {
		t.Errorf("changed (-before +after):\n%s", diff)
	}
	if g, err = r.PutListing(t.Context(), signedListing(t, k, 3, nil)); err != nil || g.ListingSource != registry.SourceSigned {
		t.Errorf("PutListing() of a newer one = %s, %v", g.ListingSource, err)
	}
}

func TestReviewsAreKeptWithTheRegistration(t *testing.T) {
	inner, k := memory.New(), key(1)
	r := open(inner, newClock())
	s, err := reputation.NewState(start).Update(reputation.Factual, 0.9, 0.6, start)
	must(t, err)
	must(t, registrytest.SetReputation(t.Context(), r, k.ID(), s))
	if stored := everything(t, inner); len(stored) > 0 {
		t.Errorf("SetReputation() of a vacant that is not registered has stored %v", stored)
	}
	mustPublish(t, r, k, draft{})
	for range 2 { // the same reputation again is not written
		must(t, registrytest.SetReputation(t.Context(), r, k.ID(), s))
		if g := get(t, r, k.ID()); g.Reputation == nil || *g.Reputation != s || g.DocVersion != 3 {
			t.Errorf("SetReputation() has stored %+v in version %d, want version 3", g.Reputation, g.DocVersion)
		}
	}
	mustPublish(t, r, k, draft{Seq: 2, Visibility: lifecycle.Restricted})
	if g := get(t, r, k.ID()); g.Reputation == nil || *g.Reputation != s {
		t.Error("a publish has forgotten the reputation")
	}
}

// overtaken lets another writer commit first, once.
type overtaken struct {
	store.Store
	first func()
}

func (o *overtaken) Commit(ctx context.Context, writes ...store.Write) error {
	if first := o.first; first != nil {
		o.first = nil
		first()
	}
	return o.Store.Commit(ctx, writes...)
}

func TestAnEditThatAnotherWriterMadeFirstReturnsTheStoredVersion(t *testing.T) {
	inner, k := memory.New(), key(1)
	l := signedListing(t, k, 1, nil)
	mustPublish(t, open(inner, newClock()), k, draft{})
	slow := &overtaken{Store: inner, first: func() {
		if _, err := open(inner, newClock()).SetListing(t.Context(), k.ID(), l); err != nil {
			t.Error(err)
		}
	}}
	g, err := open(slow, newClock()).SetListing(t.Context(), k.ID(), l)
	if stored := get(t, open(inner, newClock()), k.ID()); err != nil || g.DocVersion != stored.DocVersion {
		t.Errorf("SetListing() = version %d, %v, want %d as stored", g.DocVersion, err, stored.DocVersion)
	}
}

func TestTheStateOfAHostedVacantIsTheHostsToSay(t *testing.T) {
	inner, k := memory.New(), key(1)
	r := open(inner, newClock())
	here := draft{Endpoint: hostURL + k.ID().String()}
	mustPublish(t, r, k, here)
	asleep := here
	asleep.Seq, asleep.State = 2, lifecycle.Hibernating
	p := publication(t, k, asleep)
	if _, err := r.Publish(t.Context(), p); !problem.Is(err, problem.Conflict) || !strings.Contains(err.Error(), "where it is ACTIVE, not HIBERNATING") {
		t.Errorf("Publish() in another state = %v, want a conflict", err)
	}
	must(t, errorOf(registrytest.PublishHosted(t.Context(), r, p)))
	if g := get(t, r, k.ID()); g.State != lifecycle.Hibernating {
		t.Errorf("PublishHosted(): the state is %s, want HIBERNATING", g.State)
	}
	asleep.Seq, asleep.Visibility = 3, lifecycle.Restricted
	mustPublish(t, r, k, asleep)
	wantWhole(t, inner)
}

func TestARegistrationThatIsNotWhatItsEventsSayIsDamage(t *testing.T) {
	inner, k := memory.New(), key(1)
	r := open(inner, newClock())
	mustPublish(t, r, k, draft{})
	old, err := inner.Doc(t.Context(), registry.RegistrationKey(k.ID()))
	must(t, err)
	mustPublish(t, r, k, draft{Seq: 2})
	must(t, inner.Commit(t.Context(), store.Put{Key: old.Key, IfVersion: old.Version + 1, WriteID: store.WriteID{1}, Data: old.Data, Index: old.Index}))
	if _, err := r.Publish(t.Context(), publication(t, k, draft{Seq: 3})); !problem.Is(err, problem.Damaged) {
		t.Errorf("Publish() = %v, want damaged", err)
	}
}
