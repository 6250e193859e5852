// Package registrytest creates signed requests for a registry and tests the registry over a store.
// Run must be called for each implementation of a store.
package registrytest

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

var Start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// Clock is a clock that only Advance changes.
type Clock struct {
	mu      sync.Mutex
	current time.Time
}

func NewClock() *Clock { return &Clock{current: Start} }

func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = c.current.Add(d)
}

const HostURL = "https://host.example/v/"

// Open returns a registry over s that accepts vacants of other hosts. Endpoints that start with
// HostURL are on this host.
func Open(s store.Store, c *Clock, changes ...func(*registry.Config)) *registry.Registry {
	config := registry.Config{
		Store: s, Now: c.Now, Rand: rand.Reader,
		AllowRemote: true, Endpoints: hostEndpoints{},
	}
	for _, f := range changes {
		f(&config)
	}
	return registry.New(config)
}

type hostEndpoints struct{}

func (hostEndpoints) IsEndpoint(_ context.Context, id identity.ID, endpoint string) (bool, error) {
	return strings.HasPrefix(endpoint, HostURL+id.String()), nil
}

func Key(n int) *identity.Key {
	k, err := identity.KeyFromSeed(binary.BigEndian.AppendUint64(make([]byte, identity.Size-8), uint64(n)))
	if err != nil {
		panic(err)
	}
	return k
}

// Draft describes a publication. By default it is ACTIVE, PUBLIC, the actor's first event, and
// signed at Start.
type Draft struct {
	Text       string
	Endpoint   string
	State      lifecycle.State
	Visibility lifecycle.Visibility
	Seq        int64
	Key        string
	SignedAt   time.Time
	BeforeSign func(*registry.Publication)
	AfterSign  func(*registry.Publication)
}

func (d *Draft) setDefaults(id identity.ID) {
	setDefault := func(s *string, value string) {
		if *s == "" {
			*s = value
		}
	}
	setDefault(&d.Text, "translate English to Chinese")
	setDefault(&d.Endpoint, "https://"+id.Short()+".example/a2a/message/send")
	setDefault((*string)(&d.State), string(lifecycle.Active))
	setDefault((*string)(&d.Visibility), string(lifecycle.Public))
	d.Seq = max(d.Seq, 1)
	setDefault(&d.Key, fmt.Sprintf("k-%s-%d", id.Short(), d.Seq))
	if d.SignedAt.IsZero() {
		d.SignedAt = Start
	}
}

// ProbeEndpoints probes the endpoints that wait for a probe, with a probe that always succeeds, so
// that their vacants are listed.
func ProbeEndpoints(t testing.TB, r *registry.Registry) {
	t.Helper()
	if _, err := r.ProbeEndpoints(context.Background(), func(context.Context, string) error { return nil }); err != nil {
		t.Fatalf("ProbeEndpoints() = %v", err)
	}
}

func NewPublication(t testing.TB, k *identity.Key, d Draft) registry.Publication {
	t.Helper()
	d.setDefaults(k.ID())
	c, err := card.New(k.ID(), d.Text, []string{"mock"}, d.Endpoint)
	if err == nil {
		err = c.Sign(context.Background(), k)
	}
	if err != nil {
		t.Fatal(err)
	}
	p := registry.Publication{
		Card: c.Blob(), State: d.State, Visibility: d.Visibility, Time: d.SignedAt.UnixMilli(), ActorSeq: d.Seq, IdempotencyKey: d.Key,
	}
	if d.BeforeSign != nil {
		d.BeforeSign(&p)
	}
	p.Signature = sign(t, k, event.Event{
		Type: event.Register, Actor: k.ID(), IdempotencyKey: p.IdempotencyKey, Time: p.Time, ActorSeq: p.ActorSeq,
		Payload: event.RegisterPayload(c.Hash(), card.Version, k.ID(), p.State.EffectiveVisibility(p.Visibility)),
	})
	if d.AfterSign != nil {
		d.AfterSign(&p)
	}
	return p
}

func sign(t testing.TB, k *identity.Key, e event.Event) []byte {
	t.Helper()
	signature, err := k.Sign(context.Background(), e.AppendSignedBytes(nil))
	if err != nil {
		t.Fatal(err)
	}
	return signature
}

// NewRevocation returns a revocation of k as its seq-th event, signed at Start. The function
// payload creates the signed payload.
func NewRevocation(t testing.TB, k *identity.Key, seq int64, reason string, payload func(identity.ID, string) []byte) registry.Revocation {
	t.Helper()
	revocation := registry.Revocation{ID: k.ID(), Reason: reason, Time: Start.UnixMilli(), ActorSeq: seq, IdempotencyKey: fmt.Sprintf("revoke-%d", seq)}
	revocation.Signature = sign(t, k, event.Event{
		Type: event.Revoke, Actor: k.ID(), IdempotencyKey: revocation.IdempotencyKey, Time: revocation.Time, ActorSeq: seq, Payload: payload(k.ID(), reason),
	})
	return revocation
}

func NewManifest(t testing.TB, parent, child *identity.Key, closed bool) composite.Manifest {
	t.Helper()
	m := composite.Manifest{
		ParentID: parent.ID(), ChildID: child.ID(), BirthPath: "D1", ClosedByDefault: closed,
		Reachability: composite.ParentOnly, OutboundPolicy: composite.NoExternal, SchemaVersion: composite.SchemaV2,
	}
	err := m.SignParent(context.Background(), parent)
	if err == nil {
		err = m.SignChild(context.Background(), child)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func NewListing(t testing.TB, k *identity.Key, version int64, change func(*listing.Listing)) listing.Listing {
	t.Helper()
	l := listing.New(k.ID(), version)
	l.Tags, l.ModelFamily = []string{"translation"}, "claude"
	if change != nil {
		change(&l)
	}
	if err := l.Sign(context.Background(), k); err != nil {
		t.Fatal(err)
	}
	return l
}
