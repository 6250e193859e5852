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

// published is the source of snapshots, implemented by snapshot.Snapshots.
type published interface {
	Load(ctx context.Context) (snapshot.Version, string, error)
	Newer(ctx context.Context, held snapshot.Version) (bool, error)
}

// index is the newest published index with later changes applied. It is safe for concurrent use.
type index struct {
	from published
	feed live.ChangeFeed
	dir  string // parent directory of new indexes
	now  func() time.Time

	change sync.Mutex // locked while held is replaced
	mu     sync.RWMutex
	held   *copied // nil before the first Refresh
}

var _ search.Index = (*index)(nil)

// copied is an index that this process has loaded into a folder on its disk.
type copied struct {
	*bleve.Index
	live    *live.Live
	version snapshot.Version
	folder  string
}

func newIndex(from published, feed live.ChangeFeed, dir string, now func() time.Time) *index {
	return &index{from: from, feed: feed, dir: dir, now: now}
}

// Refresh loads a newer snapshot if there is one, and applies later changes. Both are rate limited.
// If Refresh fails, the index is unchanged.
func (x *index) Refresh(ctx context.Context) error {
	renewed := x.renew(ctx)
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.held == nil {
		return renewed
	}
	return errors.Join(renewed, x.held.live.Refresh(ctx))
}

// renew replaces the index with a newer snapshot. It skips a damaged snapshot and does not load it
// again.
func (x *index) renew(ctx context.Context) error {
	x.change.Lock()
	defer x.change.Unlock()
	if x.held != nil {
		if newer, err := x.from.Newer(ctx, x.held.version); err != nil || !newer {
			return err
		}
	}
	next, version, err := x.newest(ctx)
	switch {
	case problem.Is(err, problem.Damaged) && x.held != nil:
		x.held.version = version
		return err
	case problem.Is(err, problem.Damaged):
		next, err = x.open(version, "") // the feed contains all entries
	}
	if err != nil {
		return err
	}
	x.mu.Lock() // waits for searches in the old index
	old := x.held
	x.held = next
	x.mu.Unlock()
	if old == nil {
		return nil
	}
	return old.drop()
}

// newest opens the newest snapshot, or an empty index if there is none. If the snapshot is damaged,
// newest also returns its version.
func (x *index) newest(ctx context.Context) (*copied, snapshot.Version, error) {
	version, folder, err := x.from.Load(ctx)
	if err != nil {
		return nil, version, err
	}
	c, err := x.open(version, folder)
	return c, version, err
}

// open opens the index in a folder, or creates a new index if folder is "". If it fails, it removes
// the folder.
func (x *index) open(version snapshot.Version, folder string) (*copied, error) {
	if folder == "" {
		var err error
		if folder, err = os.MkdirTemp(x.dir, "index-"); err != nil {
			return nil, problem.Wrap(problem.Internal, err, "cannot create a directory for the search index")
		}
	}
	opened, err := bleve.Open(folder)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return &copied{Index: opened, live: live.New(opened, x.feed, x.now), version: version, folder: folder}, nil
}

func (c *copied) drop() error { return errors.Join(c.Index.Close(), os.RemoveAll(c.folder)) }

func (x *index) using(fn func(*copied) error) error {
	// The read lock keeps the index from being replaced while fn runs.
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.held == nil {
		return problem.New(problem.Unavailable, "the search index is not loaded")
	}
	return fn(x.held)
}

func (x *index) Apply(ctx context.Context, b search.Batch) error {
	return x.using(func(c *copied) error { return c.Index.Apply(ctx, b) })
}

func (x *index) Query(ctx context.Context, q search.Query) (hits []search.Hit, err error) {
	err = x.using(func(c *copied) (err error) {
		hits, err = c.Index.Query(ctx, q)
		return err
	})
	return hits, err
}

func (x *index) Mark(ctx context.Context) (mark string, err error) {
	err = x.using(func(c *copied) (err error) {
		mark, err = c.Index.Mark(ctx)
		return err
	})
	return mark, err
}

func (x *index) Count(ctx context.Context) (n int, err error) {
	err = x.using(func(c *copied) (err error) {
		n, err = c.Index.Count(ctx)
		return err
	})
	return n, err
}

func (x *index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.held == nil {
		return nil
	}
	old := x.held
	x.held = nil
	return old.drop()
}
