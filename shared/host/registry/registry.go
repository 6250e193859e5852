// Package registry stores the publications of vacants: cards, visibility, states,
// parents, and the chain of signed events behind them.
//
// The invariants: a registration changes only by an event that its vacant signed, in
// one transaction with that event; by a listing or manifest that it signed; or by a
// fact that the host itself vouches for (state of a hosted vacant, an operator's
// listing, counted reviews). An event and its position in the chain never change, and
// sending an event again changes nothing. A revoked key publishes nothing more. A child
// with a registered closed manifest is hidden from everybody outside its tree until it
// graduates, even if other manifests come before or after.
//
// # Layout
//
// Stream evt (one per host): the position is the event's seq; a row holds its hash, the
// previous hash, its actor and the actor's count. Stream act (one per actor): the
// position is the actor's count; a row holds the whole event, and its append guards the
// count. Document reg#<id>/card is the registration, listed in the sparse index under
// "registry" by the time of its last change: the feed of a search index.
// reg#<id>/manifest proves a parent, with the manifests it replaced, and is listed in
// the index under "children#<parent>"; opened#<id>/manifest is written beside it by the
// gate, and no other role can write it; kin#<parent>/<child> is the same edge from the
// parent's side. Nothing is deleted, so the edge of a replaced manifest stays: an edge
// counts only if the child's registration names that parent. revoked/<id> is a
// revocation, and revoked/#all the list of all revocations that calls consult.
// unreached/<due>#<id> is an endpoint elsewhere that waits for a probe.
// slug#<slug>/venue is the vacant that claims a slug, venues/count the number of listed
// venues.
package registry

import (
	"context"
	"io"
	"time"

	"github.com/vacancy-host/vacancy/shared/retry"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Endpoints tells which endpoints are at this host; *vacants.Records implements
// it. Safe for concurrent use.
type Endpoints interface {
	// IsEndpoint reports whether id is hosted here and called at endpoint.
	IsEndpoint(ctx context.Context, id identity.ID, endpoint string) (bool, error)
}

// Config configures a Registry. Store, Now and Rand are required.
type Config struct {
	Store store.Store
	Now   func() time.Time
	Rand  io.Reader // safe for concurrent use
	// Elsewhere lets vacants that run elsewhere be listed, which a process that
	// runs Reach decides. Otherwise they are refused.
	Elsewhere bool
	// Neighbours lists endpoints on this machine's loopback, also over plain http: for
	// a host on a developer's own machine.
	Neighbours bool
	// Endpoints knows the endpoints at this host. With nil, no vacant is hosted
	// here.
	Endpoints Endpoints
	// Wait sleeps between tries, or ends early with ctx; retry.Sleep if nil.
	Wait func(ctx context.Context, d time.Duration) error
}

// Registry is the registry of one host. It is safe for concurrent use, and any
// number of them may share a store.
type Registry struct {
	Config
	turn    chan struct{} // holds one token while it is nobody's turn
	waiting chan struct{} // holds one token after endpoints were queued
}

// New makes a Registry.
func New(c Config) *Registry {
	if c.Wait == nil {
		c.Wait = retry.Sleep
	}
	r := &Registry{Config: c, turn: make(chan struct{}, 1), waiting: make(chan struct{}, 1)}
	r.turn <- struct{}{}
	return r
}

// now is the time in stored precision.
func (r *Registry) now() time.Time { return r.Now().UTC().Truncate(time.Microsecond) }
