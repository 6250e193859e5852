// Package registry keeps what vacants publish of themselves: their cards, who
// may find them, in which state they are, who their parents are, and the chain
// of signed events that says so.
//
// The invariants: a registration changes by an event that its vacant signed, in
// one transaction with that event, by a listing or a manifest that it signed,
// or by what the host itself vouches for (the state of a vacant that it runs, a
// listing that its operator set, reviews that it counted); an event, once
// there, never changes, and neither does its place in the chain; an event sent
// again changes nothing at all; a revoked key publishes nothing more; a child
// of which one closed manifest was ever registered is found by nobody, and is
// not there for anybody but its tree, until it has graduated, whatever other
// manifests there are, in whatever order they came.
//
// # Where things lie
//
// Stream evt (one for the host): position is the event's seq; a row holds its
// hash, the hash before it, its actor and the actor's count. Stream act (one
// for each actor): position is the actor's count; a row holds the whole event.
// The append there is the guard of the count. Document reg#<id>/card is the
// registration, listed in the sparse index under "registry" by the time of its
// last change, which is the feed of an index. reg#<id>/manifest is the proof of
// a parent, with those whose place it took, if any, listed in the index under
// "children#<parent>"; kin#<parent>/<child> is the same edge from above. Nothing
// is ever deleted, so the edge of a manifest that was replaced stays: an edge
// from above counts only where the child's registration names that parent.
// revoked/<id> is a revocation, and revoked/#all the list of all of them that
// calls go by.
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
	// Probe asks the endpoint of a vacant that runs elsewhere whether anybody is
	// there: nil for any HTTP answer below 500 from a public address. Where it is
	// nil there is no network, and no such vacant can be listed.
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
	// Wait sleeps between tries, or ends early with ctx; pause.For if nil.
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
