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
// through other vacants. The limits of the root hold for the sum of the payments in the walk. The
// sum is not stored, because a walk ends with its process.

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
// vacant makes. Unless r is the root and the task has a budget, all vacants from the root to r
// must belong to the owner of the task.
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

// IsOwnTaskWork reports whether ctx belongs to a dispatched task and all vacants on the path of its
// calls belong to the task's owner.
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

// credential locks, because recheckPayer may change the credential concurrently.
func (r *request) credential() Credential {
	r.walk.mu.Lock()
	defer r.walk.mu.Unlock()
	return r.opts.Credential
}

type walk struct {
	rootHold money.Amount

	mu sync.Mutex
	// callCosts maps the envelope hash of a call to its hold or charge. A resent envelope counts
	// once.
	callCosts map[identity.Hash]money.Amount
	// modelCost includes the reservations of running model turns.
	modelCost    money.Amount
	runningTurns int
	turnEnded    chan struct{}
}

// sumPayments must be called with w.mu held.
func (w *walk) sumPayments(excluded identity.Hash) money.Amount {
	sum := w.rootHold
	for hash, amount := range w.callCosts {
		if hash != excluded {
			sum += amount
		}
	}
	return sum
}

// awaitTurnEnd must be called with w.mu held, which it releases while it waits.
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

// strictestLimit must be called with r.walk.mu held.
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

// reserve waits for running model turns if too little money is left, because they may release a
// part of their reservation.
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
		return problem.New(problem.PriceAboveMax, "the call costs up to %s, but the first request may spend %s on all calls together, and has already spent %s", hold, limit, spent)
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

// recordCharge replaces the hold of a call with its charge. If the outcome is unknown, the hold
// remains.
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

// ModelTurn is not safe for concurrent use.
type ModelTurn struct {
	Reserved money.Amount

	walk      *walk
	cost      money.Amount
	isRunning bool
}

// BeginModelTurn reserves the amount, or what is left, in the budget of the task. If less than
// minAmount is left after all other turns have ended, the error has kind BudgetExceeded. If no
// budget limits the turn, BeginModelTurn returns nil.
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
		return nil, problem.New(problem.BudgetExceeded, "the task's budget is too small for the next turn: %s of %s is left, but the turn costs at least %s", max(reserved, 0), *root.opts.MaxPrice, minAmount)
	}
	w.modelCost += reserved
	if w.runningTurns++; w.turnEnded == nil {
		w.turnEnded = make(chan struct{})
	}
	return &ModelTurn{Reserved: reserved, walk: w, cost: reserved, isRunning: true}, nil
}

// Settle ends the turn and sets its cost. A repeated call only changes the cost. If t is nil,
// Settle has no effect.
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
