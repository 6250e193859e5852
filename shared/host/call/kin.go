package call

import (
	"context"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// treeOnly reports whether v may be called by its parent and siblings alone.
func (v *Vacant) treeOnly() bool {
	return v.Closed || v.Parent != nil && v.Reach != "" && v.Reach != composite.PublicA2A
}

// admit says in r whether the vacant admits the caller. That the caller is who
// it says is proved by its signature, which was verified before.
func (h *Host) admit(ctx context.Context, r *request) (err error) {
	r.stranger = false
	if v := &r.vacant; v.treeOnly() {
		var related bool
		related, err = h.related(ctx, r.pair, v.Parent)
		r.stranger = !related
	}
	return err
}

// hidden: a closed child is not there for those whom it does not admit. Whoever
// holds a revoked key may be anybody.
func (r *request) hidden() bool {
	return r.vacant.Closed && (r.stranger || r.barred != nil)
}

// outsider refuses who may know of the vacant and may not call it.
func (r *request) outsider() error {
	if !r.stranger {
		return nil
	}
	return problem.New(problem.TreeOnly, "%s may not call %s: endpoint_reachability %s admits its parent and siblings only",
		r.pair.Caller.Short(), r.pair.Vacant.Short(), r.vacant.Reach)
}

// related reports whether the pair's caller is the vacant's parent or one of
// its siblings.
func (h *Host) related(ctx context.Context, p Pair, parent *identity.ID) (bool, error) {
	switch {
	case parent == nil || p.Caller == p.Vacant:
		return false, nil
	case p.Caller == *parent:
		return true, nil
	case h.Sibling == nil:
		return false, nil
	}
	edge, began := edge{*parent, p.Caller}, h.Now()
	if sibling, known := h.kin.get(edge, began); known {
		return sibling, nil
	}
	sibling, err := h.Sibling(ctx, *parent, p.Caller)
	if err == nil {
		h.kin.put(edge, sibling, began)
	}
	return sibling, h.fault(err)
}

// How long, and of how many callers, the host remembers whose children they
// are: as long as it remembers the record of a vacant.
const (
	kinTime  = time.Second
	kinItems = 4096
)

type edge struct{ parent, caller identity.ID }

// kin remembers, for a moment, who is a child of whom and who is not.
type kin struct {
	mu sync.Mutex
	m  map[edge]kinship
}

type kinship struct {
	sibling bool
	until   time.Time
}

func (k *kin) get(e edge, now time.Time) (sibling, known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, there := k.m[e]
	return s.sibling, there && now.Before(s.until)
}

// put remembers what a read said that began at a time.
func (k *kin) put(e edge, sibling bool, began time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.m == nil {
		k.m = make(map[edge]kinship)
	}
	if _, there := k.m[e]; !there && len(k.m) >= kinItems {
		k.sweep(began)
	}
	k.m[e] = kinship{sibling, began.Add(kinTime)}
}

// sweep makes room: what is over goes, and if nothing is, any one.
func (k *kin) sweep(now time.Time) {
	for e, s := range k.m {
		if !now.Before(s.until) {
			delete(k.m, e)
		}
	}
	for e := range k.m {
		if len(k.m) < kinItems {
			return
		}
		delete(k.m, e)
	}
}

// observeTime is how long a reply waits for what observes it at most.
const observeTime = time.Second

// observe tells of the answer that is about to be written. The returned wait
// ends when that is done, or has taken too long.
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
