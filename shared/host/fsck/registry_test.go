package fsck_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// listed is a story whose vacants were published. The chain of all events is:
//
//	1 demo is published, 2 with another card, 3 a closed child that nobody
//	finds, 4 a stranger, 5 whose key is revoked, 6 a hosted vacant,
//	7 whose key is revoked
type listed struct {
	*caller
	child, stranger *identity.Key
	parent          identity.ID
	hosted          identity.ID
	first           map[store.Key]store.Doc // registrations after the first event
}

func actorHistory(t testing.TB, st *memory.Store) *listed {
	t.Helper()
	l := &listed{caller: story(t, st), first: map[store.Key]store.Doc{}}
	reg := l.Vacants.Registry
	newKey := func() *identity.Key {
		k, err := identity.NewKey(rand.Reader)
		l.Must(err)
		return k
	}
	say := func(k *identity.Key, d registrytest.Draft) {
		d.SignedAt = l.Time
		_, err := reg.Publish(l.Ctx, registrytest.NewPublication(t, k, d))
		l.Must(err)
	}
	_, _, err := l.Vacants.Publish(l.Ctx, l.Demo.ID, vacants.PublishOptions{Listing: &vacants.ListingOptions{Tags: []string{"echo"}}})
	l.Must(err)
	key := registry.RegistrationKey(l.Demo.ID)
	l.first[key], err = st.Doc(l.Ctx, key)
	l.Must(err)
	other := "says it louder"
	_, _, err = l.Vacants.Publish(l.Ctx, l.Demo.ID, vacants.PublishOptions{Capability: &other})
	l.Must(err)

	parent := newKey()
	l.parent, l.child, l.stranger = parent.ID(), newKey(), newKey()
	l.Must(l.Vacants.AddManifest(l.Ctx, registrytest.NewManifest(t, parent, l.child, true)))
	say(l.child, registrytest.Draft{Visibility: lifecycle.Hidden})
	say(l.stranger, registrytest.Draft{})
	l.revoke(l.stranger, 2)
	_, err = l.Vacants.Registry.SetListing(l.Ctx, l.child.ID(), listing.Listing{Venue: &listing.Venue{Slug: "demo", Category: "agent", Location: "global"}})
	l.Must(err)

	made, err := l.Vacants.Create(l.Ctx, vacants.CreateSpec{Name: "third", Capability: "is revoked", Substrate: "echo"})
	l.Must(err)
	l.hosted = made.ID
	_, _, err = l.Vacants.Publish(l.Ctx, l.hosted, vacants.PublishOptions{})
	l.Must(err)
	_, _, err = l.Vacants.Revoke(l.Ctx, l.hosted, "lost")
	l.Must(err)
	return l
}

func (l *listed) revoke(k *identity.Key, seq int64) {
	l.Helper()
	e := event.Event{Type: event.Revoke, Actor: k.ID(), Payload: event.RevokePayloadASCII(k.ID(), "gestohlen – 被盗"), IdempotencyKey: "r", Time: l.Time.UnixMilli(), ActorSeq: seq}
	l.Must(e.Sign(l.Ctx, k))
	_, err := l.Vacants.AcceptRevocation(l.Ctx, registry.Revocation{ID: e.Actor, Reason: "gestohlen – 被盗", Time: e.Time, ActorSeq: seq, IdempotencyKey: "r", Signature: e.Signature})
	l.Must(err)
}

func TestRegistryDataPassesTheCheck(t *testing.T) {
	l := actorHistory(t, memory.New())
	res, found := l.check(l.Store)
	if len(found) > 0 {
		t.Errorf("Run() finds %v in a whole host", found)
	}
	if res.Events != 7 || res.Registered != 4 {
		t.Errorf("Run() = %d events, %d registrations, want 7, 4", res.Events, res.Registered)
	}
	_, found = l.checkWith(l.Store, narrow)
	if len(found) > 0 {
		t.Errorf("Run() with small pages finds %v in a whole host", found)
	}
}

// Offsets in a row of the chain of all events (registry/rows.go).
const (
	atEventHash  = 1
	atEventPrev  = 33
	atEventActor = 65
	atEventCount = 104
	atOwnPrev    = 3
)

func TestEachDamageOfTheRegistryIsFoundAndNamed(t *testing.T) {
	l := actorHistory(t, memory.New())
	demo := l.Demo.ID
	evt, act := registry.EventStream(), registry.ActorStream(demo)
	strange := registry.ActorStream(l.stranger.ID())
	reg, child := registry.RegistrationKey(demo), registry.RegistrationKey(l.child.ID())
	proof, kin := registry.ManifestKey(l.child.ID()), registry.ChildEdgeKey(l.parent, l.child.ID())
	revoked, list := registry.RevokedKey(l.stranger.ID()), registry.RevokedListKey()
	third := registry.RegistrationKey(l.hosted)
	name := strings.NewReplacer(evt.String(), "evt", act.String(), "act", strange.String(), "strange", reg.String(), "reg",
		child.String(), "child", proof.String(), "proof", kin.String(), "kin", revoked.String(), "revoked", third.String(), "third",
		registry.RegistrationKey(l.stranger.ID()).String(), "stranger",
		registry.RevokedKey(demo).String(), "revoked/demo", registry.RevokedKey(l.hosted).String(), "revoked/third")
	without := func(names ...string) func(store.Doc) store.Doc {
		return func(d store.Doc) store.Doc {
			for _, n := range names {
				d = member(n, func(any) any { return nil })(d)
			}
			return d
		}
	}
	type docs = map[store.Key]func(store.Doc) store.Doc
	type rows = map[store.Stream]func([]store.Row) []store.Row
	last := func(r []store.Row) []store.Row { return r[:len(r)-1] }
	none := func([]store.Row) []store.Row { return nil }
	for _, tc := range []struct {
		damage string
		home   altered
		want   []string
	}{
		{"count of venues", altered{docs: docs{registry.ListedCountKey(): func(d store.Doc) store.Doc { d.Number++; return d }}}, []string{"venues/count: registration"}},
		{"slug of nobody", altered{docs: docs{registry.SlugKey("demo"): func(d store.Doc) store.Doc { d.Data = nil; return d }}}, []string{"slug#demo/venue: registration"}},
		{"flipped byte in an event's hash", altered{rows: rows{evt: flip(2, atEventHash)}}, []string{"evt 3: prev", "evt 2: event"}},
		{"flipped byte in an event's link", altered{rows: rows{evt: flip(2, atEventPrev)}}, []string{"evt 2: prev", "evt 2: event"}},
		{"event of nobody", altered{rows: rows{evt: flip(2, atEventActor)}}, []string{"evt 2: event", "act 2: event"}},
		{"event of another count", altered{rows: rows{evt: set(2, atEventCount, 1)}}, []string{"evt 2: event", "act 2: event"}},
		{"event missing in the chain", altered{rows: rows{evt: drop(2)}}, []string{"evt 2: position"}},
		{"last event missing in the chain", altered{rows: rows{evt: last}}, []string{"act of third 2: event"}},
		{"event of a newer format", altered{rows: rows{evt: set(2, 0, 9)}}, []string{"evt 2: row"}},

		{"flipped byte in an actor's link", altered{rows: rows{act: flip(2, atOwnPrev)}}, []string{"evt 2: event"}},
		{"event that its actor did not sign", altered{rows: rows{act: flip(2, atOwnPrev+32+8)}}, []string{"act 2: signature", "evt 2: event"}},
		{"event of an actor cut short", altered{rows: rows{act: edit(2, func(b []byte) []byte { return b[:40] })}}, []string{"act 2: row"}},
		{"last event of an actor missing", altered{rows: rows{act: last}}, []string{"reg: registration", "evt 2: event"}},
		{"all events of an actor missing", altered{rows: rows{strange: none}},
			[]string{"stranger: event", "revoked: event", "evt 4: event", "evt 5: event"}},

		{"registration from before", altered{docs: docs{reg: func(d store.Doc) store.Doc { d.Data = l.first[reg].Data; return d }}}, []string{"reg: registration"}},
		{"card that was not signed", altered{docs: docs{reg: func(d store.Doc) store.Doc {
			d.Data = []byte(strings.Replace(string(d.Data), "says it louder", "does it better", 1))
			return d
		}}}, []string{"reg: card"}},
		{"card of another hash", altered{docs: docs{reg: member("hash", to(strings.Repeat("ab", 32)))}}, []string{"reg: registration", "reg: card"}},
		{"hidden one that is public", altered{docs: docs{child: without("closed")}}, []string{"child: manifest"}},
		{"visibility that nobody signed", altered{docs: docs{reg: member("visibility", to("RESTRICTED"))}}, []string{"reg: registration"}},
		{"listing that was not signed", altered{docs: docs{reg: member("listing", func(v any) any {
			v.(map[string]any)["tags"] = []string{"best"}
			return v
		})}}, []string{"reg: signature"}},
		{"revoked one that is active again", altered{docs: docs{third: without("revoked")}}, []string{"third: registration"}},
		{"registration cut short", altered{docs: docs{reg: cut}}, []string{"reg: document"}},
		{"registration of a newer format", altered{docs: docs{reg: member("format", to(2))}}, []string{"reg: document"}},
		{"missing registration", altered{docs: docs{reg: gone}}, []string{"reg: registration"}},

		{"missing manifest", altered{docs: docs{proof: gone}}, []string{"child: manifest"}},
		{"manifest that one has not signed", altered{docs: docs{proof: member("manifest", func(v any) any {
			v.(map[string]any)["birth_path"] = "D2"
			return v
		})}}, []string{"proof: manifest"}},
		{"manifest that says other things", altered{docs: docs{child: without("closed", "proven")}}, []string{"child: manifest"}},
		{"missing edge", altered{docs: docs{kin: gone}}, []string{"kin: manifest"}},

		{"missing revocation", altered{docs: docs{revoked: gone}}, []string{"revoked: revocation"}},
		{"revocation of another reason", altered{docs: docs{revoked: member("reason", to("a joke"))}}, []string{"revoked: revocation"}},
		{"revocation that nobody signed", altered{docs: docs{registry.RevokedKey(demo): func(d store.Doc) store.Doc {
			return store.Doc{Key: d.Key, Version: 1, Data: []byte(`{"format":1,"reason":"a joke","ts":1,"seq":2,"actor_seq":2,"hash":"` + strings.Repeat("0", 64) + `"}`)}
		}}}, []string{"revoked/demo: revocation"}},
		{"list without a revocation", altered{docs: docs{list: gone}}, []string{"revoked/#all: revocation", "revoked/#all: revocation"}},
		{"list cut short", altered{docs: docs{list: cut}}, []string{"revoked/#all: document", "revoked/#all: document"}},

		{"chain of events with an id", altered{more: []store.Stream{store.StreamOf("evt", demo)}}, []string{fmt.Sprintf("%q: stream", string(store.StreamOf("evt", demo)))}},
	} {
		t.Run(tc.damage, func(t *testing.T) {
			tc.home.Store = l.Store
			_, found := l.check(&tc.home)
			got := []string{}
			for _, f := range found {
				where := strings.Replace(f.Location, registry.ActorStream(l.hosted).String(), "act of third", 1)
				if where = name.Replace(where); f.Position > 0 {
					where = fmt.Sprintf("%s %d", where, f.Position)
				}
				got = append(got, where+": "+string(f.Check))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Run() (-want +got):\n%s\n%v", diff, found)
			}
		})
	}
}

// The holder of a revoked key can still sign, but events after the revocation are invalid.
func TestAnEventAfterTheRevocationIsNamed(t *testing.T) {
	l := actorHistory(t, memory.New())
	s := registry.ActorStream(l.stranger.ID())
	_, found := l.check(&altered{Store: l.Store, rows: map[store.Stream]func([]store.Row) []store.Row{s: func(rows []store.Row) []store.Row {
		return append(rows, store.Row{Position: 3, WriteID: rows[0].WriteID, Data: rows[0].Data})
	}}})
	checks := []string{}
	for _, f := range found {
		checks = append(checks, string(f.Check))
	}
	// The copy is signed for another sequence number and is at an earlier position.
	want := []string{"signature", "state", "seq", "registration", "revocation", "event"}
	if diff := cmp.Diff(want, checks); diff != "" {
		t.Errorf("Run() (-want +got):\n%s\n%v", diff, found)
	}
}
