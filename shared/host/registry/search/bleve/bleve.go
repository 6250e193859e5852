// Package bleve is a search index in a directory or in memory, on the segments
// of bleve's scorch.
//
// The invariants are search.Index's. In addition, a batch that Apply
// acknowledged survives a crash with its mark, and a crash leaves a batch
// complete or absent.
//
// # How a query is answered
//
// Each entry is a document whose terms say what the query can ask at once: its
// words by group, the 1-, 2- and 3-grams that its words begin with and have
// inside, the grams of its declared texts, its tags and families (terms.go). So
// a word, a prefix, a substring costs a few lookups in the dictionary and a few
// intersections of bitmaps, never a walk over the dictionary. Grams can lie:
// they may be there without being next to one another. Of those documents only
// the ones that come far enough up are read and looked at (pick.go), which is a
// page or two of them, not all.
//
// What ranks (score, price, joined) lies in columns in memory, 18 bytes an
// entry, read once for each segment (columns.go). bleve's own scorers are not
// used: theirs depend on how often words are in the other documents.
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
	path    string // of the segments; "" in memory
	queue   *index.AnalysisQueue
	columns columnCache
	saved   sync.Mutex // one Apply at a time
}

const (
	// store is the directory of the segments, where scorch's own copies put it.
	store = "store"
	// format is raised when the terms change: an index of another format is
	// refused, and made again by whoever opens it.
	format = "2"
	// workers that cut documents into terms.
	workers = 2
)

// The keys of what is kept with the documents.
var (
	markKey   = []byte("mark")
	formatKey = []byte("format")
)

// ErrFormat is in the chain of the error of an index whose format is not this
// program's. It has to be made again.
var ErrFormat = errors.New("the search index has another format")

// Open opens the index in dir, made if absent. One process at a time has it: a
// second one is refused after a moment. The error is of kind Damaged for what
// is no index of this format, else Unavailable.
func Open(dir string) (*Index, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "the search index's folder cannot be made")
	}
	return open(filepath.Join(dir, store))
}

// Memory makes an index that is gone when it is closed. Its segments are never
// merged, so it is for few entries.
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

// openError tells an index that another process has, and a directory that cannot
// be used, from one that is damaged and has to be made again.
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

// Close waits for what is under way. Later calls say Unavailable; a later
// Close does nothing.
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
// scorch would never return.
func (x *Index) using(fn func() error) error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.closed {
		return unavailable(errors.New("the index is closed"))
	}
	return fn()
}

// reading runs fn over the index as it is now. What fn reads is mapped memory
// that is gone afterwards.
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

// guarded makes an error of a panic: a segment file that is cut or overwritten
// is not told from a good one when it is opened, and makes the reader of
// segments panic. Who gets the error makes the index again.
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
