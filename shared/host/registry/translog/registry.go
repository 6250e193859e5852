package translog

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// NewForRegistry returns the log of a registry's events. Registered vacants whose keys are
// not revoked may be witnesses. If r is nil, only configured witnesses may cosign.
func NewForRegistry(c Config, r *registry.Registry) (*Log, error) {
	c.Stream, c.DecodeLeaf = registry.EventStream(), decodeEvent
	if r != nil {
		c.IsWitness = func(ctx context.Context, id identity.ID) (bool, error) {
			g, ok, err := r.Get(ctx, id)
			return ok && g.FirstSeq > 0 && g.Status == registry.StatusActive, err
		}
	}
	return New(c)
}

func decodeEvent(row store.Row) (leaf, prev identity.Hash, err error) {
	e, err := registry.DecodeEventRow(row)
	return e.Hash, e.Prev, err
}
