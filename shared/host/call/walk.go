package call

import (
	"context"
	"sync"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// A walk consists of a first request, the root, and all calls that vacants make to answer it,
// directly or through other vacants. Each of these calls finds the root in its context. The limits
// of the root apply to the complete walk: Ledger.Quote gets the root's query, and reserve limits
// the sum of the payments. The sum is not stored, because a walk ends with its process (package
// billing).

// requestKey is the context key of the request whose behaviour is running.
type requestKey struct{}

func runningIn(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

func rootOf(ctx context.Context) *request {
	r := runningIn(ctx)
	if r != nil && r.root != nil {
		return r.root
	}
	return r
}

// walk records the payments of the root's account in its walk.
type walk struct {
	own money.Amount // hold of the root itself

	mu sync.Mutex
	// paid maps the hash of a call's envelope to the hold of the call, or to its charge after it is
	// decided. A resent envelope counts once.
	paid map[identity.Hash]money.Amount
}

func (r *request) limit() (limit money.Amount, limited bool) {
	if p := r.opts.Payer; p != nil && p.Most > 0 {
		limit, limited = p.Most, true
	}
	if most := r.opts.Most; most != nil && (!limited || *most < limit) {
		limit, limited = *most, true
	}
	return limit, limited
}

// reserve adds the hold of a call to the walk of the root r, unless the sum would exceed the root's
// limit.
func (r *request) reserve(call identity.Hash, hold money.Amount) error {
	limit, limited := r.limit()
	if !limited {
		return nil
	}
	r.walk.mu.Lock()
	defer r.walk.mu.Unlock()
	others := r.walk.own
	for hash, amount := range r.walk.paid {
		if hash != call {
			others += amount
		}
	}
	if others+hold > limit {
		return problem.New(problem.PriceAboveMax, "the call costs up to %s; the first request allows %s for itself and all calls that answer it, and has spent %s", hold, limit, others)
	}
	if r.walk.paid == nil {
		r.walk.paid = map[identity.Hash]money.Amount{}
	}
	r.walk.paid[call] = hold
	return nil
}

// settle replaces the hold of a call in the walk of the root r by the call's charge. If the outcome
// is unknown, the hold remains.
func (r *request) settle(out *Outcome) {
	r.walk.mu.Lock()
	defer r.walk.mu.Unlock()
	if _, counted := r.walk.paid[out.Hash]; !counted {
		return
	}
	switch {
	case out.Reply != nil:
		r.walk.paid[out.Hash] = out.Charge
	case out.State == Unanswered, out.Position == 0 && out.Problem.Kind != problem.Unavailable: // void, or never accepted
		delete(r.walk.paid, out.Hash)
	}
}
