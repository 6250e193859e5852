package call

import (
	"sync"
	"sync/atomic"
)

type tips struct {
	req RequestRow
	rsp ResponseRow
}

// tipCache may contain stale tips. An append after a stale tip fails, and no request is refused
// because of a cached tip.
type tipCache struct {
	generation atomic.Uint64
	shards     [32]struct {
		mu sync.Mutex
		m  map[Pair]tips
	}
}

// cachedPairsPerShard limits the cache to about 10 MB, at about 600 bytes per pair.
const cachedPairsPerShard = 512

func (c *tipCache) get(p Pair, into *tips) (isCached bool) {
	s := &c.shards[p.Caller[0]%32]
	s.mu.Lock()
	defer s.mu.Unlock()
	*into, isCached = s.m[p]
	return isCached
}

// put caches the newer tip of each stream, because two calls of a pair may finish in any order.
func (c *tipCache) put(p Pair, newTips tips) {
	// Text and signature would keep the bytes of the complete row in memory.
	newTips.req.Text.Box, newTips.rsp.Text.Box = nil, nil
	newTips.req.Signature, newTips.rsp.Signature = nil, nil
	s := &c.shards[p.Caller[0]%32]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = make(map[Pair]tips)
	}
	old, isCached := s.m[p]
	if !isCached && newTips.req.Position == 0 {
		return // a zero request tip would look like a pair without requests
	}
	if old.req.Position > newTips.req.Position {
		newTips.req = old.req
	}
	if old.rsp.Position > newTips.rsp.Position {
		newTips.rsp = old.rsp
	}
	if !isCached && len(s.m) >= cachedPairsPerShard {
		for k := range s.m {
			delete(s.m, k)
			break
		}
	}
	s.m[p] = newTips
}

func (c *tipCache) clear() {
	c.generation.Add(1)
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		clear(s.m)
		s.mu.Unlock()
	}
}

func (c *tipCache) forget(p Pair) {
	s := &c.shards[p.Caller[0]%32]
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, p)
}
