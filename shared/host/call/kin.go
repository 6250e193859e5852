package call

import (
	"context"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func (v *Vacant) IsTreeOnly() bool {
	return v.IsClosedChild || v.Parent != nil && v.Reachability != "" && v.Reachability != composite.PublicA2A
}

func (h *Host) isRelated(ctx context.Context, p Pair, parent *identity.ID) (bool, error) {
	switch {
	case parent == nil || p.Caller == p.Vacant:
		return false, nil
	case p.Caller == *parent:
		return true, nil
	case h.IsSibling == nil:
		return false, nil
	}
	key, now := kinKey{*parent, p.Caller}, h.Now()
	if isSibling, isCached := h.kinCache.get(key, now); isCached {
		return isSibling, nil
	}
	isSibling, err := h.IsSibling(ctx, *parent, p.Caller)
	if err == nil {
		h.kinCache.put(key, isSibling, now)
	}
	return isSibling, h.unavailableError(err)
}

const (
	kinLifetime = time.Second
	kinCapacity = 4096
)

type kinKey struct{ parent, caller identity.ID }

type kinCache struct {
	mu sync.Mutex
	m  map[kinKey]kinEntry
}

type kinEntry struct {
	isSibling bool
	expires   time.Time
}

func (k *kinCache) get(key kinKey, now time.Time) (isSibling, isCached bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	entry, ok := k.m[key]
	return entry.isSibling, ok && now.Before(entry.expires)
}

func (k *kinCache) put(key kinKey, isSibling bool, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.m == nil {
		k.m = make(map[kinKey]kinEntry)
	}
	if _, isCached := k.m[key]; !isCached && len(k.m) >= kinCapacity {
		for key, entry := range k.m {
			if !now.Before(entry.expires) {
				delete(k.m, key)
			}
		}
		for key := range k.m {
			if len(k.m) < kinCapacity {
				break
			}
			delete(k.m, key)
		}
	}
	k.m[key] = kinEntry{isSibling, now.Add(kinLifetime)}
}

const observeTimeout = time.Second

func (h *Host) startObservation(ctx context.Context, r *request, ans *ResponseRow) (wait func()) {
	if h.Observe == nil || !r.vacant.HasKin || r.opts.Guest {
		return func() {}
	}
	o := Observation{Pair: r.pair, Parent: r.vacant.Parent, Position: ans.Position, Time: ans.Time, Duration: ans.Duration}
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	go func() {
		defer cancel()
		defer func() { _ = recover() }() // a panic of the observer must not fail the call
		h.Observe(ctx, o)
	}()
	return func() { <-ctx.Done() }
}
