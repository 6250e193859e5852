// Package cloudindex implements the search index of a host on AWS. The function indexer publishes
// snapshots to the bucket. Each instance of search loads the latest snapshot and applies later
// changes.
//
// An instance that cannot load a newer index keeps its current index. A snapshot contains a mark,
// the position in the changes up to which it is complete.
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

func Handler(env *onlambda.Env) http.Handler {
	r := openRegistry(env)
	index := newIndex(openSnapshots(env), r, os.TempDir(), wallClock)
	searchService := search.New(search.Config{Index: index, Registry: r, Now: wallClock, Log: env.Log, Refresh: index.Refresh})
	env.HandleDirect = finder.NewHandler(searchService.Find, env.Log)
	return registryapi.NewSearchHandler(registryapi.SearchConfig{Finder: searchService, Now: wallClock, Logger: env.Log})
}

func openRegistry(env *onlambda.Env) *registry.Registry {
	return registry.New(registry.Config{Store: env.Store, Now: wallClock, Rand: rand.Reader})
}

func openSnapshots(env *onlambda.Env) *snapshot.Snapshots {
	return snapshot.New(snapshot.Config{
		Blobs: s3.New(s3.NewClient(env.AWS), env.Bucket, rand.Reader), Now: wallClock, Rand: rand.Reader, Dir: os.TempDir(),
	})
}

// wallClock omits the monotonic reading, which may stop while a function is frozen.
func wallClock() time.Time { return time.Now().Round(0) }
