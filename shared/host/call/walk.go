package call

import (
	"context"
	"sync"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// A walk is a first request, the root, and all calls that vacants make to answer it, directly or
// through other vacants. Each of these calls finds the root in its context. The limits of the root
// hold for the complete walk: Ledger.Quote gets the root's query, and reserve bounds the sum of the
// payments, which is not stored because a walk ends with its process (package billing).

// requestKey is the context key of the request whose behaviour runs.
type requestKey struct{}

// runningIn returns the request whose behaviour runs in ctx, or nil.
func runningIn(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

// rootOf returns the root of the walk that ctx belongs to, or nil for a first request.
func rootOf(ctx context.Context) *request {
	r := runningIn(ctx)
	if r != nil && r.root != nil {
		return r.root
	}
	return r
}

// walk holds the payments of a root's account in its walk.
type walk struct {
	own money.Amount // hold of the root itself

	mu sync.Mutex
	// paid maps the hash of a call's envelope to the hold of the call, or to its charge once it is
	// decided. An envelope that is sent again counts once.
	paid map[identity.Hash]money.Amount
}

// limit returns the most that the account of a root may pay in its walk.
func (r *request) limit() (limit money.Amount, limited bool) {
	if p := r.opts.Payer; p != nil && p.Most > 0 {
		limit, limited = p.Most, true
	}
	if most := r.opts.Most; most != nil && (!limited || *most < limit) {
		limit, limited = *most, true
	}
	return limit, limited
}

// reserve counts the hold of a call in the walk of a root, unless the sum would exceed the root's
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

// settle replaces the hold of a call in the walk of a root by what the call cost. If the outcome is
// unknown, the hold still counts.
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
