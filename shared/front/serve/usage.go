package serve

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func (h *Server) Meter() *usage.Meter {
	c := &h.config
	if c.Feed == nil {
		return nil
	}
	return &usage.Meter{Store: c.Store, Feed: c.Feed, Now: c.Now, Rand: c.Rand, TenantOf: h.tenantOf}
}

func (h *Server) tenantOf(ctx context.Context, id identity.ID) (string, error) {
	return vacants.TenantOf(ctx, h.config.Store, id)
}

func (h *Server) Fold(ctx context.Context) error {
	_, err := h.foldAndLog(ctx, h.Meter())
	return err
}
