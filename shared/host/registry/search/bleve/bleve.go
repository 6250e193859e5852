// Package bleve implements search.Index with the segments of bleve's scorch, in a directory or in
// memory. A batch and its mark survive a crash once Apply has returned.
//
// Each vacant is a document. Its terms (terms.go) include the 1-, 2- and 3-grams of its words, so a
// query needs only dictionary lookups and bitmap intersections. Grams may occur without being
// adjacent, so a match by grams is verified with the document's texts (proof.go) if it ranks high
// enough for the page (pick.go). The scorers of bleve are not used, because their scores depend on
// other documents.
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

type Index struct {
	mu      sync.RWMutex // read-locked by uses of the index, write-locked by Close
	closed  bool
	scorch  *scorch.Scorch
	path    string
	queue   *index.AnalysisQueue
	columns columnCache
	applyMu sync.Mutex // serializes Apply
}

const (
	// storeDir is the name that scorch uses when it copies an index.
	storeDir = "store"
	// format changes whenever the terms change.
	format          = "5"
	analysisWorkers = 2
)

var (
	markKey   = []byte("mark")
	formatKey = []byte("format")
)

// ErrFormat is in the error chain if an index has another format. The index must be rebuilt.
var ErrFormat = errors.New("the search index has another format")

// Open opens the index in dir and creates it if it does not exist. Only one process can open an
// index at a time. If the error is of kind Damaged, the index must be rebuilt.
func Open(dir string) (*Index, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "the search index's directory cannot be created")
	}
	return open(filepath.Join(dir, storeDir))
}

// OpenMemory returns an index in memory. Its segments are never merged, so it is suitable only for
// few entries.
func OpenMemory() (*Index, error) { return open("") }

func open(path string) (*Index, error) {
	queue := index.NewAnalysisQueue(analysisWorkers)
	s, err := scorch.NewScorch(scorch.Name, map[string]any{
		"path":               path,
		"bolt_timeout":       "2s",
		"numSnapshotsToKeep": 1,
	}, queue)
	if err != nil {
		queue.Close()
		return nil, unavailableError(err)
	}
	if err := recoverPanic(s.Open); err != nil {
		queue.Close()
		return nil, openError(err)
	}
	x := &Index{scorch: s.(*scorch.Scorch), path: path, queue: queue}
	if err := x.checkFormat(); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

func openError(err error) error {
	if problem.Is(err, problem.Damaged) {
		return err
	}
	_, isPath := errors.AsType[*fs.PathError](err)
	if isPath && !errors.Is(err, fs.ErrNotExist) || errors.Is(err, bolt.ErrTimeout) {
		return unavailableError(err)
	}
	return problem.Wrap(problem.Damaged, err, "the search index is damaged")
}

func (x *Index) checkFormat() error {
	return x.withSnapshot(func(s *scorch.IndexSnapshot) error {
		got, err := s.GetInternal(formatKey)
		if err != nil {
			return unavailableError(err)
		}
		if string(got) == format {
			return nil
		}
		if n, err := s.DocCount(); err != nil || n > 0 || got != nil {
			return problem.Wrap(problem.Damaged, errors.Join(ErrFormat, err),
				"the search index has format %q, but this program uses format %q", got, format)
		}
		return x.scorch.SetInternal(formatKey, []byte(format))
	})
}

func (x *Index) Apply(ctx context.Context, b search.Batch) error {
	if err := ctx.Err(); err != nil {
		return unavailableError(err)
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
	return x.whileOpen(func() error {
		x.applyMu.Lock()
		defer x.applyMu.Unlock()
		if err := x.scorch.Batch(batch); err != nil {
			return unavailableError(err)
		}
		return nil
	})
}

func (x *Index) Mark(context.Context) (mark string, err error) {
	err = x.withSnapshot(func(s *scorch.IndexSnapshot) error {
		b, err := s.GetInternal(markKey)
		mark = string(b)
		return err
	})
	return mark, err
}

func (x *Index) Count(context.Context) (n int, err error) {
	err = x.withSnapshot(func(s *scorch.IndexSnapshot) error {
		c, err := s.DocCount()
		n = int(c)
		return err
	})
	return n, err
}

// Close waits for running calls and closes the index. Later calls return Unavailable.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil
	}
	x.closed = true
	defer x.queue.Close()
	if err := x.scorch.Close(); err != nil {
		return unavailableError(err)
	}
	return nil
}

// whileOpen calls fn while Close cannot run, because a batch on a closed scorch would never return.
func (x *Index) whileOpen(fn func() error) error {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.closed {
		return unavailableError(errors.New("the index is closed"))
	}
	return fn()
}

// withSnapshot calls fn with the current state of the index. The state refers to mapped memory, so
// fn must not retain it.
func (x *Index) withSnapshot(fn func(*scorch.IndexSnapshot) error) error {
	return x.whileOpen(func() (err error) {
		r, err := x.scorch.Reader()
		if err != nil {
			return unavailableError(err)
		}
		s, ok := r.(*scorch.IndexSnapshot)
		if !ok || s == nil {
			return unavailableError(fmt.Errorf("scorch returned a %T as its reader", r))
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		return recoverPanic(func() error { return fn(s) })
	})
}

// recoverPanic handles truncated segment files, which make their reader panic.
func recoverPanic(fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = problem.Wrap(problem.Damaged, fmt.Errorf("panic: %v", r), "the search index is damaged")
		}
	}()
	return fn()
}

func unavailableError(err error) error {
	return problem.Wrap(problem.Unavailable, err, "the search index cannot be used")
}
