package vacants_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

func pointer[T any](v T) *T { return &v }

func registration(t testing.TB, v *vacants.Directory, id identity.ID) registry.Registration {
	t.Helper()
	g, ok, err := v.Registry.Get(t.Context(), id)
	if err != nil || !ok {
		t.Fatalf("Get() = %t, %v, want a registration", ok, err)
	}
	return g
}

func TestAPublishSignsCardEventAndListingAndWakesTheVacant(t *testing.T) {
	v := fresh(t)
	id := create(t, v, "demo").ID
	w := vacants.ListingOptions{Tags: []string{"translation"}, Skills: []string{"German"}, Summary: "a summary", Family: "claude", Owner: "Example"}
	r, receipt, err := v.Publish(t.Context(), id, vacants.PublishOptions{Listing: &w})
	must(t, err)
	c, err := card.Parse(r.Card)
	must(t, err)
	if diff := cmp.Diff(registry.Receipt{ID: id, Visibility: lifecycle.Public, Seq: 1, CardHash: c.Hash()}, receipt); diff != "" {
		t.Errorf("Publish() (-want +got):\n%s", diff)
	}
	g := registration(t, v, id)
	if r.State != lifecycle.Active || g.State != lifecycle.Active || !g.IsListed() || !g.Hosted {
		t.Errorf("the vacant is %s, its registration %+v, want ACTIVE and listed", r.State, g)
	}
	want := listing.Listing{VacantID: id, Version: newClock().now().UnixMicro(), Tags: w.Tags, Skills: w.Skills, Summary: w.Summary, ModelFamily: w.Family, Owner: w.Owner}
	if diff := cmp.Diff(&want, g.Listing, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Signature" }, cmp.Ignore())); diff != "" {
		t.Errorf("listing (-want +got):\n%s", diff)
	}
	if !g.Listing.Verify() || g.ListingSource != registry.SourceSigned {
		t.Errorf("the listing verifies: %t, is %s; want signed", g.Listing.Verify(), g.ListingSource)
	}
	e, err := v.Registry.Event(t.Context(), 1, nil)
	if err != nil || !e.Verify() || e.Actor != id || e.ActorSeq != 1 {
		t.Errorf("Event(1) = %+v, %v, want the vacant's first", e, err)
	}
	wantStory := []string{
		`GENESIS {"name":"demo","vacant_id":"` + id.String() + `"}`,
		`PUBLISHED {"actor_seq":1,"card_hash":"` + c.Hash().String() + `","endpoint":"` + c.Endpoint + `","from":"LOCAL","to":"ACTIVE","visibility":"PUBLIC"}`,
	}
	if diff := cmp.Diff(wantStory, story(t, v, id)); diff != "" {
		t.Errorf("logbook (-want +got):\n%s", diff)
	}
}

func TestTheSamePublishedAgainWritesNothing(t *testing.T) {
	v := fresh(t)
	id := create(t, v, "demo").ID
	w := vacants.PublishOptions{Capability: pointer("sings"), Visibility: pointer(lifecycle.Restricted), Listing: &vacants.ListingOptions{Tags: []string{"a"}}}
	_, first, err := v.Publish(t.Context(), id, w)
	must(t, err)
	for what, w := range map[string]vacants.PublishOptions{"the same": w, "nothing": {}} {
		_, again, err := v.Publish(t.Context(), id, w)
		want := first
		want.Replayed = true
		if diff := cmp.Diff(want, again); err != nil || diff != "" {
			t.Errorf("Publish() of %s = %v (-want +got):\n%s", what, err, diff)
		}
	}
	if g := registration(t, v, id); g.ActorSeq != 1 || g.DocVersion != 1 || len(log(t, v, id)) != 2 {
		t.Errorf("after three publishes there are %d events, version %d, %d entries; want 1, 1, 2", g.ActorSeq, g.DocVersion, len(log(t, v, id)))
	}
}

// Cards alternate: each names the one it replaces, and an old event is never
// taken for a new one.
func TestAnotherCapabilityIsAnotherCardThatSaysWhatItReplaces(t *testing.T) {
	v := fresh(t)
	id := create(t, v, "demo").ID
	var known identity.Hash
	for i, capability := range []string{"one", "two", "one", "two", "two"} {
		r, receipt, err := v.Publish(t.Context(), id, vacants.PublishOptions{Capability: &capability})
		must(t, err)
		g := registration(t, v, id)
		c, err := card.Parse(g.Card)
		if err != nil || c.CapabilityText != capability || r.Capability != capability || g.CardHash != receipt.CardHash {
			t.Errorf("publish %d: registered %q (%v), record %q, want %q", i, c.CapabilityText, err, r.Capability, capability)
		}
		if receipt.Replayed != (i == 4) {
			t.Errorf("publish %d: replayed %t", i, receipt.Replayed)
		}
		events, err := v.Registry.Events(t.Context(), id, &id, g.LastSeq-1, 1)
		must(t, err)
		if follows, says := event.ParseReplacesKey(events[0].IdempotencyKey); i > 0 && i < 4 && (!says || follows != known) {
			t.Errorf("publish %d has key %s, want one that replaces %s", i, events[0].IdempotencyKey, known)
		}
		known = g.CardHash
	}
	if g := registration(t, v, id); g.ActorSeq != 4 {
		t.Errorf("there are %d events, want 4", g.ActorSeq)
	}
}

func TestVisibilityIsKeptUntilItIsChanged(t *testing.T) {
	v := fresh(t)
	id := create(t, v, "demo").ID
	for i, step := range []struct {
		as     *lifecycle.Visibility
		hidden bool // by an unpublish
		want   lifecycle.Visibility
		state  lifecycle.State
	}{
		{as: pointer(lifecycle.Hidden), want: lifecycle.Hidden, state: lifecycle.Local},
		{as: pointer(lifecycle.Restricted), want: lifecycle.Restricted, state: lifecycle.Active},
		{want: lifecycle.Restricted, state: lifecycle.Active},
		{hidden: true, want: lifecycle.Hidden, state: lifecycle.Active},
		{hidden: true, want: lifecycle.Hidden, state: lifecycle.Active},
		{want: lifecycle.Public, state: lifecycle.Active},
	} {
		var err error
		var r vacants.Record
		if step.hidden {
			r, _, err = v.Unpublish(t.Context(), id)
		} else {
			r, _, err = v.Publish(t.Context(), id, vacants.PublishOptions{Visibility: step.as})
		}
		if g := registration(t, v, id); err != nil || g.Visibility != step.want || r.State != step.state || g.State != step.state {
			t.Errorf("step %d: %s in %s, registered in %s, %v; want %s in %s", i, g.Visibility, r.State, g.State, err, step.want, step.state)
		}
	}
}

func TestEveryChangeOfStateReachesTheRegistry(t *testing.T) {
	v := fresh(t)
	id := create(t, v, "demo").ID
	must(t, errorOf2(v.Publish(t.Context(), id, vacants.PublishOptions{})))
	for _, step := range []struct {
		command string
		want    lifecycle.State
		listed  bool
	}{
		{"pause", lifecycle.Hibernating, false}, {"resume", lifecycle.Active, true},
		{"sink", lifecycle.Sunk, false}, {"archive", lifecycle.Archived, false},
	} {
		do(t, v, id, step.command)
		g := registration(t, v, id)
		if g.State != step.want || g.IsListed() != step.listed || g.ActorSeq != 1 {
			t.Errorf("after %s it is registered as %s, listed %t, %d events; want %s, %t, 1", step.command, g.State, g.IsListed(), g.ActorSeq, step.want, step.listed)
		}
	}
	do(t, v, id, "delete")
	if g := registration(t, v, id); g.State != lifecycle.Archived {
		t.Errorf("after its deletion it is registered as %s, want ARCHIVED", g.State)
	}
}

func TestANewURLIsPublishedWhereTheOldOneWas(t *testing.T) {
	s, va := memory.New(), vault(t)
	v := host(t, s, va, newClock().now, "")
	must(t, errorOf(v.SetURL(t.Context(), hostURL)))
	ids := map[string]identity.ID{}
	for _, name := range []string{"public", "hidden", "unlisted", "asleep", "closed", "revoked", "deleted"} {
		ids[name] = create(t, v, name).ID
		if name == "unlisted" {
			continue
		}
		must(t, errorOf2(v.Publish(t.Context(), ids[name], vacants.PublishOptions{})))
	}
	for name, command := range map[string]string{"hidden": "unpublish", "asleep": "pause", "closed": "sink", "revoked": "revoke"} {
		do(t, v, ids[name], command)
	}
	do(t, v, ids["deleted"], "sink", "archive", "delete")
	const elsewhere = "https://vacancy.example"
	for again, want := range []int{4, 0} {
		if n, err := v.SetURL(t.Context(), elsewhere); err != nil || n != want {
			t.Errorf("SetURL() the %d. time = %d, %v, want %d cards", again+1, n, err, want)
		}
	}
	for name, want := range map[string]struct {
		moved      bool
		visibility lifecycle.Visibility
		state      lifecycle.State
	}{
		"public": {true, lifecycle.Public, lifecycle.Active}, "hidden": {true, lifecycle.Hidden, lifecycle.Active},
		"asleep": {true, lifecycle.Public, lifecycle.Hibernating}, "closed": {false, lifecycle.Public, lifecycle.Sunk},
		"revoked": {false, lifecycle.Public, lifecycle.Sunk},
	} {
		g := registration(t, v, ids[name])
		if moved := strings.Contains(string(g.Card), elsewhere); moved != want.moved || g.Visibility != want.visibility || g.State != want.state {
			t.Errorf("%s is registered as %s in %s, moved %t; want %+v", name, g.Visibility, g.State, moved, want)
		}
	}
	r, err := v.GetByName(t.Context(), vacants.OperatorAsker(), "unlisted")
	if _, listed, _ := v.Registry.Get(t.Context(), r.ID); err != nil || listed || !strings.Contains(string(r.Card), elsewhere) {
		t.Errorf("the unlisted one is registered: %t, its card %s (%v); want moved and not registered", listed, r.Card, err)
	}
	wantWhole(t, s, v, identity.ID{})
}

func TestPublishRefusals(t *testing.T) {
	v := fresh(t)
	id := create(t, v, "demo").ID
	closed := create(t, v, "closed").ID
	do(t, v, closed, "sink")
	gone := create(t, v, "gone").ID
	do(t, v, gone, "sink", "archive", "delete")
	revoked := create(t, v, "revoked").ID
	must(t, errorOf2(v.Revoke(t.Context(), revoked, "lost")))
	for name, c := range map[string]struct {
		id   identity.ID
		w    vacants.PublishOptions
		kind problem.Kind
		text string
	}{
		"one that is not here":   {identity.ID{9}, vacants.PublishOptions{}, problem.NotFound, "not hosted here"},
		"one that is closed":     {closed, vacants.PublishOptions{}, problem.Conflict, "vacant closed is SUNK; it cannot be published"},
		"one that was deleted":   {gone, vacants.PublishOptions{}, problem.Gone, "was deleted"},
		"one whose key is none":  {revoked, vacants.PublishOptions{}, problem.Conflict, "SUNK"},
		"no capability":          {id, vacants.PublishOptions{Capability: pointer(" ")}, problem.Malformed, "capability"},
		"a capability with 0x1f": {id, vacants.PublishOptions{Capability: pointer("a\x1fb")}, problem.Malformed, "capability_text"},
		"a visibility of none":   {id, vacants.PublishOptions{Visibility: pointer(lifecycle.Visibility("SOME"))}, problem.InvalidMember, "visibility"},
		"a price":                {id, vacants.PublishOptions{Listing: &vacants.ListingOptions{Price: 2000}}, problem.Malformed, "listing.price"},
		"17 tags":                {id, vacants.PublishOptions{Listing: &vacants.ListingOptions{Tags: strings.Split(strings.Repeat("a", 17), "")}}, problem.Malformed, "tags"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := v.Publish(t.Context(), c.id, c.w)
			wantKind(t, "Publish()", err, c.kind)
			if text := problem.AsError(err).Text(); !strings.Contains(text, c.text) {
				t.Errorf("Publish() = %q, want it to say %q", text, c.text)
			}
		})
	}
	if _, listed, err := v.Registry.Get(t.Context(), id); listed || err != nil || len(log(t, v, id)) != 1 {
		t.Errorf("what was refused left a registration (%t, %v) or entries", listed, err)
	}
	_, _, err := v.Unpublish(t.Context(), id)
	wantKind(t, "Unpublish() of what was never published", err, problem.Conflict)
}

func TestAListingOfTheOperatorIsReplacedByASignedOne(t *testing.T) {
	c := newClock()
	v := host(t, memory.New(), vault(t), c.now, hostURL)
	id := create(t, v, "demo").ID
	tagged := func(tag string) vacants.PublishOptions {
		return vacants.PublishOptions{Listing: &vacants.ListingOptions{Tags: []string{tag}}}
	}
	must(t, errorOf2(v.Publish(t.Context(), id, tagged("mine"))))
	must(t, errorOf(v.Registry.SetListing(t.Context(), id, listing.Listing{Tags: []string{"theirs"}})))
	c.t = c.t.Add(-time.Hour) // a clock that was set back
	must(t, errorOf2(v.Publish(t.Context(), id, tagged("mine"))))
	if g := registration(t, v, id); g.ListingSource != registry.SourceSigned || g.Listing.Tags[0] != "mine" {
		t.Errorf("listing = %s %v, want the signed one", g.ListingSource, g.Listing.Tags)
	}
}

func TestARevocationClosesTheVacantForGood(t *testing.T) {
	s, va := memory.New(), vault(t)
	v := host(t, s, va, newClock().now, hostURL)
	id := create(t, v, "demo").ID
	must(t, errorOf2(v.Publish(t.Context(), id, vacants.PublishOptions{})))
	if _, ok, err := answering(v).Vacant(t.Context(), id, false); !ok || err != nil {
		t.Fatal(err) // cached now
	}
	for _, reason := range []string{"", " ", "a\x1fb", strings.Repeat("r", event.MaxReasonBytes+1)} {
		_, _, err := v.Revoke(t.Context(), id, reason)
		wantKind(t, fmt.Sprintf("Revoke(%.10q)", reason), err, problem.Malformed)
	}
	r, receipt, err := v.Revoke(t.Context(), id, "gestohlen – 被盗")
	if err != nil || r.State != lifecycle.Sunk || receipt.Seq != 2 {
		t.Fatalf("Revoke() = %s, %+v, %v, want SUNK, event 2", r.State, receipt, err)
	}
	if got, ok, err := answering(v).Vacant(t.Context(), id, false); !ok || err != nil || got.State != lifecycle.Sunk {
		t.Errorf("Vacant() = %s, %v, want SUNK at once", got.State, err)
	}
	if g := registration(t, v, id); g.Status != registry.StatusRevoked || g.State != lifecycle.Sunk {
		t.Errorf("registered as %s in %s, want revoked in SUNK", g.Status, g.State)
	}
	again, receipt, err := v.Revoke(t.Context(), id, "another reason")
	if err != nil || !receipt.Replayed || receipt.Seq != 2 || again.State != lifecycle.Sunk {
		t.Errorf("Revoke() again = %+v, %v, want the first receipt", receipt, err)
	}
	wantWhole(t, s, v, identity.ID{})
	_, _, err = v.Revoke(t.Context(), identity.ID{9}, "lost")
	wantKind(t, "Revoke() of a stranger", err, problem.NotFound)
}

// Its owner may hold the key elsewhere and revoke it at the registry's own
// handler.
func TestARevocationFromElsewhereClosesTheVacantHere(t *testing.T) {
	c := newClock()
	v := host(t, memory.New(), vault(t), c.now, hostURL)
	key := newKey(t)
	id := key.ID()
	must(t, errorOf(v.Create(t.Context(), vacants.CreateSpec{Name: "demo", Capability: "c", Substrate: "echo", Key: key, Logbook: book(t, key, lifecycle.Active)})))
	e := event.Event{Type: event.Revoke, Actor: id, Payload: event.RevokePayload(id, "lost"), IdempotencyKey: "r", Time: c.now().UnixMilli(), ActorSeq: 1}
	must(t, e.Sign(t.Context(), key))
	if _, ok, err := answering(v).Vacant(t.Context(), id, false); !ok || err != nil {
		t.Fatal(err)
	}
	must(t, errorOf(v.AcceptRevocation(t.Context(), registry.Revocation{ID: id, Reason: "lost", Time: e.Time, ActorSeq: 1, IdempotencyKey: "r", Signature: e.Signature})))
	if got, _, err := answering(v).Vacant(t.Context(), id, false); err != nil || got.State != lifecycle.Sunk {
		t.Errorf("Vacant() = %s, %v, want SUNK at once", got.State, err)
	}
	// The revoked key is refused for any other vacant.
	other := host(t, memory.New(), vault(t), c.now, hostURL)
	must(t, errorOf(other.AcceptRevocation(t.Context(), registry.Revocation{ID: id, Reason: "lost", Time: e.Time, ActorSeq: 1, IdempotencyKey: "r", Signature: e.Signature})))
	_, err := other.Create(t.Context(), vacants.CreateSpec{Name: "back", Capability: "c", Substrate: "echo", Key: key})
	wantKind(t, "Create() with a revoked key", err, problem.Revoked)
}

func TestOnlyItsOwnAddressIsAVacantsEndpointHere(t *testing.T) {
	v := fresh(t)
	id, other := create(t, v, "demo").ID, create(t, v, "other").ID
	at := func(id identity.ID) string { return hostURL + "/v/" + id.String() + "/a2a/message/send" }
	for endpoint, want := range map[string]bool{
		at(id): true, at(other): false, "": false, hostURL: false, at(id) + "/": false,
		"https://vacancy.example/v/" + id.String() + "/a2a/message/send": false,
	} {
		if got, err := v.IsEndpoint(t.Context(), id, endpoint); err != nil || got != want {
			t.Errorf("IsEndpoint(%s) = %t, %v, want %t", endpoint, got, err, want)
		}
	}
	if got, err := v.IsEndpoint(t.Context(), identity.ID{9}, at(identity.ID{9})); got || err != nil {
		t.Errorf("IsEndpoint() of a stranger = %t, %v, want false", got, err)
	}
}

func TestAHostWithoutARegistryPublishesNothing(t *testing.T) {
	c := fresh(t).Config
	c.Registry = nil
	v := vacants.New(c)
	id := create(t, v, "demo").ID
	_, _, err := v.Publish(t.Context(), id, vacants.PublishOptions{})
	wantKind(t, "Publish()", err, problem.Conflict)
	_, _, err = v.Unpublish(t.Context(), id)
	wantKind(t, "Unpublish()", err, problem.Conflict)
	_, _, err = v.Revoke(t.Context(), id, "lost")
	wantKind(t, "Revoke()", err, problem.Conflict)
	if _, err := v.Pause(t.Context(), id); err != nil {
		t.Errorf("Pause() = %v, want nil", err)
	}
}

// Hosts share a store and no memory: everything that they publish and change at
// once ends in one chain, with no vacant half published.
func TestManyHostsPublishAtOnce(t *testing.T) {
	inner, va := memory.New(), vault(t)
	first := host(t, inner, va, newClock().now, hostURL)
	var ids []identity.ID
	for i := range 6 {
		ids = append(ids, create(t, first, fmt.Sprint("v", i)).ID)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for h := range 4 {
		v := host(t, inner, va, newClock().now, hostURL)
		for _, id := range ids {
			wg.Go(func() {
				for round := range 3 {
					capability := fmt.Sprintf("host %d, round %d", h, round)
					if _, _, err := v.Publish(ctx, id, vacants.PublishOptions{Capability: &capability}); err != nil {
						t.Errorf("Publish() = %v", err)
					}
				}
			})
		}
	}
	wg.Wait()
	wantWhole(t, inner, first, identity.ID{})
	for _, id := range ids {
		if g := registration(t, first, id); g.ActorSeq != 12 {
			t.Errorf("%s has %d events, want 12", id.Short(), g.ActorSeq)
		}
	}
}
