package serve

import (
	"context"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

func (h *Server) SearchHandler(find FindFunc) http.Handler {
	return registryapi.NewSearchHandler(registryapi.SearchConfig{Finder: finder(find), Now: h.config.Now})
}

type finder FindFunc

func (f finder) Find(ctx context.Context, q search.Request) (search.Page, error) { return f(ctx, q) }

func (h *Server) IsPublished(ctx context.Context, id identity.ID) (bool, error) {
	g, ok, err := h.Registry.Get(ctx, id)
	return ok && g.Status == registry.StatusActive && g.Visibility == lifecycle.Public, err
}

func (h *Server) Version() string { return h.config.Version }

func (h *Server) Operator() admin.KeyChecker { return h.config.Operator }
