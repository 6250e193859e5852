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

// searching contains the search service of a running host and the index that Reindex can replace.
type searching struct {
	turn  sync.Mutex // locked while the index is rebuilt
	mu    sync.Mutex
	found *serve.Search          // search service; nil until the host runs
	index *search.SwappableIndex // nil if the index is not in the data directory
}

// Reindex rebuilds the index of a running host. Searches use the old index until the new one is
// complete.
func (h *Host) Reindex(ctx context.Context) (done admin.Reindexed, err error) {
	if !h.searching.turn.TryLock() {
		return done, problem.New(problem.Conflict, "the index is already being rebuilt")
	}
	defer h.searching.turn.Unlock()
	h.searching.mu.Lock()
	found, index := h.searching.found, h.searching.index
	h.searching.mu.Unlock()
	switch {
	case found == nil:
		return done, problem.New(problem.Unavailable, "the host does not answer searches yet")
	case index == nil:
		return done, problem.New(problem.Conflict, "the index is in a cluster: stop the host, then name the cluster to reindex")
	}
	done.Index = filepath.Join(h.config.Dir, SearchDir)
	if err := BuildIndex(ctx, done.Index, h.Registry, h.config.Now, func(p live.Progress) { done.Registrations, done.Listed = p.Read, p.Listed }); err != nil {
		return done, err
	}
	return done, found.Live.Replace(ctx, func() error {
		return index.Replace(func(old search.Index) (search.Index, error) {
			// The old index may be damaged, so an error of Close is ignored.
			_ = old.Close()
			swapped := SwapIndex(done.Index)
			fresh, err := openIndex(done.Index, h.config.Log)
			if err != nil {
				return old, errors.Join(swapped, err)
			}
			return fresh, swapped
		})
	})
}

func freshIndex(path string) string { return path + ".new" }

func BuildIndex(ctx context.Context, path string, feed live.ChangeFeed, now func() time.Time, tell func(live.Progress)) error {
	// SwapIndex moves the complete index from this path to its final one.
	fresh := freshIndex(path)
	if err := os.RemoveAll(fresh); err != nil {
		return problem.Wrap(problem.Unavailable, err, "%s, left over from an interrupted run, cannot be removed", fresh)
	}
	index, err := bleve.Open(fresh)
	if err != nil {
		return err
	}
	err = live.Rebuild(ctx, index, feed, now, tell)
	if err = errors.Join(err, index.Close()); err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	return nil
}

// SwapIndex replaces the index in path by the index that BuildIndex built. If the process crashes
// before the rename, the index is missing, and the next start builds one.
func SwapIndex(path string) error {
	if err := errors.Join(os.RemoveAll(path), os.Rename(freshIndex(path), path)); err != nil {
		return problem.Wrap(problem.Unavailable, err, "%s cannot be replaced", path)
	}
	return nil
}
