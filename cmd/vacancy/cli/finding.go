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

// searchDir is the directory of the search index in a host's data directory. All in
// it is made from the data file, and can be made again.
const searchDir = "search"

// sealEvery is how often dev seals the registry's log, if something is new.
const sealEvery = time.Minute

// finding is what a host of this machine needs to be found by: its search and
// its log.
type finding struct {
	search *serve.Search
	log    *translog.Log
	index  search.Index
}

// openFinding opens the search index of a data directory, which this process has
// locked, or that in a cluster if one is named, and the log of its registry,
// with its configured witnesses.
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

// openIndex opens the index in a directory. One that is damaged, or of another
// format, is thrown away: nothing is lost, and a person would do the same.
func openIndex(dir string, log *slog.Logger) (*bleve.Index, error) {
	index, err := bleve.Open(dir)
	if !problem.Is(err, problem.Damaged) {
		return index, err
	}
	log.Warn("the search index is made again", "folder", dir, "cause", err.Error())
	if err := os.RemoveAll(dir); err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "the damaged search index in %s cannot be removed", dir)
	}
	return bleve.Open(dir)
}

// endpoints are all that the public listener serves.
func (f *finding) endpoints(host *localHost) serve.Handlers {
	return serve.Handlers{
		Message: host.Message, Registry: host.RegistryHandler(f.log), Search: f.search.Endpoint(),
		Gate: host.GateHandler(nil), Children: host.ChildrenHandler(),
	}
}

// keep brings the index up to date, so that the first search need not, and
// seals the log now and then, until ctx ends.
func (f *finding) keep(ctx context.Context, log *slog.Logger) {
	if err := f.search.Live.CatchUp(ctx); err != nil && ctx.Err() == nil {
		log.LogAttrs(ctx, slog.LevelError, "the search index is not up to date", slog.String("cause", err.Error()))
	}
	serve.SealEvery(ctx, f.log, sealEvery, log)
}

func (f *finding) close() error { return f.index.Close() }
