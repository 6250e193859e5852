package call

import (
	"cmp"
	"context"
	"math"
	"sync"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// A walk is a first request, the root, and all calls that vacants make to answer it, directly or
// through other vacants. Each of these calls finds the root in its context. The limits of the root
// hold for the complete walk. Ledger.Quote gets the root (QuoteRequest.Root), and reserve limits
// the sum of the payments. The sum is not stored, because a walk ends with its process (package
// billing).
//
// The account of a dispatched task also pays for the calls of agents in its walk
// (taskPaysForCalls). If the account owns the vacant of the task, the budget of the task also
// limits the cost of the models of the account's tenant (ModelTurn).

// requestKey is the context key of the request whose behaviour is running.
type requestKey struct{}

func requestFrom(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

func rootOf(ctx context.Context) *request {
	r := requestFrom(ctx)
	if r != nil && r.root != nil {
		return r.root
	}
	return r
}

func IsTestWalk(ctx context.Context) bool {
	root := rootOf(ctx)
	if root == nil {
		return false
	}
	p := root.credential().Payer
	return p != nil && p.Test
}

// taskPaysForCalls reports whether the account of a dispatched task pays for the calls that r's
// vacant makes to answer r. If r is the root, the account pays if it owns the root's vacant or the
// task has a budget. Otherwise, the account pays only if it owns the root's vacant and all vacants
// from the root to r have the same tenant.
func (r *request) taskPaysForCalls() bool {
	root := cmp.Or(r.root, r)
	switch cred := root.credential(); {
	case !cred.IsTaskTurn || cred.Payer == nil:
		return false
	case r == root:
		return cred.IsOwnVacant || cred.MaxPrice != nil
	default:
		return cred.IsOwnVacant && r.vacant.Tenant == root.vacant.Tenant && r.callingRequest.taskPaysForCalls()
	}
}

// IsOwnTaskWork reports whether ctx belongs to a dispatched task whose owner owns the vacant: to a
// turn of the task, or to a call in its walk. All vacants from the root to the call must have the
// same tenant.
func IsOwnTaskWork(ctx context.Context) bool {
	r := requestFrom(ctx)
	return r != nil && r.isInOwnTask()
}

func (r *request) isInOwnTask() bool {
	root := cmp.Or(r.root, r)
	cred := root.credential()
	return cred.IsTaskTurn && cred.IsOwnVacant && (r == root || r.vacant.Tenant == root.vacant.Tenant && r.callingRequest.isInOwnTask())
}

func RecheckCredential(ctx context.Context) error {
	if r := rootOf(ctx); r != nil {
		return r.recheckPayer(ctx)
	}
	return nil
}

func (r *request) recheckPayer(ctx context.Context) error {
	cred := r.credential()
	if r.opts.RefreshPayer == nil || cred.Payer == nil {
		return nil
	}
	p := *cred.Payer
	if err := r.opts.RefreshPayer(ctx, &p); err != nil {
		return err
	}
	r.walk.mu.Lock()
	defer r.walk.mu.Unlock()
	r.opts.Payer = &p
	return nil
}

// credential returns the credential of r. Calls in the walk of r may refresh the credential
// concurrently (recheckPayer).
func (r *request) credential() Credential {
	r.walk.mu.Lock()
	defer r.walk.mu.Unlock()
	return r.opts.Credential
}

// walk holds the cost of a root and its walk.
type walk struct {
	rootHold money.Amount // hold of the root itself

	mu sync.Mutex
	// callCosts maps the hash of a call's envelope to the hold of the call, or to its charge after it
	// is decided. A resent envelope counts once.
	callCosts map[identity.Hash]money.Amount
	// modelCost is the cost of model turns, including the reservations of running turns. turnEnded is
	// closed when a running turn ends.
	modelCost    money.Amount
	runningTurns int
	turnEnded    chan struct{}
}

// sumPayments returns the sum of the payments of a walk, without the call whose hash is excluded.
// The caller must hold w.mu.
func (w *walk) sumPayments(excluded identity.Hash) money.Amount {
	sum := w.rootHold
	for hash, amount := range w.callCosts {
		if hash != excluded {
			sum += amount
		}
	}
	return sum
}

// awaitTurnEnd waits until a model turn ends. The caller must hold w.mu, which awaitTurnEnd
// releases while it waits.
func (w *walk) awaitTurnEnd(ctx context.Context) error {
	turnEnded := w.turnEnded
	w.mu.Unlock()
	defer w.mu.Lock()
	select {
	case <-turnEnded:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// strictestLimit returns the limit of the root r that leaves the least money for a call. spent is
// the cost of other calls that counts toward this limit. The caller must hold r.walk.mu.
func (r *request) strictestLimit(callHash identity.Hash) (limit, spent money.Amount) {
	limit, spent = math.MaxInt64, r.walk.sumPayments(callHash)
	if p := r.opts.Payer; p != nil && p.MaxWalkCost > 0 {
		limit = p.MaxWalkCost
	}
	if callerLimit := r.opts.MaxPrice; callerLimit != nil && *callerLimit-r.walk.modelCost < limit {
		limit, spent = *callerLimit, spent+r.walk.modelCost
	}
	return limit, spent
}

// reserve counts the hold of a call in the walk of the root r, unless the sum would exceed the
// root's limit. If too little is left, it first waits for running model turns, because a turn that
// ends releases the unused part of its reservation.
func (r *request) reserve(ctx context.Context, callHash identity.Hash, hold money.Amount) error {
	w := &r.walk
	w.mu.Lock()
	defer w.mu.Unlock()
	limit, spent := r.strictestLimit(callHash)
	for hold > limit-spent && w.runningTurns > 0 {
		if err := w.awaitTurnEnd(ctx); err != nil {
			return err
		}
		limit, spent = r.strictestLimit(callHash)
	}
	if hold > limit-spent {
		return problem.New(problem.PriceAboveMax, "the call costs up to %s; the first request allows %s for itself and all calls that answer it, and has spent %s", hold, limit, spent)
	}
	if w.callCosts == nil {
		w.callCosts = map[identity.Hash]money.Amount{}
	}
	w.callCosts[callHash] = hold
	return nil
}

func (r *request) walkCost() money.Amount {
	r.walk.mu.Lock()
	defer r.walk.mu.Unlock()
	return r.walk.sumPayments(identity.Hash{}) - r.walk.rootHold + r.walk.modelCost
}

// recordCharge replaces the hold of a call in the walk of the root r with the call's charge. If the
// outcome is unknown, the hold remains.
func (r *request) recordCharge(out *Outcome) {
	r.walk.mu.Lock()
	defer r.walk.mu.Unlock()
	if _, isInWalk := r.walk.callCosts[out.Hash]; !isInWalk {
		return
	}
	switch {
	case out.Reply != nil:
		r.walk.callCosts[out.Hash] = out.Charge
	case out.State == Unanswered, out.Position == 0 && out.Problem.Kind != problem.Unavailable: // void, or never accepted
		delete(r.walk.callCosts, out.Hash)
	}
}

// ModelTurn is a turn of a model whose cost the budget of a task limits. It is not safe for
// concurrent use.
type ModelTurn struct {
	Reserved money.Amount // maximum cost of the turn

	walk      *walk
	cost      money.Amount // cost of the turn in the walk
	isRunning bool         // whether the turn is still running
}

// BeginModelTurn begins a model turn of a tenant's vacant in the call that runs in ctx. It reserves
// the amount in the budget of the call's task. If less than the amount is left, it waits for other
// turns to end, and then reserves the rest of the budget. If the rest is below minAmount, the error
// has kind BudgetExceeded. If ctx ends, the error is ctx.Err(). If no budget limits the turn,
// BeginModelTurn returns nil.
func BeginModelTurn(ctx context.Context, tenant string, minAmount, amount money.Amount) (*ModelTurn, error) {
	root := rootOf(ctx)
	if root == nil || !root.opts.IsOwnVacant || root.opts.MaxPrice == nil || root.vacant.Tenant != tenant {
		return nil, nil
	}
	w := &root.walk
	w.mu.Lock()
	defer w.mu.Unlock()
	remaining := func() money.Amount { return *root.opts.MaxPrice - w.sumPayments(identity.Hash{}) - w.modelCost }
	for remaining() < amount && w.runningTurns > 0 {
		if err := w.awaitTurnEnd(ctx); err != nil {
			return nil, err
		}
	}
	reserved := min(remaining(), amount)
	if reserved < minAmount {
		return nil, problem.New(problem.BudgetExceeded, "the budget of the task: %s of %s is left, the next turn costs at least %s", max(reserved, 0), *root.opts.MaxPrice, minAmount)
	}
	w.modelCost += reserved
	if w.runningTurns++; w.turnEnded == nil {
		w.turnEnded = make(chan struct{})
	}
	return &ModelTurn{Reserved: reserved, walk: w, cost: reserved, isRunning: true}, nil
}

// Settle ends the turn, sets its cost, and wakes the calls and turns that wait for it. Further
// calls only change the cost. If t is nil, Settle has no effect.
func (t *ModelTurn) Settle(cost money.Amount) {
	if t == nil {
		return
	}
	t.walk.mu.Lock()
	defer t.walk.mu.Unlock()
	t.walk.modelCost += cost - t.cost
	t.cost = cost
	if t.isRunning {
		t.isRunning = false
		t.walk.runningTurns--
		close(t.walk.turnEnded)
		t.walk.turnEnded = make(chan struct{})
	}
}
