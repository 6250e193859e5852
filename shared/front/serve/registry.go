package serve

import (
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/live"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
)

func (h *Server) OpenLog(witnesses []string) (*translog.Log, error) {
	// witnesses contains verifier keys of unregistered witnesses that may cosign the log.
	return translog.NewForRegistry(translog.Config{
		Store: h.config.Store, Identity: h.Vacants.HostSigner, WitnessKeys: witnesses, Now: h.config.Now, Rand: h.config.Rand,
	}, h.Registry)
}

func (h *Server) RegistryHandler(log registryapi.Log) http.Handler {
	return registryapi.NewRegistryHandler(registryapi.Config{
		Registry: h.Registry, Vacants: h.Vacants, Reviews: h.Reviews, Log: log, URL: h.Vacants.BaseURL, TrustHostHeader: h.config.TrustHostHeader, Now: h.config.Now, Logger: h.config.Log,
	})
}

// OpenSearch returns the server's search over an index. The caller must close the index.
func (h *Server) OpenSearch(index search.Index) *Search {
	l := live.New(index, h.Registry, h.config.Now)
	s := search.New(search.Config{
		Index: index, Registry: h.Registry, Now: h.config.Now, Log: h.config.Log,
		Refresh: refresher(h.config.Store, l.CatchUp, l.Refresh),
	})
	return &Search{Service: s, Live: l, server: h}
}

type Search struct {
	*search.Service
	Live *live.Live

	server *Server
}

func (s *Search) Endpoint() http.Handler {
	return registryapi.NewSearchHandler(registryapi.SearchConfig{Finder: s.Service, Now: s.server.config.Now, Logger: s.server.config.Log})
}
