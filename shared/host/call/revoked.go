package call

import (
	"context"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// How long, and of how many ids, the host remembers whether their keys are
// revoked.
const (
	revokedTime  = time.Second
	revokedItems = 4096
)

// revocations remembers, for a moment, whose keys are revoked and whose are
// not: a busy caller costs one read a second and not one a call.
type revocations struct {
	mu    sync.Mutex
	m     map[identity.ID]revocation
	floor time.Time // what was read before it is not remembered
}

type revocation struct {
	revoked bool
	until   time.Time
}

func (v *revocations) get(id identity.ID, now time.Time) (revoked, known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r, there := v.m[id]
	return r.revoked, there && now.Before(r.until)
}

// put remembers what a read said that began at a time: the second counts from
// before the read.
func (v *revocations) put(id identity.ID, revoked bool, began time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !began.After(v.floor) {
		return
	}
	if v.m == nil {
		v.m = make(map[identity.ID]revocation)
	}
	if _, there := v.m[id]; !there && len(v.m) >= revokedItems {
		v.sweep(began)
	}
	v.m[id] = revocation{revoked, began.Add(revokedTime)}
}

// sweep makes room: what is over goes, and if nothing is, any one.
func (v *revocations) sweep(now time.Time) {
	for id, r := range v.m {
		if !now.Before(r.until) {
			delete(v.m, id)
		}
	}
	for id := range v.m {
		if len(v.m) < revokedItems {
			return
		}
		delete(v.m, id)
	}
}

// ForgetRevoked forgets whose keys are good. A home that revokes a key in this
// very process says so, and the next call already is refused.
func (h *Host) ForgetRevoked() {
	h.revocations.mu.Lock()
	defer h.revocations.mu.Unlock()
	h.revocations.m, h.revocations.floor = nil, h.Now()
}

// barKnown reports whether bar needs no read.
func (h *Host) barKnown(p Pair) bool {
	if h.Revoked == nil {
		return true
	}
	now := h.Now()
	_, caller := h.revocations.get(p.Caller, now)
	_, vacant := h.revocations.get(p.Vacant, now)
	return caller && vacant
}

// bar looks whether the keys of both ends are good. A caller whose key is
// revoked is refused; like a bad signature that tells nothing else, since who
// holds such a key may be anybody. A vacant whose key is revoked is closed,
// whatever its record says: the registry may not be the one that writes it.
func (h *Host) bar(ctx context.Context, r *request) error {
	if h.Revoked == nil {
		return nil
	}
	began := h.Now()
	caller, callerKnown := h.revocations.get(r.pair.Caller, began)
	vacant, vacantKnown := h.revocations.get(r.pair.Vacant, began)
	if !callerKnown || !vacantKnown {
		revoked, err := h.Revoked(ctx, r.pair.Caller, r.pair.Vacant)
		if err != nil {
			return h.fault(err)
		}
		caller, vacant = revoked[0], revoked[1]
		h.revocations.put(r.pair.Caller, caller, began)
		h.revocations.put(r.pair.Vacant, vacant, began)
	}
	r.closed = vacant
	if caller {
		r.barred = problem.New(problem.Revoked, "the key of sender %s was revoked; it can call nobody here", r.pair.Caller.Short())
	}
	return nil
}

// state is the vacant's: SUNK if its key is revoked and its record does not say
// that it is closed.
func (r *request) state() lifecycle.State {
	if r.closed && !r.vacant.State.Closed() {
		return lifecycle.Sunk
	}
	return r.vacant.State
}
