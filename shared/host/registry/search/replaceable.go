package search

import (
	"context"
	"sync"
)

// Replaceable is an Index that another can replace while it is used.
type Replaceable struct {
	mu    sync.RWMutex
	index Index
}

// NewReplaceable makes a Replaceable that begins with index.
func NewReplaceable(index Index) *Replaceable { return &Replaceable{index: index} }

// Replace waits until no method runs, gives the index to by, and goes on with
// the one that by returns, which must not be nil, also with an error.
func (r *Replaceable) Replace(by func(old Index) (Index, error)) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.index, err = by(r.index)
	return err
}

// Apply implements Index.
func (r *Replaceable) Apply(ctx context.Context, b Batch) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.index.Apply(ctx, b)
}

// Query implements Index.
func (r *Replaceable) Query(ctx context.Context, q Query) ([]Hit, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.index.Query(ctx, q)
}

// Mark implements Index.
func (r *Replaceable) Mark(ctx context.Context) (string, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.index.Mark(ctx)
}

// Count implements Index.
func (r *Replaceable) Count(ctx context.Context) (int, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.index.Count(ctx)
}

// Close implements Index.
func (r *Replaceable) Close() error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.index.Close()
}
