package call

import (
	"context"
	"time"

	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// treeOnly reports whether v may be called by its parent and siblings alone.
func (v *Vacant) treeOnly() bool {
	return v.Closed || v.Parent != nil && v.Reach != "" && v.Reach != composite.PublicA2A
}

// related reports whether the pair's caller is the vacant's parent or one of
// its siblings. That the caller is who it says is proved by its signature, which
// was verified before.
func (h *Host) related(ctx context.Context, p Pair, parent *identity.ID) (bool, error) {
	switch {
	case parent == nil:
		return false, nil
	case p.Caller == *parent:
		return true, nil
	case h.Sibling == nil || p.Caller == p.Vacant:
		return false, nil
	}
	sibling, err := h.Sibling(ctx, *parent, p.Caller)
	return sibling, h.fault(err)
}

// observeTime is how long a reply waits for what observes it at most.
const observeTime = time.Second

// observe tells of the answer that is about to be written. The returned wait
// ends when that is done.
func (h *Host) observe(ctx context.Context, r *request, ans *ResponseRow) (wait func()) {
	if h.Observe == nil || !r.vacant.Kin {
		return func() {}
	}
	o := Observation{Pair: r.pair, Parent: r.vacant.Parent, Position: ans.Position, Time: ans.Time, Took: ans.Took}
	ctx, cancel := context.WithTimeout(ctx, observeTime)
	go func() {
		defer cancel()
		defer func() { _ = recover() }() // a panic there fails no call either
		h.Observe(ctx, o)
	}()
	return func() { <-ctx.Done() }
}
