package search

import (
	"context"
	"sync"
)

// SwappableIndex is an Index that can be replaced while it is in use.
type SwappableIndex struct {
	mu    sync.RWMutex
	index Index
}

func NewSwappable(index Index) *SwappableIndex { return &SwappableIndex{index: index} }

// Replace waits for running methods and uses the index that swap returns. The returned index must
// not be nil, even with an error.
func (r *SwappableIndex) Replace(swap func(old Index) (Index, error)) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.index, err = swap(r.index)
	return err
}

func (r *SwappableIndex) Apply(ctx context.Context, b Batch) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.index.Apply(ctx, b)
}

func (r *SwappableIndex) Query(ctx context.Context, q Query) ([]Hit, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.index.Query(ctx, q)
}

func (r *SwappableIndex) Mark(ctx context.Context) (string, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.index.Mark(ctx)
}

func (r *SwappableIndex) Count(ctx context.Context) (int, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.index.Count(ctx)
}

func (r *SwappableIndex) Close() error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.index.Close()
}
