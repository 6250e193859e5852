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
// not be nil, even if swap returns an error.
func (s *SwappableIndex) Replace(swap func(old Index) (Index, error)) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index, err = swap(s.index)
	return err
}

func (s *SwappableIndex) Apply(ctx context.Context, b Batch) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.index.Apply(ctx, b)
}

func (s *SwappableIndex) Query(ctx context.Context, q Query) ([]Hit, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.index.Query(ctx, q)
}

func (s *SwappableIndex) Mark(ctx context.Context) (string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.index.Mark(ctx)
}

func (s *SwappableIndex) Count(ctx context.Context) (int, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.index.Count(ctx)
}

func (s *SwappableIndex) Close() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.index.Close()
}
