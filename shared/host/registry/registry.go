// Package registry stores what vacants publish: cards, visibility, states,
// parents, and the chain of signed events behind them.
//
// The invariants: a registration changes only by an event that its vacant
// signed, in one transaction with that event; by a listing or manifest that it
// signed; or by what the host itself vouches for (state of a hosted vacant, an
// operator's listing, counted reviews). An event and its position in the chain
// never change, and sending an event again changes nothing. A revoked key
// publishes nothing more. A child with a registered closed manifest is hidden
// from everybody outside its tree until it graduates, whatever other manifests
// come in whatever order.
//
// # Layout
//
// Stream evt (one per host): the position is the event's seq; a row holds its
// hash, the previous hash, its actor and the actor's count. Stream act (one per
// actor): the position is the actor's count; a row holds the whole event, and
// its append guards the count. Document reg#<id>/card is the registration,
// listed in the sparse index under "registry" by the time of its last change:
// the feed of a search index. reg#<id>/manifest proves a parent, with the
// manifests it replaced, and is listed in the index under "children#<parent>";
// kin#<parent>/<child> is the same edge from the parent's side. Nothing is
// deleted, so the edge of a replaced manifest stays: an edge counts only if the
// child's registration names that parent. revoked/<id> is a revocation, and
// revoked/#all the list of all revocations that calls consult.
package registry

import (
	"context"
	"io"
	"time"

	"github.com/vacancy-host/vacancy/shared/retry"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Config is what a Registry is made of. Store, Now and Rand are needed.
type Config struct {
	Store store.Store
	Now   func() time.Time
	Rand  io.Reader // safe for concurrent use
	// Probe checks that the endpoint of a vacant that runs elsewhere answers:
	// nil for any HTTP status below 500 from a public address. If Probe itself
	// is nil, such vacants cannot be listed.
	Probe func(ctx context.Context, endpoint string) error
	// Hosted tells whether endpoint is id's own address at this host. nil: no
	// vacant is hosted here.
	Hosted func(ctx context.Context, id identity.ID, endpoint string) (bool, error)
	// HostWrites is what a revocation changes besides the registration, for a
	// vacant that this host runs: nothing for another. It may be nil.
	HostWrites func(ctx context.Context, id identity.ID) ([]store.Write, error)
	// KinWrites is what a manifest changes at this host, for a parent or child
	// that it runs: nothing for others. It may be nil.
	KinWrites func(ctx context.Context, m *composite.Manifest) ([]store.Write, error)
	// LockVacants waits for what HostWrites and KinWrites need to themselves of the
	// vacants ids, and returns what lets go of it. It is taken before the turn in
	// the chain of events. It may be nil.
	LockVacants func(ctx context.Context, ids ...identity.ID) (release func(), err error)
	// Wait sleeps between tries, or ends early with ctx; retry.Sleep if nil.
	Wait func(ctx context.Context, d time.Duration) error
}

// Registry is the registry of one host. It is safe for concurrent use, and any
// number of them may share a store.
type Registry struct {
	Config
	turn chan struct{} // holds one token: whose turn it is to take a seq
}

// New makes a Registry.
func New(c Config) *Registry {
	if c.Wait == nil {
		c.Wait = retry.Sleep
	}
	r := &Registry{Config: c, turn: make(chan struct{}, 1)}
	r.turn <- struct{}{}
	return r
}

// hold is Hold, where there is one.
func (r *Registry) hold(ctx context.Context, ids ...identity.ID) (release func(), err error) {
	if r.LockVacants == nil {
		return func() {}, nil
	}
	return r.LockVacants(ctx, ids...)
}

// now is the time as it is kept.
func (r *Registry) now() time.Time { return r.Now().UTC().Truncate(time.Microsecond) }
