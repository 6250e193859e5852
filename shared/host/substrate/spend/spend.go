// Package spend limits the cost of models to the daily budgets of the vacant, its tenant and the
// host, and to the budgets of the call and its task.
//
// The maximum cost of a turn is reserved in all daily totals with one commit before the turn is
// sent, so concurrent calls cannot exceed a budget. A reservation counts as spent until the turn is
// settled, so after a crash a total can only be too high.
package spend

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	DefaultVacantBudget = money.Dollar
	DefaultTenantBudget = 5 * money.Dollar
	DefaultHostBudget   = 5 * money.Dollar
)

const (
	minInputTokens  = 1024
	minOutputTokens = 16
	// maxOpenReservations is needed, because crashed calls leave their reservations open.
	maxOpenReservations = 500
	maxReserveTries     = 100
)

// Budgets reads and writes the totals of a host. It is safe for concurrent use.
type Budgets struct {
	store store.Updater
	now   func() time.Time
	// hostBudget limits the vacants without a tenant and calls with Payer.ChargesHost.
	hostBudget money.Amount
}

func New(u store.Updater, now func() time.Time, hostBudget money.Amount) *Budgets {
	return &Budgets{u, now, hostBudget}
}

// Payer is the vacant to which a call is charged.
type Payer struct {
	Vacant identity.ID
	Tenant string
	// ChargesHost means that the host's total is charged too, because the operator pays for the
	// model.
	ChargesHost bool
	DailyBudget money.Amount
	CallBudget  money.Amount // unlimited if negative
	CostBefore  money.Amount
}

// chargedTenants returns the charged tenants, with "" for the host.
func (p Payer) chargedTenants() []string {
	if p.ChargesHost && p.Tenant != "" {
		return []string{p.Tenant, ""}
	}
	return []string{p.Tenant}
}

func formatDay(now time.Time) string { return now.UTC().Format(time.DateOnly) }

func VacantTotalKey(id identity.ID, day string) store.Key {
	return VacantTotalDocs.Key(id.String(), day)
}

func sharedTotalKey(tenant, day string) store.Key {
	if tenant == "" {
		return HostTotalDocs.Key(day)
	}
	return TenantTotalDocs.Key(tenant, day)
}

// vacantTotal lists the open reservations by call, so that a repeated commit recognizes its own
// reservation.
type vacantTotal struct {
	Reservations map[string]reservation `json:"open,omitempty"`
}

type reservation struct {
	Turn   int          `json:"turn"`
	Amount money.Amount `json:"amount"`
}

func CheckVacantTotal(d store.Doc) error {
	v, err := VacantTotalDocs.Parse(d)
	settled := money.Amount(d.Number)
	for _, r := range v.Reservations {
		if settled -= r.Amount; r.Amount < 0 || settled < 0 {
			err = problem.New(problem.Damaged, "open reservations exceed the total")
		}
	}
	return err
}

type balance struct {
	name          string
	key           store.Key
	budget, spent money.Amount
}

func (b balance) remainder() money.Amount { return b.budget - b.spent }

func (s *Budgets) loadBalances(ctx context.Context, reader store.Reader, p Payer, day string) (balances []balance, doc store.Doc, err error) {
	if doc, err = reader.Doc(ctx, VacantTotalKey(p.Vacant, day)); err != nil {
		return nil, doc, err
	}
	balances = []balance{{"the agent's daily_budget", doc.Key, p.DailyBudget, money.Amount(doc.Number)}}
	for _, owner := range p.chargedTenants() {
		b, err := s.loadSharedBalance(ctx, reader, owner, day)
		if err != nil {
			return nil, doc, err
		}
		balances = append(balances, b)
	}
	return balances, doc, nil
}

func (s *Budgets) loadSharedBalance(ctx context.Context, reader store.Reader, tenant, day string) (b balance, err error) {
	d, err := reader.Doc(ctx, sharedTotalKey(tenant, day))
	if err != nil {
		return b, err
	}
	b = balance{"the host's daily budget for models", d.Key, s.hostBudget, money.Amount(d.Number)}
	if tenant != "" {
		b.name = "the daily budget for models of tenant " + tenant
		b.budget, err = loadTenantBudget(ctx, reader, tenant)
	}
	return b, err
}

// CheckBudget returns an error of kind BudgetSpent if a budget does not cover even a small turn.
func (s *Budgets) CheckBudget(ctx context.Context, p Payer, price models.Price) error {
	balances, _, err := s.loadBalances(ctx, s.store.Store, p, formatDay(s.now()))
	if err != nil {
		return store.AsProblem(err)
	}
	minCost := price.Cost(substrate.Usage{InputTokens: minInputTokens, OutputTokens: minOutputTokens})
	for _, b := range balances {
		if b.remainder() < minCost {
			cause := fmt.Errorf("%s: %s of %s is spent", b.name, b.spent, b.budget)
			return problem.Wrap(problem.BudgetSpent, cause, "%s", problem.BudgetSpent.Forms().DefaultMessage)
		}
	}
	return nil
}

// Prices contains the prices of an agent's models. Version is 0 if only the agent states the price.
type Prices struct {
	Model, Fallback models.Price
	Version         int
}

// Call is the spending of one call. It must not be used concurrently.
type Call struct {
	Prices Prices

	budgets     *Budgets
	payer       Payer
	id          string
	turnCount   int
	settledCost money.Amount
	openTurn    *turn
}

type turn struct {
	number       int
	day          string
	price        models.Price
	reservedCost money.Amount
	cost         money.Amount
	taskTurn     *call.ModelTurn // nil if no budget of a task limits the turn
}

func (s *Budgets) BeginCall(p Payer, prices Prices) *Call {
	return &Call{Prices: prices, budgets: s, payer: p, id: rand.Text()}
}

// Cost returns the cost of the call so far. A turn with unknown usage costs its reservation.
func (c *Call) Cost() money.Amount {
	if c.openTurn == nil {
		return c.settledCost
	}
	return c.settledCost + c.openTurn.cost
}

// Reserve reserves a turn and settles the previous turn. It returns the number of output tokens
// that the budgets cover, at most outputTokens. If the budgets do not cover a turn, the error is
// BudgetExceeded.
func (c *Call) Reserve(ctx context.Context, fallback bool, inputTokens, outputTokens int) (allowedTokens int, err error) {
	price, today := c.Prices.Model, formatDay(c.budgets.now())
	if fallback {
		price = c.Prices.Fallback
	}
	if c.openTurn != nil && (price.IsFree() || c.openTurn.day != today) {
		if err := c.End(ctx); err != nil {
			return 0, err
		}
	}
	if price.IsFree() {
		return outputTokens, nil
	}
	c.turnCount++
	next := &turn{number: c.turnCount, day: today, price: price}
	if allowedTokens, err = c.reserveWithRetry(ctx, next, inputTokens, outputTokens); err == nil {
		c.settledCost, c.openTurn = c.Cost(), next
		return allowedTokens, nil
	}
	next.taskTurn.Settle(0)
	var problemErr *problem.Error
	switch {
	case errors.As(err, &problemErr):
		return 0, err
	case ctx.Err() != nil:
		return 0, substrate.ContextError(ctx, "the agent")
	}
	return 0, problem.Wrap(problem.SubstrateUnavailable, err, "the budgets cannot be read or written")
}

func (c *Call) reserveWithRetry(ctx context.Context, next *turn, inputTokens, outputTokens int) (allowedTokens int, err error) {
	minCost, maxCost := next.price.Cost(substrate.Usage{InputTokens: inputTokens, OutputTokens: min(outputTokens, minOutputTokens)}), next.price.Cost(substrate.Usage{InputTokens: inputTokens, OutputTokens: outputTokens})
	if next.taskTurn, err = call.BeginModelTurn(ctx, c.payer.Tenant, minCost, maxCost); err != nil {
		return 0, err
	}
	for try := 1; ; try++ {
		allowedTokens, err = c.commitReservation(ctx, next, inputTokens, outputTokens)
		var bounds *store.BoundsError
		if !errors.As(err, &bounds) || try == maxReserveTries || c.budgets.store.Backoff(ctx, try) != nil {
			return allowedTokens, err
		}
	}
}

func (c *Call) commitReservation(ctx context.Context, next *turn, inputTokens, outputTokens int) (allowedTokens int, err error) {
	err = c.budgets.store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		balances, doc, err := c.budgets.loadBalances(ctx, tx, c.payer, next.day)
		if err != nil {
			return err
		}
		v := vacantTotal{}
		if doc.Version > 0 {
			if v, err = VacantTotalDocs.Parse(doc); err != nil {
				return err
			}
		}
		if v.Reservations == nil {
			v.Reservations = map[string]reservation{}
		}
		if v.Reservations[c.id].Turn == next.number {
			return nil // the commit of an earlier try was applied
		}
		refund := c.unusedAmount(&v)
		for i := range balances {
			balances[i].spent -= refund
		}
		limits := slices.Clone(balances)
		if next.taskTurn != nil {
			limits = append(limits, balance{name: "the budget of the task", budget: next.taskTurn.Reserved})
		}
		if allowedTokens, err = c.limitOutputTokens(next.price, inputTokens, outputTokens, limits...); err != nil {
			return err
		}
		next.reservedCost = next.price.Cost(substrate.Usage{InputTokens: inputTokens, OutputTokens: allowedTokens})
		next.cost = next.reservedCost
		v.Reservations[c.id] = reservation{next.number, next.reservedCost}
		c.addToTotals(tx, doc, &v, next.reservedCost-refund, balances[1:])
		return nil
	})
	return allowedTokens, err
}

func (c *Call) unusedAmount(v *vacantTotal) money.Amount {
	if c.openTurn == nil || v.Reservations[c.id].Turn != c.openTurn.number {
		return 0
	}
	return c.openTurn.reservedCost - c.openTurn.cost
}

func (c *Call) addToTotals(tx *store.Tx, doc store.Doc, v *vacantTotal, amount money.Amount, shared []balance) {
	// Reservations of other calls beyond maxOpenReservations are dropped. Their amounts remain spent.
	for callID := range v.Reservations {
		if len(v.Reservations) > maxOpenReservations && callID != c.id {
			delete(v.Reservations, callID)
		}
	}
	VacantTotalDocs.Put(tx, store.Doc{Key: doc.Key, Number: doc.Number + int64(amount)}, *v)
	if amount == 0 {
		return
	}
	for _, b := range shared {
		// A refund is always accepted.
		limit := b.budget
		if amount < 0 {
			limit = math.MaxInt64
		}
		tx.AddWrites(store.Add{Key: b.key, Delta: int64(amount), Max: int64(limit)})
	}
}

func (c *Call) limitOutputTokens(price models.Price, inputTokens, outputTokens int, balances ...balance) (int, error) {
	if c.payer.CallBudget >= 0 {
		balances = append(balances, balance{name: "the agent's budget of a call", budget: c.payer.CallBudget, spent: c.payer.CostBefore + c.Cost()})
	}
	minCost := price.Cost(substrate.Usage{InputTokens: inputTokens, OutputTokens: min(outputTokens, minOutputTokens)})
	for _, b := range balances {
		if b.remainder() < minCost {
			return 0, problem.New(problem.BudgetExceeded, "%s: %s of %s is left, the next turn costs at least %s", b.name, max(b.remainder(), 0), b.budget, minCost)
		}
		if outputBudget := b.remainder() - price.Cost(substrate.Usage{InputTokens: inputTokens}); price.OutputPrice > 0 {
			outputTokens = min(outputTokens, int(outputBudget*money.Dollar/price.OutputPrice))
		}
	}
	return outputTokens, nil
}

// Settle charges the open turn for its usage, but at most the reservation.
func (c *Call) Settle(u substrate.Usage) {
	if c.openTurn != nil {
		c.openTurn.cost = min(c.openTurn.price.Cost(u), c.openTurn.reservedCost)
	}
	c.EndTurn()
}

// EndTurn settles the open turn in the budget of its task. A turn with unknown usage costs its
// reservation.
func (c *Call) EndTurn() {
	if c.openTurn != nil {
		c.openTurn.taskTurn.Settle(c.openTurn.cost)
	}
}

func (c *Call) Release() { c.Settle(substrate.Usage{}) }

// End writes the settlement of the last turn. If End fails, the reservation remains spent.
func (c *Call) End(ctx context.Context) error {
	if c.openTurn == nil {
		return nil
	}
	c.EndTurn()
	if c.openTurn.cost < c.openTurn.reservedCost {
		if err := c.budgets.store.Update(ctx, c.addSettlement); err != nil {
			return problem.Wrap(problem.SubstrateUnavailable, err, "the cost of a turn cannot be written")
		}
	}
	c.settledCost, c.openTurn = c.Cost(), nil
	return nil
}

func (c *Call) addSettlement(ctx context.Context, tx *store.Tx) error {
	v, doc, err := VacantTotalDocs.Get(ctx, tx, VacantTotalKey(c.payer.Vacant, c.openTurn.day))
	if err != nil {
		return err
	}
	if refund := c.unusedAmount(&v); refund > 0 {
		delete(v.Reservations, c.id)
		var shared []balance
		for _, owner := range c.payer.chargedTenants() {
			shared = append(shared, balance{key: sharedTotalKey(owner, c.openTurn.day)})
		}
		c.addToTotals(tx, doc, &v, -refund, shared)
	}
	return nil
}
