// Package cloudindex implements the search index of a host on AWS. The function indexer publishes
// snapshots to the bucket. Each instance of search loads the latest snapshot and applies later
// changes, which it reads from a sparse index of DynamoDB.
//
// Only complete snapshots are loaded. An instance that cannot load a newer index keeps its current
// one. A snapshot contains a mark, the position in the changes up to which it is complete.
package cloudindex

import (
	"crypto/rand"
	"net/http"
	"os"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/finder"
	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/snapshot"
	"github.com/vacancy-host/vacancy/shared/store/blob/s3"
)

func Handler(h *onlambda.Env) http.Handler {
	r := registrations(h)
	index := newIndex(snapshots(h), r, os.TempDir(), wall)
	searches := search.New(search.Config{Index: index, Registry: r, Now: wall, Log: h.Log, Refresh: index.Refresh})
	h.Direct = finder.Answer(searches.Find, h.Log)
	return registryapi.Search(registryapi.SearchConfig{Finder: searches, Now: wall, Logger: h.Log})
}

func registrations(h *onlambda.Env) *registry.Registry {
	return registry.New(registry.Config{Store: h.Store, Now: wall, Rand: rand.Reader})
}

func snapshots(h *onlambda.Env) *snapshot.Snapshots {
	return snapshot.New(snapshot.Config{
		Blobs: s3.New(s3.NewClient(h.AWS), h.Blobs, rand.Reader), Now: wall, Rand: rand.Reader, Dir: os.TempDir(),
	})
}

// wall returns the wall clock time without its monotonic reading, which may stop while a function
// is frozen.
func wall() time.Time { return time.Now().Round(0) }
