package cli

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/bleve"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// searchDir is the directory of the search index in a data directory. It can be
// rebuilt from the data file.
const searchDir = "search"

// sealEvery is how often dev seals the registry's log, if there are new events.
const sealEvery = time.Minute

// finding is the search and the log of a local host.
type finding struct {
	search *serve.Search
	log    *translog.Log
	index  search.Index
}

// openFinding opens the search index of a data directory, which this process
// has locked, or the one in a cluster, and the log of the registry with its
// configured witnesses.
func (a *app) openFinding(ctx context.Context, dir, cluster string, host *localHost, witnesses []string, log *slog.Logger) (*finding, error) {
	l, err := host.OpenLog(witnesses)
	if err != nil {
		return nil, err
	}
	var index search.Index
	if cluster != "" {
		index, err = a.openCluster(ctx, cluster)
	} else {
		index, err = openIndex(filepath.Join(dir, searchDir), log)
	}
	if err != nil {
		return nil, err
	}
	return &finding{search: host.OpenSearch(index), log: l, index: index}, nil
}

// openIndex opens the index in a directory. A damaged one, or one of another
// format, is deleted and rebuilt; nothing is lost.
func openIndex(dir string, log *slog.Logger) (*bleve.Index, error) {
	index, err := bleve.Open(dir)
	if !problem.Is(err, problem.Damaged) {
		return index, err
	}
	log.Warn("the search index is rebuilt", "folder", dir, "cause", err.Error())
	if err := os.RemoveAll(dir); err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "the damaged search index in %s cannot be removed", dir)
	}
	return bleve.Open(dir)
}

// endpoints are all handlers of the public listener.
func (f *finding) endpoints(host *localHost) serve.Handlers {
	return serve.Handlers{
		Message: host.Message, Registry: host.RegistryHandler(f.log), Search: f.search.Endpoint(),
		Gate: host.GateHandler(nil), Children: host.ChildrenHandler(),
	}
}

// keep updates the index, so that the first search need not, and seals the log
// at intervals, until ctx ends.
func (f *finding) keep(ctx context.Context, log *slog.Logger) {
	if err := f.search.Live.CatchUp(ctx); err != nil && ctx.Err() == nil {
		log.LogAttrs(ctx, slog.LevelError, "the search index is not up to date", slog.String("cause", err.Error()))
	}
	serve.SealEvery(ctx, f.log, sealEvery, log)
}

func (f *finding) close() error { return f.index.Close() }
