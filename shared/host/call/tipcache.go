package call

import (
	"sync"
	"sync/atomic"
)

// tips are the last rows of both streams of a pair, zero if a stream is empty.
type tips struct {
	req RequestRow
	rsp ResponseRow
}

// tipCache caches the tips of recent pairs. A cached tip may be stale: an
// append after it fails harmlessly, and no request is refused because of it.
// The cache is bounded; evicted pairs are read again.
type tipCache struct {
	generation atomic.Uint64 // counts clear
	shards     [32]struct {
		mu sync.Mutex
		m  map[Pair]tips
	}
}

// 32 shards of 512 pairs of about 600 bytes bound the memory.
const cachedPairsPerShard = 512

// get copies the cached tips of p into the given tips; false if there are none.
func (v *tipCache) get(p Pair, into *tips) (known bool) {
	s := &v.shards[p.Caller[0]%32]
	s.mu.Lock()
	defer s.mu.Unlock()
	*into, known = s.m[p]
	return known
}

// learn keeps the newer tip of each stream: two calls of one pair may finish in
// any order.
func (v *tipCache) learn(p Pair, seen tips) {
	// A tip needs neither text nor signature, and both would keep the bytes of
	// the whole row in memory.
	seen.req.Text.Box, seen.rsp.Text.Box = nil, nil
	seen.req.Signature, seen.rsp.Signature = nil, nil
	s := &v.shards[p.Caller[0]%32]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = make(map[Pair]tips)
	}
	old, known := s.m[p]
	if !known && seen.req.Position == 0 {
		return // only half of the tips is known; the other would look like an empty stream
	}
	if old.req.Position > seen.req.Position {
		seen.req = old.req
	}
	if old.rsp.Position > seen.rsp.Position {
		seen.rsp = old.rsp
	}
	if !known && len(s.m) >= cachedPairsPerShard {
		for k := range s.m { // evict an arbitrary pair
			delete(s.m, k)
			break
		}
	}
	s.m[p] = seen
}

// clear drops all pairs.
func (v *tipCache) clear() {
	v.generation.Add(1)
	for i := range v.shards {
		s := &v.shards[i]
		s.mu.Lock()
		clear(s.m)
		s.mu.Unlock()
	}
}

func (v *tipCache) forget(p Pair) {
	s := &v.shards[p.Caller[0]%32]
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, p)
}
