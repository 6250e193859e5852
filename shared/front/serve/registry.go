package serve

import (
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/live"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
)

// OpenLog opens the transparency log of the house's registry. witnesses are
// the verifier keys of those that may cosign without being registered here.
func (h *House) OpenLog(witnesses []string) (*translog.Log, error) {
	return translog.OfRegistry(translog.Config{
		Store: h.home.Store, Identity: h.Vacants.Self, Witnesses: witnesses, Now: h.home.Now, Rand: h.home.Rand,
	}, h.Registry)
}

// RegistryDoor is the public door of the registry and of its log; a nil log
// leaves that one's routes out.
func (h *House) RegistryDoor(log registryapi.Log) http.Handler {
	return registryapi.Registry(registryapi.Config{
		Registry: h.Registry, Log: log, URL: h.Vacants.Base, Routed: h.home.Routed, Now: h.home.Now, Logger: h.home.Log,
	})
}

// OpenSearch makes the search of the house over an index, which it brings up to
// date when it is asked. The index is the caller's to close.
func (h *House) OpenSearch(index search.Index) *Search {
	l := live.New(index, h.Registry, h.home.Now)
	s := search.New(search.Config{
		Index: index, Registry: h.Registry, Now: h.home.Now, Log: h.home.Log,
		Refresh: refresher(h.home.Store, l.CatchUp, l.Refresh),
	})
	return &Search{Service: s, Live: l, house: h}
}

// Search is a house's search: what answers, and what keeps its index up to
// date.
type Search struct {
	*search.Service
	Live *live.Live

	house *House
}

// Door is the public door of search.
func (s *Search) Door() http.Handler {
	return registryapi.Search(registryapi.SearchConfig{Finder: s.Service, Now: s.house.home.Now, Logger: s.house.home.Log})
}
