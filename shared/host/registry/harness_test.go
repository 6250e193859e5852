package registry_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// clock is a clock that tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: start} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

const hostURL = "https://host.example/v/"

// open makes a registry over s that reaches every endpoint, and hosts those
// that begin with hostURL.
func open(s store.Store, c *clock, change ...func(*registry.Config)) *registry.Registry {
	config := registry.Config{
		Store: s, Now: c.now, Rand: rand.Reader,
		Probe: func(context.Context, string) error { return nil },
		Hosted: func(_ context.Context, id identity.ID, endpoint string) (bool, error) {
			return strings.HasPrefix(endpoint, hostURL+id.String()), nil
		},
	}
	for _, f := range change {
		f(&config)
	}
	return registry.New(config)
}

// key is the n-th vacant of a test.
func key(n byte) *identity.Key {
	k, err := identity.KeyFromSeed(bytes.Repeat([]byte{n}, identity.Size))
	if err != nil {
		panic(err)
	}
	return k
}

// draft is what a publication is made of; the zero of a field is a default.
type draft struct {
	text       string // of the card
	endpoint   string
	state      lifecycle.State
	visibility lifecycle.Visibility
	seq        int64
	key        string
	at         time.Time
	with       func(*registry.Publication) // before it is signed
	after      func(*registry.Publication) // after it is signed
}

// publication signs d with k.
func publication(t testing.TB, k *identity.Key, d draft) registry.Publication {
	t.Helper()
	if d.text == "" {
		d.text = "translate English to Chinese"
	}
	if d.endpoint == "" {
		d.endpoint = "https://" + k.ID().Short() + ".example/a2a/message/send"
	}
	if d.seq == 0 {
		d.seq = 1
	}
	if d.key == "" {
		d.key = "k" + k.ID().Short() + string(rune('0'+d.seq))
	}
	if d.at.IsZero() {
		d.at = start
	}
	c, err := card.New(k.ID(), d.text, []string{"mock"}, d.endpoint)
	if err == nil {
		err = c.Sign(t.Context(), k)
	}
	if err != nil {
		t.Fatal(err)
	}
	p := registry.Publication{
		Card: c.Blob(), State: d.state, Visibility: d.visibility,
		Time: d.at.UnixMilli(), ActorSeq: d.seq, Key: d.key,
	}
	if p.State == "" {
		p.State = lifecycle.Active
	}
	if p.Visibility == "" {
		p.Visibility = lifecycle.Public
	}
	if d.with != nil {
		d.with(&p)
	}
	e := event.Event{
		Type: event.Register, Actor: k.ID(), Key: p.Key, Time: p.Time, ActorSeq: p.ActorSeq,
		Payload: event.RegisterPayload(c.Hash(), card.Version, k.ID(), p.State.Effective(p.Visibility)),
	}
	if p.Signature, err = k.Sign(t.Context(), e.AppendCanonical(nil)); err != nil {
		t.Fatal(err)
	}
	if d.after != nil {
		d.after(&p)
	}
	return p
}

// revocation signs a revocation of k at its seq-th event.
func revocation(t testing.TB, k *identity.Key, seq int64, reason string, payload func(identity.ID, string) []byte) registry.Revocation {
	t.Helper()
	v := registry.Revocation{ID: k.ID(), Reason: reason, Time: start.UnixMilli(), ActorSeq: seq, Key: "revoke"}
	e := event.Event{Type: event.Revoke, Actor: k.ID(), Key: v.Key, Time: v.Time, ActorSeq: seq, Payload: payload(k.ID(), reason)}
	var err error
	if v.Signature, err = k.Sign(t.Context(), e.AppendCanonical(nil)); err != nil {
		t.Fatal(err)
	}
	return v
}

// manifest is signed by parent and child.
func manifest(t testing.TB, parent, child *identity.Key, closed bool) composite.Manifest {
	t.Helper()
	m := composite.Manifest{
		ParentID: parent.ID(), ChildID: child.ID(), BirthPath: "D1", ClosedByDefault: closed,
		Reachability: composite.ParentOnly, Outbound: composite.NoExternal, Schema: composite.V2,
	}
	if err := m.SignParent(t.Context(), parent); err != nil {
		t.Fatal(err)
	}
	if err := m.SignChild(t.Context(), child); err != nil {
		t.Fatal(err)
	}
	return m
}

// signedListing is a listing of k at a version, changed by f before it is signed.
func signedListing(t testing.TB, k *identity.Key, version int64, f func(*listing.Listing)) listing.Listing {
	t.Helper()
	l := listing.New(k.ID(), version)
	l.Tags, l.Family = []string{"translation"}, "claude"
	if f != nil {
		f(&l)
	}
	if err := l.Sign(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	return l
}

// mustPublish publishes d and returns the receipt.
func mustPublish(t testing.TB, r *registry.Registry, k *identity.Key, d draft) registry.Receipt {
	t.Helper()
	receipt, err := r.Publish(t.Context(), publication(t, k, d))
	if err != nil {
		t.Fatalf("Publish() = %v", err)
	}
	return receipt
}

// get returns the registration of id, which must be there.
func get(t testing.TB, r *registry.Registry, id identity.ID) registry.Registration {
	t.Helper()
	g, ok, err := r.Get(t.Context(), id)
	if err != nil || !ok {
		t.Fatalf("Get(%s) = %t, %v", id.Short(), ok, err)
	}
	return g
}

func text(s string) *string { return &s }

// asKept compares registrations by what is known of them outside, and listings
// by all that is in them.
var asKept = cmp.Options{
	cmpopts.IgnoreUnexported(registry.Registration{}),
	cmp.Comparer(func(a, b *listing.Listing) bool {
		return a == b || a != nil && b != nil && bytes.Equal(a.Blob(), b.Blob())
	}),
}
