// Package cloudindex is the search index of a host on AWS. The function indexer
// publishes snapshots to the bucket; each instance of search loads the latest
// and follows later changes in the sparse index.
//
// The invariants: only complete snapshots are loaded. An instance that cannot
// load a newer index keeps its current one. A snapshot's mark never passes a
// change that the snapshot lacks.
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

// Handler is the handler of searches.
func Handler(h *onlambda.Env) http.Handler {
	r := registrations(h)
	index := newIndex(snapshots(h), r, os.TempDir(), wall)
	searches := search.New(search.Config{Index: index, Registry: r, Now: wall, Log: h.Log, Refresh: index.Refresh})
	h.Direct = finder.Answer(searches.Find, h.Log)
	return registryapi.Search(registryapi.SearchConfig{Finder: searches, Now: wall, Logger: h.Log})
}

// registrations are the host's, to read.
func registrations(h *onlambda.Env) *registry.Registry {
	return registry.New(registry.Config{Store: h.Store, Now: wall, Rand: rand.Reader})
}

// snapshots returns the index snapshots in the host's bucket.
func snapshots(h *onlambda.Env) *snapshot.Snapshots {
	return snapshot.New(snapshot.Config{
		Blobs: s3.New(s3.NewClient(h.AWS), h.Blobs, rand.Reader), Now: wall, Rand: rand.Reader, Dir: os.TempDir(),
	})
}

// wall is the wall clock without its monotonic reading, which may stop while a
// function is frozen.
func wall() time.Time { return time.Now().Round(0) }
