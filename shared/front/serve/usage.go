package serve

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Meter folds the host's rows into usage; nil if the host has no feed.
func (h *Server) Meter() *usage.Meter {
	c := &h.config
	if c.Feed == nil {
		return nil
	}
	return &usage.Meter{Store: c.Store, Feed: c.Feed, Now: c.Now, Rand: c.Rand, Owner: h.owner}
}

func (h *Server) owner(ctx context.Context, id identity.ID) (string, error) {
	return vacants.TenantOf(ctx, h.config.Store, id)
}

// recount corrects usage by all rows; nil if the host cannot list them.
func (h *Server) recount() func(context.Context) (usage.Recounted, error) {
	if h.config.Rows == nil {
		return nil
	}
	return func(ctx context.Context) (usage.Recounted, error) {
		m := h.Meter()
		r := usage.Recounter{Meter: m, Rows: h.config.Rows, Fold: func(ctx context.Context) error {
			_, err := m.Fold(ctx)
			return err
		}}
		return r.Recount(ctx)
	}
}

// Fold folds new rows into usage, for a process that ends.
func (h *Server) Fold(ctx context.Context) error {
	_, err := h.fold(ctx, h.Meter())
	return err
}
