package call

import (
	"context"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// TreeOnly reports whether the vacant admits only its parent and siblings.
func (v *Vacant) TreeOnly() bool {
	return v.IsClosed || v.Parent != nil && v.Reach != "" && v.Reach != composite.PublicA2A
}

// isRelated reports whether the caller of p is parent or another child of parent.
func (h *Host) isRelated(ctx context.Context, p Pair, parent *identity.ID) (bool, error) {
	switch {
	case parent == nil || p.Caller == p.Vacant:
		return false, nil
	case p.Caller == *parent:
		return true, nil
	case h.Sibling == nil:
		return false, nil
	}
	edge, began := edge{*parent, p.Caller}, h.Now()
	if sibling, isCached := h.kinCache.get(edge, began); isCached {
		return sibling, nil
	}
	sibling, err := h.Sibling(ctx, *parent, p.Caller)
	if err == nil {
		h.kinCache.put(edge, sibling, began)
	}
	return sibling, h.unavailableError(err)
}

// Kinship is cached for the same time as the records of vacants, and for a limited number of callers.
const (
	kinTTL      = time.Second
	kinCapacity = 4096
)

type edge struct{ parent, caller identity.ID }

// kinCache caches which callers are children of which parents.
type kinCache struct {
	mu sync.Mutex
	m  map[edge]kinEntry
}

type kinEntry struct {
	sibling bool
	until   time.Time
}

func (k *kinCache) get(e edge, now time.Time) (sibling, isCached bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, there := k.m[e]
	return s.sibling, there && now.Before(s.until)
}

func (k *kinCache) put(e edge, sibling bool, began time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.m == nil {
		k.m = make(map[edge]kinEntry)
	}
	if _, there := k.m[e]; !there && len(k.m) >= kinCapacity {
		for e, s := range k.m {
			if !began.Before(s.until) {
				delete(k.m, e)
			}
		}
		for e := range k.m { // remove arbitrary entries if none has expired
			if len(k.m) < kinCapacity {
				break
			}
			delete(k.m, e)
		}
	}
	k.m[e] = kinEntry{sibling, began.Add(kinTTL)}
}

// observeTime limits how long a reply waits for Config.Observe.
const observeTime = time.Second

// observe passes an answer that is about to be written to Config.Observe. The returned function
// waits until Observe returns or observeTime has passed.
func (h *Host) observe(ctx context.Context, r *request, ans *ResponseRow) (wait func()) {
	if h.Observe == nil || !r.vacant.HasKin || r.opts.Guest {
		return func() {}
	}
	o := Observation{Pair: r.pair, Parent: r.vacant.Parent, Position: ans.Position, Time: ans.Time, Took: ans.Took}
	ctx, cancel := context.WithTimeout(ctx, observeTime)
	go func() {
		defer cancel()
		defer func() { _ = recover() }() // a panic of the observer must not fail the call
		h.Observe(ctx, o)
	}()
	return func() { <-ctx.Done() }
}
