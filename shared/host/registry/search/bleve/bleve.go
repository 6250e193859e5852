// Package bleve is a search index in a directory or in memory, on the segments
// of bleve's scorch.
//
// The invariants are search.Index's. In addition, a batch that Apply
// acknowledged survives a crash with its mark, and a crash leaves a batch
// complete or absent.
//
// # How a query is answered
//
// The terms of a document cover what a query can ask: its words by group, the
// 1-, 2- and 3-grams at the start of and inside its words, the grams of its
// declared texts, its tags and families (terms.go). So a word, a prefix or a
// substring costs a few dictionary lookups and bitmap intersections, and never
// a walk over the dictionary. A gram match is not certain: the grams may occur
// without being adjacent. Of such documents, only those that rank high enough
// are read and checked (pick.go): a page or two.
//
// Ranking data (score, price, joined) lies in memory in columns of 18 bytes an
// entry, read once for each segment (columns.go). bleve's own scorers are not
// used, because their scores depend on the other documents.
package bleve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/blevesearch/bleve/v2/index/scorch"
	index "github.com/blevesearch/bleve_index_api"
	bolt "go.etcd.io/bbolt/errors"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Index is a search.Index over scorch.
type Index struct {
	mu      sync.RWMutex // held to read while in use, to write by Close
	closed  bool
	scorch  *scorch.Scorch
	path    string // of the segments; "" keeps them in memory
	queue   *index.AnalysisQueue
	columns columnCache
	saved   sync.Mutex // one Apply at a time
}

const (
	// store is the directory of the segments, where scorch's own copies put
	// them.
	store = "store"
	// format changes with the terms. An index of another format is refused and
	// must be rebuilt.
	format = "5"
	// workers cut documents into terms.
	workers = 2
)

// Keys of values stored beside the documents.
var (
	markKey   = []byte("mark")
	formatKey = []byte("format")
)

// ErrFormat is in the error chain for an index of another format. It must be
// rebuilt.
var ErrFormat = errors.New("the search index has another format")

// Open opens the index in dir and creates it if absent. Only one process at a
// time can open it: a second one is refused after a moment. The error is of
// kind Damaged for anything else than an index of this format, otherwise
// Unavailable.
func Open(dir string) (*Index, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "the search index's folder cannot be made")
	}
	return open(filepath.Join(dir, store))
}

// Memory makes an index in memory. Its segments are never merged, so it suits
// few entries.
func Memory() (*Index, error) { return open("") }

func open(path string) (*Index, error) {
	queue := index.NewAnalysisQueue(workers)
	s, err := scorch.NewScorch(scorch.Name, map[string]any{
		"path":               path,
		"bolt_timeout":       "2s",
		"numSnapshotsToKeep": 1,
	}, queue)
	if err != nil {
		queue.Close()
		return nil, unavailable(err)
	}
	if err := guarded(s.Open); err != nil {
		queue.Close()
		return nil, openError(err)
	}
	x := &Index{scorch: s.(*scorch.Scorch), path: path, queue: queue}
	if err := x.checkFormat(); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// openError distinguishes an index in use and an unusable directory from a
// damaged index, which must be rebuilt.
func openError(err error) error {
	if problem.Is(err, problem.Damaged) {
		return err
	}
	_, isPath := errors.AsType[*fs.PathError](err)
	if isPath && !errors.Is(err, fs.ErrNotExist) || errors.Is(err, bolt.ErrTimeout) {
		return unavailable(err)
	}
	return problem.Wrap(problem.Damaged, err, "the search index is damaged")
}

// checkFormat marks a new index and refuses one of another format.
func (x *Index) checkFormat() error {
	return x.reading(func(s *scorch.IndexSnapshot) error {
		got, err := s.GetInternal(formatKey)
		if err != nil {
			return unavailable(err)
		}
		if string(got) == format {
			return nil
		}
		if n, err := s.DocCount(); err != nil || n > 0 || got != nil {
			return problem.Wrap(problem.Damaged, errors.Join(ErrFormat, err),
				"the search index is of format %q, this program's is %q", got, format)
		}
		return x.scorch.SetInternal(formatKey, []byte(format))
	})
}

// Apply implements search.Index.
func (x *Index) Apply(ctx context.Context, b search.Batch) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	batch := index.NewBatch()
	for i := range b.Put {
		batch.Update(newDocument(&b.Put[i]))
	}
	for _, id := range b.Remove {
		batch.Delete(string(id[:]))
	}
	if b.Mark != "" {
		batch.SetInternal(markKey, []byte(b.Mark))
	}
	return x.using(func() error {
		x.saved.Lock()
		defer x.saved.Unlock()
		if err := x.scorch.Batch(batch); err != nil {
			return unavailable(err)
		}
		return nil
	})
}

// Mark implements search.Index.
func (x *Index) Mark(context.Context) (mark string, err error) {
	err = x.reading(func(s *scorch.IndexSnapshot) error {
		b, err := s.GetInternal(markKey)
		mark = string(b)
		return err
	})
	return mark, err
}

// Count implements search.Index.
func (x *Index) Count(context.Context) (n int, err error) {
	err = x.reading(func(s *scorch.IndexSnapshot) error {
		c, err := s.DocCount()
		n = int(c)
		return err
	})
	return n, err
}

// Close waits for running calls. Later calls return Unavailable; a second Close
// does nothing.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil
	}
	x.closed = true
	defer x.queue.Close()
	if err := x.scorch.Close(); err != nil {
		return unavailable(err)
	}
	return nil
}

// using runs fn while the index cannot be closed: a batch given to a closed
// scorch never returns.
func (x *Index) using(fn func() error) error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.closed {
		return unavailable(errors.New("the index is closed"))
	}
	return fn()
}

// reading runs fn over the current state of the index. fn reads mapped memory
// that is invalid afterwards.
func (x *Index) reading(fn func(*scorch.IndexSnapshot) error) error {
	return x.using(func() (err error) {
		r, err := x.scorch.Reader()
		if err != nil {
			return unavailable(err)
		}
		s, ok := r.(*scorch.IndexSnapshot)
		if !ok || s == nil {
			return unavailable(fmt.Errorf("scorch gave a %T to read", r))
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		return guarded(func() error { return fn(s) })
	})
}

// guarded turns a panic into an error: a truncated or overwritten segment file
// is not detected at open and makes its reader panic. The caller then rebuilds
// the index.
func guarded(fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = problem.Wrap(problem.Damaged, fmt.Errorf("panic: %v", r), "the search index is damaged")
		}
	}()
	return fn()
}

func unavailable(err error) error {
	return problem.Wrap(problem.Unavailable, err, "the search index cannot be used")
}
