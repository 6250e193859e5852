package search

import (
	"context"
	"sync"
)

// Replaceable is an Index that can be replaced by another index while it is in use.
type Replaceable struct {
	mu    sync.RWMutex
	index Index
}

func NewReplaceable(index Index) *Replaceable { return &Replaceable{index: index} }

// Replace waits for running methods, calls by with the current index, and uses the index that by
// returns from then on. The returned index must not be nil, even with an error.
func (r *Replaceable) Replace(by func(old Index) (Index, error)) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.index, err = by(r.index)
	return err
}

func (r *Replaceable) Apply(ctx context.Context, b Batch) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.index.Apply(ctx, b)
}

func (r *Replaceable) Query(ctx context.Context, q Query) ([]Hit, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.index.Query(ctx, q)
}

func (r *Replaceable) Mark(ctx context.Context) (string, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.index.Mark(ctx)
}

func (r *Replaceable) Count(ctx context.Context) (int, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.index.Count(ctx)
}

func (r *Replaceable) Close() error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.index.Close()
}
