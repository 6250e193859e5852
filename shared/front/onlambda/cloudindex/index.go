package cloudindex

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/bleve"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/live"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/snapshot"
	"github.com/vacancy-host/vacancy/shared/problem"
)

type snapshotSource interface {
	Load(ctx context.Context) (snapshot.Version, string, error)
	HasNewer(ctx context.Context, held snapshot.Version) (bool, error)
}

// index is the newest published index with later changes applied. It is safe for concurrent use.
type index struct {
	source     snapshotSource
	changeFeed live.ChangeFeed
	parentDir  string
	now        func() time.Time

	replaceMu sync.Mutex // locked while current is replaced
	mu        sync.RWMutex
	current   *localIndex // nil before the first Refresh
}

var _ search.Index = (*index)(nil)

type localIndex struct {
	*bleve.Index
	live    *live.Live
	version snapshot.Version
	folder  string
}

func newIndex(source snapshotSource, changeFeed live.ChangeFeed, parentDir string, now func() time.Time) *index {
	return &index{source: source, changeFeed: changeFeed, parentDir: parentDir, now: now}
}

// Refresh loads a newer snapshot, if any, and applies later changes.
func (x *index) Refresh(ctx context.Context) error {
	loadErr := x.loadNewer(ctx)
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.current == nil {
		return loadErr
	}
	return errors.Join(loadErr, x.current.live.Refresh(ctx))
}

// loadNewer replaces the index with a newer snapshot. It does not load a damaged snapshot again.
func (x *index) loadNewer(ctx context.Context) error {
	x.replaceMu.Lock()
	defer x.replaceMu.Unlock()
	if x.current != nil {
		if newer, err := x.source.HasNewer(ctx, x.current.version); err != nil || !newer {
			return err
		}
	}
	next, version, err := x.openNewest(ctx)
	switch {
	case problem.Is(err, problem.Damaged) && x.current != nil:
		x.current.version = version
		return err
	case problem.Is(err, problem.Damaged):
		next, err = x.open(version, "") // the change feed contains all entries
	}
	if err != nil {
		return err
	}
	x.mu.Lock() // waits for searches in the old index
	old := x.current
	x.current = next
	x.mu.Unlock()
	if old == nil {
		return nil
	}
	return old.closeAndRemove()
}

// openNewest opens the newest snapshot, or an empty index if there is none. It also returns the
// version of a damaged snapshot.
func (x *index) openNewest(ctx context.Context) (*localIndex, snapshot.Version, error) {
	version, folder, err := x.source.Load(ctx)
	if err != nil {
		return nil, version, err
	}
	c, err := x.open(version, folder)
	return c, version, err
}

// open opens the index in a folder, or a new index if folder is "".
func (x *index) open(version snapshot.Version, folder string) (*localIndex, error) {
	if folder == "" {
		var err error
		if folder, err = os.MkdirTemp(x.parentDir, "index-"); err != nil {
			return nil, problem.Wrap(problem.Internal, err, "cannot create a directory for the search index")
		}
	}
	bleveIndex, err := bleve.Open(folder)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return &localIndex{Index: bleveIndex, live: live.New(bleveIndex, x.changeFeed, x.now), version: version, folder: folder}, nil
}

func (c *localIndex) closeAndRemove() error {
	return errors.Join(c.Index.Close(), os.RemoveAll(c.folder))
}

func (x *index) withCurrent(fn func(*localIndex) error) error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.current == nil {
		return problem.New(problem.Unavailable, "the search index is not loaded")
	}
	return fn(x.current)
}

func (x *index) Apply(ctx context.Context, b search.Batch) error {
	return x.withCurrent(func(c *localIndex) error { return c.Index.Apply(ctx, b) })
}

func (x *index) Query(ctx context.Context, q search.Query) (hits []search.Hit, err error) {
	err = x.withCurrent(func(c *localIndex) (err error) {
		hits, err = c.Index.Query(ctx, q)
		return err
	})
	return hits, err
}

func (x *index) Mark(ctx context.Context) (mark string, err error) {
	err = x.withCurrent(func(c *localIndex) (err error) {
		mark, err = c.Index.Mark(ctx)
		return err
	})
	return mark, err
}

func (x *index) Count(ctx context.Context) (n int, err error) {
	err = x.withCurrent(func(c *localIndex) (err error) {
		n, err = c.Index.Count(ctx)
		return err
	})
	return n, err
}

func (x *index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.current == nil {
		return nil
	}
	old := x.current
	x.current = nil
	return old.closeAndRemove()
}
