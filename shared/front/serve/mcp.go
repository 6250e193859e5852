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

// SearchHandler is the handler of search over a function that finds vacants, for handlers that verify
// what they find as other clients of a registry do. It logs nothing.
func (h *Server) SearchHandler(find Find) http.Handler {
	return registryapi.Search(registryapi.SearchConfig{Finder: finder(find), Now: h.config.Now})
}

type finder Find

// Find implements registryapi.Finder.
func (f finder) Find(ctx context.Context, q search.Request) (search.Page, error) { return f(ctx, q) }

// IsPublished reports whether a vacant is published, asleep or not.
func (h *Server) IsPublished(ctx context.Context, id identity.ID) (bool, error) {
	g, ok, err := h.Registry.Get(ctx, id)
	return ok && g.Status == registry.StatusActive && g.Visibility == lifecycle.Public, err
}

// Version returns the version of Vacancy, or "".
func (h *Server) Version() string { return h.config.Version }

// Operator returns the checker of the operator's key, or nil.
func (h *Server) Operator() admin.Checker { return h.config.Operator }
