// Package registry stores the publications of vacants: cards, visibility, states, parents, and the
// chain of signed events behind them.
//
// A registration changes only if its vacant signs an event, a listing or a manifest (the proof of
// its parent), or if the host vouches for a fact (the state of a hosted vacant, an operator's
// listing, counted reviews). An event is stored in the same transaction as the change. An event and
// its position in the chain never change, and an event that is sent again has no effect. A revoked
// key cannot publish. A child with a registered closed manifest is hidden from all callers outside
// its tree until it graduates, regardless of other manifests.
//
// # Layout
//
// Stream evt (one per host) has all events. The position of a row is the event's seq, and the row
// holds the event's hash, the previous hash, its actor (the vacant that signed it) and the actor's
// sequence number. Stream act (one per actor) has the actor's events. The position is the actor's
// sequence number, and the row holds the complete event. The append also ensures that the sequence
// number is used only once.
//
// The documents are:
//
//   - reg#<id>/card is the registration. The sparse index lists it under "registry" by the time of
//     its last change, which makes the index the feed of search indexes.
//   - reg#<id>/manifest proves a parent and contains the replaced manifests. The index lists it
//     under "children#<parent>".
//   - opened#<id>/manifest is written by the gate (package graduation) together with the manifest.
//     Only the gate's role can write it.
//   - kin#<parent>/<child> is the edge from the parent to the child. It is never deleted, so it is
//     valid only if the child's registration names this parent.
//   - revoked/<id> is a revocation, and revoked/#all is the list of all revocations, which is read
//     for calls.
//   - unreached/<due>#<id>#<seq> is an endpoint on another host that waits for a probe.
//   - slug#<slug>/venue is the claim of a slug, and venues/count the number of listed vacants.
package registry

import (
	"context"
	"io"
	"time"

	"github.com/vacancy-host/vacancy/shared/retry"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Endpoints determines which endpoints are on this host. *vacants.Records implements it. It must be
// safe for concurrent use.
type Endpoints interface {
	// IsEndpoint reports whether this host runs id and serves it at endpoint.
	IsEndpoint(ctx context.Context, id identity.ID, endpoint string) (bool, error)
}

// Config configures a Registry. Store, Now and Rand are required.
type Config struct {
	Store store.Store
	Now   func() time.Time
	Rand  io.Reader // safe for concurrent use
	// AllowRemote allows vacants on other hosts to be listed. A process must then call
	// ProbeEndpoints at intervals. If AllowRemote is false, public cards with endpoints on other
	// hosts are refused.
	AllowRemote bool
	// AllowLoopback allows endpoints on this machine's loopback, including plain http endpoints. It
	// is for a host on a developer's own machine.
	AllowLoopback bool
	// Endpoints may be nil if this host runs no vacants.
	Endpoints Endpoints
	// Wait sleeps between tries and returns early if ctx ends. If it is nil, retry.Sleep is used.
	Wait func(ctx context.Context, d time.Duration) error
}

// Registry is the registry of one host. It is safe for concurrent use, and several registries may
// share a store.
type Registry struct {
	Config
	publishTurn chan struct{} // contains a token while no caller has the turn
	probeSignal chan struct{} // contains a token after endpoints were queued
}

func New(c Config) *Registry {
	if c.Wait == nil {
		c.Wait = retry.Sleep
	}
	r := &Registry{Config: c, publishTurn: make(chan struct{}, 1), probeSignal: make(chan struct{}, 1)}
	r.publishTurn <- struct{}{}
	return r
}

func (r *Registry) now() time.Time { return r.Now().UTC().Truncate(time.Microsecond) }
