package serve

import (
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/live"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
)

// OpenLog opens the transparency log of the server's registry. witnesses are
// verifier keys of unregistered witnesses that may cosign.
func (h *Server) OpenLog(witnesses []string) (*translog.Log, error) {
	return translog.OfRegistry(translog.Config{
		Store: h.config.Store, Identity: h.Vacants.Self, Witnesses: witnesses, Now: h.config.Now, Rand: h.config.Rand,
	}, h.Registry)
}

// RegistryHandler is the public handler of the registry and its log; a nil log
// leaves out the log's routes.
func (h *Server) RegistryHandler(log registryapi.Log) http.Handler {
	return registryapi.Registry(registryapi.Config{
		Registry: h.Registry, Vacants: h.Vacants, Log: log, URL: h.Vacants.Base, TrustedHost: h.config.TrustedHost, Now: h.config.Now, Logger: h.config.Log,
	})
}

// OpenSearch makes the search of the server over an index, which queries bring
// up to date. The caller closes the index.
func (h *Server) OpenSearch(index search.Index) *Search {
	l := live.New(index, h.Registry, h.config.Now)
	s := search.New(search.Config{
		Index: index, Registry: h.Registry, Now: h.config.Now, Log: h.config.Log,
		Refresh: refresher(h.config.Store, l.CatchUp, l.Refresh),
	})
	return &Search{Service: s, Live: l, server: h}
}

// Search is a server's search service and the updater of its index.
type Search struct {
	*search.Service
	Live *live.Live

	server *Server
}

// Endpoint is the public handler of search.
func (s *Search) Endpoint() http.Handler {
	return registryapi.Search(registryapi.SearchConfig{Finder: s.Service, Now: s.server.config.Now, Logger: s.server.config.Log})
}
