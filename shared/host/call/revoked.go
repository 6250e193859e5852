package call

import (
	"context"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// How long, and of how many callers, the host remembers whether their keys are
// revoked.
const (
	revokedTime  = time.Second
	revokedItems = 4096
)

// revocations remembers, for a moment, whose keys are revoked and whose are
// not: a busy caller costs one read a second and not one a call.
type revocations struct {
	mu sync.Mutex
	m  map[identity.ID]revocation
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

// barKnown reports whether barred needs no read.
func (h *Host) barKnown(caller identity.ID) bool {
	if h.Revoked == nil {
		return true
	}
	_, known := h.revocations.get(caller, h.Now())
	return known
}

// bar notes whether r's caller is barred, and fails only if nobody can tell:
// what is misdirected is told so first.
func (h *Host) bar(ctx context.Context, r *request) error {
	err := h.barred(ctx, r.env.From)
	if problem.Is(err, problem.Revoked) {
		r.barred, err = err, nil
	}
	return err
}

// barred refuses a caller whose key is revoked. Like a bad signature it tells
// nothing else: who holds such a key may be anybody.
func (h *Host) barred(ctx context.Context, caller identity.ID) error {
	if h.Revoked == nil {
		return nil
	}
	began := h.Now()
	revoked, known := h.revocations.get(caller, began)
	if !known {
		var err error
		if revoked, err = h.Revoked(ctx, caller); err != nil {
			return h.fault(err)
		}
		h.revocations.put(caller, revoked, began)
	}
	if revoked {
		return problem.New(problem.Revoked, "the key of sender %s was revoked; it can call nobody here", caller.Short())
	}
	return nil
}
