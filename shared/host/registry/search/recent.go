package search

import "sync"

// recent is a cache in two generations of at most most items each. It is safe
// for concurrent use.
type recent[K comparable, V any] struct {
	most     int
	mu       sync.Mutex
	new, old map[K]V
}

func newRecent[K comparable, V any](most int) *recent[K, V] {
	return &recent[K, V]{most: most, new: make(map[K]V)}
}

func (r *recent[K, V]) get(key K) (v V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v, ok = r.new[key]; ok {
		return v, true
	}
	if v, ok = r.old[key]; ok {
		r.add(key, v)
	}
	return v, ok
}

func (r *recent[K, V]) put(key K, v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(key, v)
}

// add drops the older generation when the newer is full. Items that are read
// move to the newer one, so items in use stay.
func (r *recent[K, V]) add(key K, v V) {
	if len(r.new) >= r.most {
		r.old, r.new = r.new, make(map[K]V)
	}
	r.new[key] = v
}
