package search

// Verifications is how many verdicts are remembered.
func (s *Service) Verifications() int { return len(s.verified.new) + len(s.verified.old) }

// Recent is recent.
type Recent[K comparable, V any] struct{ *recent[K, V] }

// NewRecent is newRecent.
func NewRecent[K comparable, V any](most int) Recent[K, V] {
	return Recent[K, V]{newRecent[K, V](most)}
}

// Put is put.
func (r Recent[K, V]) Put(key K, v V) { r.put(key, v) }

// Get is get.
func (r Recent[K, V]) Get(key K) (v V, ok bool) { return r.get(key) }
