package standalone

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/bleve"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/live"
	"github.com/vacancy-host/vacancy/shared/problem"
)

type searchState struct {
	rebuildMu sync.Mutex
	mu        sync.Mutex
	searcher  *serve.Search          // nil until the host runs
	index     *search.SwappableIndex // nil if the index is not in the data directory
}

// Reindex rebuilds the index of a running host. Searches use the old index until the new one is
// complete.
func (h *Host) Reindex(ctx context.Context) (result admin.Reindexed, err error) {
	if !h.searchState.rebuildMu.TryLock() {
		return result, problem.New(problem.Conflict, "the index is already being rebuilt")
	}
	defer h.searchState.rebuildMu.Unlock()
	h.searchState.mu.Lock()
	searcher, swappable := h.searchState.searcher, h.searchState.index
	h.searchState.mu.Unlock()
	switch {
	case searcher == nil:
		return result, problem.New(problem.Unavailable, "the host does not answer searches yet")
	case swappable == nil:
		return result, problem.New(problem.Conflict, "the index is in a cluster: stop the host, then name the cluster to reindex")
	}
	result.Index = filepath.Join(h.config.Dir, SearchDir)
	if err := BuildIndex(ctx, result.Index, h.Registry, h.config.Now, func(p live.Progress) { result.Registrations, result.Listed = p.Registrations, p.Listed }); err != nil {
		return result, err
	}
	return result, searcher.Live.Replace(ctx, func() error {
		return swappable.Replace(func(old search.Index) (search.Index, error) {
			// The old index may be damaged, so an error of Close is ignored.
			_ = old.Close()
			swapErr := SwapIndex(result.Index)
			newIndex, err := openIndex(result.Index, h.config.Log)
			if err != nil {
				return old, errors.Join(swapErr, err)
			}
			return newIndex, swapErr
		})
	})
}

func newIndexPath(path string) string { return path + ".new" }

func BuildIndex(ctx context.Context, path string, feed live.ChangeFeed, now func() time.Time, report func(live.Progress)) error {
	newPath := newIndexPath(path)
	if err := os.RemoveAll(newPath); err != nil {
		return problem.Wrap(problem.Unavailable, err, "%s, left over from an interrupted run, cannot be removed", newPath)
	}
	index, err := bleve.Open(newPath)
	if err != nil {
		return err
	}
	err = live.Rebuild(ctx, index, feed, now, report)
	if err = errors.Join(err, index.Close()); err != nil {
		return errors.Join(err, os.RemoveAll(newPath))
	}
	return nil
}

// SwapIndex replaces the index in path by the index that BuildIndex built. If the process dies
// before the rename, the index is missing, and the next start builds it.
func SwapIndex(path string) error {
	if err := errors.Join(os.RemoveAll(path), os.Rename(newIndexPath(path), path)); err != nil {
		return problem.Wrap(problem.Unavailable, err, "%s cannot be replaced", path)
	}
	return nil
}
