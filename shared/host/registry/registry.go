// Package registry stores the publications of vacants: cards, visibility, states, parents, and the
// chain of signed events behind them. A registration changes only if its vacant signs an event, a
// listing or a manifest, or if the host vouches for a fact such as an operator's listing. A child
// with a registered closed manifest is hidden from all callers outside its tree until it graduates.
//
// Stream evt contains a short row of each event of the host. Stream act contains the complete
// events of one vacant. The documents are:
//
//   - reg#<id>/card is the registration, and reg#<id>/manifest proves its parent.
//   - opened#<id>/manifest proves that the gate (package graduation) opened the child.
//   - kin#<parent>/<child> is an edge. It is never deleted, so it is valid only if the child's
//     registration names this parent.
//   - revoked/<id> is a revocation, and revoked/#all is the list of all revocations.
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

type Endpoints interface {
	// IsEndpoint reports whether this host runs id and serves it at endpoint. It must be safe for
	// concurrent use.
	IsEndpoint(ctx context.Context, id identity.ID, endpoint string) (bool, error)
}

// Config configures a Registry. Store, Now and Rand are required.
type Config struct {
	Store store.Store
	Now   func() time.Time
	Rand  io.Reader // safe for concurrent use
	// AllowRemote allows vacants on other hosts to be listed. A process must then call
	// ProbeEndpoints at intervals.
	AllowRemote bool
	// AllowLoopback allows endpoints on loopback addresses, including plain http endpoints. It is
	// for a developer's own machine.
	AllowLoopback bool
	// Endpoints may be nil if this host runs no vacants.
	Endpoints Endpoints
	// Wait defaults to retry.Sleep.
	Wait func(ctx context.Context, d time.Duration) error
}

// Registry is safe for concurrent use. Several registries may share a store.
type Registry struct {
	Config
	publishTurn chan struct{} // contains a token while no caller has the turn
	probeSignal chan struct{}
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
