// Package spend limits the cost of models by the daily budgets of their vacant and of its tenant or
// host, by the budget of a call, and by the budget of a task (call.ModelTurn).
//
// The maximum cost of a turn is reserved in all daily totals with one commit before the turn is
// sent, so concurrent calls cannot exceed a budget. A reservation counts as spent until the turn's
// usage settles it, so after a crash a total can only be too high. Each reservation and each
// settlement is applied once, even if its commit is repeated.
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
	DefaultVacant = money.Dollar
	DefaultTenant = 5 * money.Dollar
	DefaultHost   = 5 * money.Dollar
)

const (
	// minIn and minOut are the tokens of the smallest turn for which a call is accepted.
	minIn  = 1024
	minOut = 16
	// maxOpen limits the open reservations in a document, because crashed calls leave their
	// reservations open.
	maxOpen = 500
	// maxTries limits the tries of Reserve while other calls use the same budget.
	maxTries = 100
)

// Spend reads and writes the totals of a host. It is safe for concurrent use.
type Spend struct {
	store store.Updater
	now   func() time.Time
	// host is the daily budget of all vacants without a tenant, for whose models the operator pays.
	host money.Amount
}

func New(u store.Updater, now func() time.Time, host money.Amount) *Spend {
	return &Spend{u, now, host}
}

// Payer is the vacant to which a call is charged, with its budgets.
type Payer struct {
	Vacant identity.ID
	Tenant string
	// Host means that the cost is charged to the host's total in addition to the tenant's, because the
	// operator pays for the model.
	Host        bool
	DailyBudget money.Amount // budget of the vacant
	CallBudget  money.Amount // budget of the call, unlimited if negative
	CostBefore  money.Amount // cost of the call's turns that other processes settled
}

// owners returns the tenants whose totals are charged, where "" is the host.
func (p Payer) owners() []string {
	if p.Host && p.Tenant != "" {
		return []string{p.Tenant, ""}
	}
	return []string{p.Tenant}
}

func day(now time.Time) string { return now.UTC().Format(time.DateOnly) }

func VacantKey(id identity.ID, day string) store.Key { return VacantDocs.Key(id.String(), day) }

func sharedKey(tenant, day string) store.Key {
	if tenant == "" {
		return HostDocs.Key(day)
	}
	return TenantDocs.Key(tenant, day)
}

// vacantDay is the data of a vacant's daily total. It lists the open reservations by call, so that
// a repeated commit recognizes its own reservation.
type vacantDay struct {
	Open map[string]reservation `json:"open,omitempty"`
}

type reservation struct {
	Turn   int          `json:"turn"`
	Amount money.Amount `json:"amount"`
}

func CheckDay(d store.Doc) error {
	v, err := VacantDocs.Parse(d)
	settled := money.Amount(d.Number)
	for _, r := range v.Open {
		if settled -= r.Amount; r.Amount < 0 || settled < 0 {
			err = problem.New(problem.Damaged, "open reservations exceed the total")
		}
	}
	return err
}

// balance is a budget and the spent amount.
type balance struct {
	name          string    // name for operators
	key           store.Key // key of the total
	budget, spent money.Amount
}

func (b balance) remainder() money.Amount { return b.budget - b.spent }

func (s *Spend) balances(ctx context.Context, from store.Reader, p Payer, day string) (budgets []balance, doc store.Doc, err error) {
	if doc, err = from.Doc(ctx, VacantKey(p.Vacant, day)); err != nil {
		return nil, doc, err
	}
	budgets = []balance{{"the agent's daily_budget", doc.Key, p.DailyBudget, money.Amount(doc.Number)}}
	for _, owner := range p.owners() {
		b, err := s.sharedBalance(ctx, from, owner, day)
		if err != nil {
			return nil, doc, err
		}
		budgets = append(budgets, b)
	}
	return budgets, doc, nil
}

func (s *Spend) sharedBalance(ctx context.Context, from store.Reader, tenant, day string) (b balance, err error) {
	d, err := from.Doc(ctx, sharedKey(tenant, day))
	if err != nil {
		return b, err
	}
	b = balance{"the host's daily budget for models", d.Key, s.host, money.Amount(d.Number)}
	if tenant != "" {
		b.name = "the daily budget for models of tenant " + tenant
		b.budget, err = budget(ctx, from, tenant)
	}
	return b, err
}

// CheckBudget returns an error of kind BudgetSpent if the budgets of the day do not cover even a small
// turn.
func (s *Spend) CheckBudget(ctx context.Context, p Payer, price models.Price) error {
	budgets, _, err := s.balances(ctx, s.store.Store, p, day(s.now()))
	if err != nil {
		return store.AsProblem(err)
	}
	least := price.Cost(substrate.Usage{In: minIn, Out: minOut})
	for _, b := range budgets {
		if b.remainder() < least {
			cause := fmt.Errorf("%s: %s of %s is spent", b.name, b.spent, b.budget)
			return problem.Wrap(problem.BudgetSpent, cause, "%s", problem.BudgetSpent.Row().Text)
		}
	}
	return nil
}

// Prices contains the prices of an agent's models. Version is the version of the table of models,
// or 0 if only the agent states the price.
type Prices struct {
	Model, Fallback models.Price
	Version         int
}

// Call is the spending of one call. It must not be used concurrently.
type Call struct {
	Prices Prices

	spend *Spend
	payer Payer
	id    string
	tries int          // number of turns that Reserve tried to reserve
	spent money.Amount // cost of settled turns
	open  *turn        // last turn, or nil if it is settled
}

// turn is a turn whose cost is reserved.
type turn struct {
	number   int // value of Call.tries for this turn
	day      string
	price    models.Price
	reserved money.Amount
	cost     money.Amount    // equals reserved until the usage is known
	task     *call.ModelTurn // nil if no budget of a task limits the turn
}

func (s *Spend) Begin(p Payer, prices Prices) *Call {
	return &Call{Prices: prices, spend: s, payer: p, id: rand.Text()}
}

// Cost returns the cost of the call so far. A turn with unknown usage costs its reservation.
func (c *Call) Cost() money.Amount {
	if c.open == nil {
		return c.spent
	}
	return c.spent + c.open.cost
}

// Reserve reserves a turn with the given maximum numbers of input and output tokens, and settles
// the previous turn. It returns the number of output tokens that the budgets cover, at most the
// given number. If the budgets do not cover a turn, the kind of the error is BudgetExceeded. For
// failures of the store it is Damaged, Deadline, Canceled or otherwise SubstrateUnavailable.
func (c *Call) Reserve(ctx context.Context, fallback bool, in, out int) (allowed int, err error) {
	price, today := c.Prices.Model, day(c.spend.now())
	if fallback {
		price = c.Prices.Fallback
	}
	if c.open != nil && (price.IsFree() || c.open.day != today) {
		if err := c.End(ctx); err != nil {
			return 0, err
		}
	}
	if price.IsFree() {
		return out, nil
	}
	c.tries++
	next := &turn{number: c.tries, day: today, price: price}
	if allowed, err = c.reserveTurn(ctx, next, in, out); err == nil {
		c.spent, c.open = c.Cost(), next
		return allowed, nil
	}
	next.task.Settle(0)
	var problemErr *problem.Error
	switch {
	case errors.As(err, &problemErr):
		return 0, err
	case ctx.Err() != nil:
		return 0, substrate.EndedError(ctx, "the agent")
	}
	return 0, problem.Wrap(problem.SubstrateUnavailable, err, "the budgets cannot be read or written")
}

func (c *Call) reserveTurn(ctx context.Context, next *turn, in, out int) (allowed int, err error) {
	least, maxCost := next.price.Cost(substrate.Usage{In: in, Out: min(out, minOut)}), next.price.Cost(substrate.Usage{In: in, Out: out})
	if next.task, err = call.BeginModelTurn(ctx, c.payer.Tenant, least, maxCost); err != nil {
		return 0, err
	}
	for try := 1; ; try++ {
		allowed, err = c.reserve(ctx, next, in, out)
		var bounds *store.BoundsError
		if !errors.As(err, &bounds) || try == maxTries || c.spend.store.Backoff(ctx, try) != nil {
			return allowed, err
		} // another call has used a shared budget, so the budgets are read again
	}
}

func (c *Call) reserve(ctx context.Context, next *turn, in, out int) (allowed int, err error) {
	err = c.spend.store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		budgets, doc, err := c.spend.balances(ctx, tx, c.payer, next.day)
		if err != nil {
			return err
		}
		v := vacantDay{}
		if doc.Version > 0 {
			if v, err = VacantDocs.Parse(doc); err != nil {
				return err
			}
		}
		if v.Open == nil {
			v.Open = map[string]reservation{}
		}
		if v.Open[c.id].Turn == next.number {
			return nil // the commit of an earlier try was applied
		}
		refund := c.refund(&v)
		for i := range budgets {
			budgets[i].spent -= refund
		}
		limits := slices.Clone(budgets)
		if next.task != nil {
			limits = append(limits, balance{name: "the budget of the task", budget: next.task.Reserved})
		}
		if allowed, err = c.affordableTokens(next.price, in, out, limits...); err != nil {
			return err
		}
		next.reserved = next.price.Cost(substrate.Usage{In: in, Out: allowed})
		next.cost = next.reserved
		v.Open[c.id] = reservation{next.number, next.reserved}
		c.add(tx, doc, &v, next.reserved-refund, budgets[1:])
		return nil
	})
	return allowed, err
}

// refund returns the unused part of the open turn's reservation. If the store no longer lists the
// reservation, it returns 0.
func (c *Call) refund(v *vacantDay) money.Amount {
	if c.open == nil || v.Open[c.id].Turn != c.open.number {
		return 0
	}
	return c.open.reserved - c.open.cost
}

func (c *Call) add(tx *store.Tx, doc store.Doc, v *vacantDay, amount money.Amount, shared []balance) {
	// Reservations of other calls beyond maxOpen are dropped. Their amounts remain spent.
	for other := range v.Open {
		if len(v.Open) > maxOpen && other != c.id {
			delete(v.Open, other)
		}
	}
	VacantDocs.Put(tx, store.Doc{Key: doc.Key, Number: doc.Number + int64(amount)}, *v)
	if amount == 0 {
		return
	}
	for _, b := range shared {
		// Each amount must be within the budget of its total, but a refund is always accepted.
		limit := b.budget
		if amount < 0 {
			limit = math.MaxInt64
		}
		tx.Add(store.Add{Key: b.key, Delta: int64(amount), Max: int64(limit)})
	}
}

func (c *Call) affordableTokens(price models.Price, in, out int, budgets ...balance) (int, error) {
	if c.payer.CallBudget >= 0 {
		budgets = append(budgets, balance{name: "the agent's budget of a call", budget: c.payer.CallBudget, spent: c.payer.CostBefore + c.Cost()})
	}
	least := price.Cost(substrate.Usage{In: in, Out: min(out, minOut)})
	for _, b := range budgets {
		if b.remainder() < least {
			return 0, problem.New(problem.BudgetExceeded, "%s: %s of %s is left, the next turn costs at least %s", b.name, max(b.remainder(), 0), b.budget, least)
		}
		if rest := b.remainder() - price.Cost(substrate.Usage{In: in}); price.Out > 0 {
			out = min(out, int(rest*money.Dollar/price.Out))
		}
	}
	return out, nil
}

// Settle sets the usage of the last turn. It ignores usage beyond the reservation.
func (c *Call) Settle(u substrate.Usage) {
	if c.open != nil {
		c.open.cost = min(c.open.price.Cost(u), c.open.reserved)
	}
	c.EndTurn()
}

// EndTurn ends the last turn with its current cost, which is its reservation if the usage is unknown.
func (c *Call) EndTurn() {
	if c.open != nil {
		c.open.task.Settle(c.open.cost)
	}
}

// Release settles the last turn without a cost, because the server did not process it.
func (c *Call) Release() { c.Settle(substrate.Usage{}) }

// End writes the settlement of the last turn. If it fails, the reservation remains spent.
func (c *Call) End(ctx context.Context) error {
	if c.open == nil {
		return nil
	}
	c.EndTurn()
	if c.open.cost < c.open.reserved {
		if err := c.spend.store.Update(ctx, c.settle); err != nil {
			return problem.Wrap(problem.SubstrateUnavailable, err, "the cost of a turn cannot be written")
		}
	}
	c.spent, c.open = c.Cost(), nil
	return nil
}

func (c *Call) settle(ctx context.Context, tx *store.Tx) error {
	v, doc, err := VacantDocs.Get(ctx, tx, VacantKey(c.payer.Vacant, c.open.day))
	if err != nil {
		return err
	}
	if refund := c.refund(&v); refund > 0 {
		delete(v.Open, c.id)
		var shared []balance // a refund needs no budget
		for _, owner := range c.payer.owners() {
			shared = append(shared, balance{key: sharedKey(owner, c.open.day)})
		}
		c.add(tx, doc, &v, -refund, shared)
	}
	return nil
}
