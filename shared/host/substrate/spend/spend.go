// Package spend limits what models cost: by the daily budgets of their vacant and of its
// tenant or host, by the budget of a call, and by the budget of a task (call.ModelTurn).
//
// The invariants: the highest possible cost of a turn is reserved before the turn is
// sent, by one commit to all daily totals, and no race exceeds a budget. A reservation
// counts as spent until the turn's usage settles it, so a crash only overstates a total.
// Each reservation and each settlement is applied once, however often its commit is sent.
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

// Default daily budgets.
const (
	DefaultVacant = money.Dollar
	DefaultTenant = 5 * money.Dollar
	DefaultHost   = 5 * money.Dollar
)

const (
	// minIn and minOut are the smallest turn in tokens that a call is accepted for.
	minIn  = 1024
	minOut = 16
	// maxOpen bounds the open reservations in a document. Crashed calls leave theirs.
	maxOpen = 500
	// maxTries bounds Reserve while other calls use up the same budget.
	maxTries = 100
)

// Spend reads and writes the totals of a host. It is safe for concurrent use.
type Spend struct {
	store store.Updater
	now   func() time.Time
	host  money.Amount
}

// New returns the totals in u's store. host is the daily budget of all vacants without a
// tenant; the operator pays for their models.
func New(u store.Updater, now func() time.Time, host money.Amount) *Spend {
	return &Spend{u, now, host}
}

// Payer is the vacant that a call is charged to, with its budgets.
type Payer struct {
	Vacant identity.ID
	Tenant string
	// Host charges the host's total too, although the vacant has a tenant: the operator
	// pays for the model.
	Host   bool
	Daily  money.Amount // of the vacant
	Call   money.Amount // of the call; negative for no limit
	Before money.Amount // cost of the call's turns that other processes settled
}

// owners are the owners of the shared totals: a tenant's name, or "" for the host.
func (p Payer) owners() []string {
	if p.Host && p.Tenant != "" {
		return []string{p.Tenant, ""}
	}
	return []string{p.Tenant}
}

func day(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// VacantKey is the key of a vacant's total of a day. Number is the total in
// micro-dollars.
func VacantKey(id identity.ID, day string) store.Key { return VacantDocs.Key(id.String(), day) }

// sharedKey is the key of a tenant's total of a day, or for "" of the host's.
func sharedKey(tenant, day string) store.Key {
	if tenant == "" {
		return HostDocs.Key(day)
	}
	return TenantDocs.Key(tenant, day)
}

// vacantDay is the data of a vacant's total. It lists the open reservations by call, so
// that a repeated commit recognizes its own.
type vacantDay struct {
	Open map[string]reservation `json:"open,omitempty"`
}

type reservation struct {
	Turn   int          `json:"turn"`
	Amount money.Amount `json:"amount"`
}

// CheckDay checks a document of VacantDocs: open reservations are part of the total.
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

// balance is a budget and its use.
type balance struct {
	name          string    // for operators
	key           store.Key // of the total
	budget, spent money.Amount
}

func (b balance) left() money.Amount { return b.budget - b.spent }

// balances reads the daily balances of a payer: of the vacant first, with its document.
func (s *Spend) balances(ctx context.Context, from store.Reader, p Payer, day string) (all []balance, doc store.Doc, err error) {
	if doc, err = from.Doc(ctx, VacantKey(p.Vacant, day)); err != nil {
		return nil, doc, err
	}
	all = []balance{{"the agent's daily_budget", doc.Key, p.Daily, money.Amount(doc.Number)}}
	for _, owner := range p.owners() {
		b, err := s.shared(ctx, from, owner, day)
		if err != nil {
			return nil, doc, err
		}
		all = append(all, b)
	}
	return all, doc, nil
}

// shared reads the daily balance of a tenant, or for "" of the host.
func (s *Spend) shared(ctx context.Context, from store.Reader, tenant, day string) (b balance, err error) {
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

// Ready returns an error of kind BudgetSpent if the budgets of the day do not cover even
// a small turn.
func (s *Spend) Ready(ctx context.Context, p Payer, price models.Price) error {
	all, _, err := s.balances(ctx, s.store.Store, p, day(s.now()))
	if err != nil {
		return store.Problem(err)
	}
	least := price.Cost(substrate.Usage{In: minIn, Out: minOut})
	for _, b := range all {
		if b.left() < least {
			cause := fmt.Errorf("%s: %s of %s is spent", b.name, b.spent, b.budget)
			return problem.Wrap(problem.BudgetSpent, cause, "%s", problem.BudgetSpent.Row().Text)
		}
	}
	return nil
}

// Prices are the prices of an agent's models. Version is the version of the table of
// models, or 0 if only the agent states the price.
type Prices struct {
	Model, Fallback models.Price
	Version         int
}

// Call is the spending of one call. It is for one goroutine.
type Call struct {
	Prices Prices

	spend *Spend
	payer Payer
	id    string
	tries int          // calls of Reserve
	spent money.Amount // by settled turns
	open  *turn        // the last turn; nil if it is settled
}

// turn is a reserved turn.
type turn struct {
	number   int // the call's tries
	day      string
	price    models.Price
	reserved money.Amount
	cost     money.Amount    // reserved, until the usage is known
	task     *call.ModelTurn // nil if the budget of a task does not bound the turn
}

// Begin begins the spending of a call.
func (s *Spend) Begin(p Payer, prices Prices) *Call {
	return &Call{Prices: prices, spend: s, payer: p, id: rand.Text()}
}

// Cost returns the cost of the call so far. A turn of unknown usage costs its
// reservation.
func (c *Call) Cost() money.Amount {
	if c.open == nil {
		return c.spent
	}
	return c.spent + c.open.cost
}

// Reserve reserves a turn of at most in input and out output tokens, and settles the turn
// before. If the budgets do not cover out, allowed is the number of output tokens that
// they cover. Errors are of kind BudgetExceeded if the budgets do not cover a turn,
// Damaged, Deadline, Canceled, or SubstrateUnavailable for other failures of the store.
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
	var known *problem.Error
	switch {
	case errors.As(err, &known):
		return 0, err
	case ctx.Err() != nil:
		return 0, substrate.Ended(ctx, "the agent")
	}
	return 0, problem.Wrap(problem.SubstrateUnavailable, err, "the budgets cannot be read or written")
}

// reserveTurn reserves next in the budget of its task and then in the daily budgets.
func (c *Call) reserveTurn(ctx context.Context, next *turn, in, out int) (allowed int, err error) {
	least, most := next.price.Cost(substrate.Usage{In: in, Out: min(out, minOut)}), next.price.Cost(substrate.Usage{In: in, Out: out})
	if next.task, err = call.BeginModelTurn(ctx, c.payer.Tenant, least, most); err != nil {
		return 0, err
	}
	for try := 1; ; try++ {
		allowed, err = c.reserve(ctx, next, in, out)
		var bounds *store.BoundsError
		if !errors.As(err, &bounds) || try == maxTries || c.spend.store.Backoff(ctx, try) != nil {
			return allowed, err
		} // else another vacant used up the shared budget meanwhile: read it again
	}
}

// reserve commits the reservation of next.
func (c *Call) reserve(ctx context.Context, next *turn, in, out int) (allowed int, err error) {
	err = c.spend.store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		all, doc, err := c.spend.balances(ctx, tx, c.payer, next.day)
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
			return nil // the commit of an earlier attempt was applied
		}
		refund := c.refund(&v)
		for i := range all {
			all[i].spent -= refund
		}
		limits := slices.Clone(all)
		if next.task != nil {
			limits = append(limits, balance{name: "the budget of the task", budget: next.task.Reserved})
		}
		if allowed, err = c.affordable(next.price, in, out, limits...); err != nil {
			return err
		}
		next.reserved = next.price.Cost(substrate.Usage{In: in, Out: allowed})
		next.cost = next.reserved
		v.Open[c.id] = reservation{next.number, next.reserved}
		c.add(tx, doc, &v, next.reserved-refund, all[1:])
		return nil
	})
	return allowed, err
}

// refund is the unused part of the open turn's reservation; 0 if the store does not list
// the reservation any more.
func (c *Call) refund(v *vacantDay) money.Amount {
	if c.open == nil || v.Open[c.id].Turn != c.open.number {
		return 0
	}
	return c.open.reserved - c.open.cost
}

// add adds an amount to the vacant's total and to the shared totals, each within its
// budget. A refund is always accepted.
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
		limit := b.budget
		if amount < 0 {
			limit = math.MaxInt64
		}
		tx.Add(store.Add{Key: b.key, Delta: int64(amount), Max: int64(limit)})
	}
}

// affordable returns how many output tokens all balances cover, at most out.
func (c *Call) affordable(price models.Price, in, out int, all ...balance) (int, error) {
	if c.payer.Call >= 0 {
		all = append(all, balance{name: "the agent's budget of a call", budget: c.payer.Call, spent: c.payer.Before + c.Cost()})
	}
	least := price.Cost(substrate.Usage{In: in, Out: min(out, minOut)})
	for _, b := range all {
		if b.left() < least {
			return 0, problem.New(problem.BudgetExceeded, "%s: %s of %s is left, the next turn costs at least %s", b.name, max(b.left(), 0), b.budget, least)
		}
		if rest := b.left() - price.Cost(substrate.Usage{In: in}); price.Out > 0 {
			out = min(out, int(rest*money.Dollar/price.Out))
		}
	}
	return out, nil
}

// Settle sets the usage of the last turn. Usage beyond the reservation is not believed.
func (c *Call) Settle(u substrate.Usage) {
	if c.open != nil {
		c.open.cost = min(c.open.price.Cost(u), c.open.reserved)
	}
	c.Keep()
}

// Keep ends the last turn with the cost that it has: its reservation, if its usage is unknown.
func (c *Call) Keep() {
	if c.open != nil {
		c.open.task.Settle(c.open.cost)
	}
}

// Release settles the last turn without a cost: the server did not process the turn.
func (c *Call) Release() { c.Settle(substrate.Usage{}) }

// End writes the settlement of the last turn. After an error the reservation remains
// spent.
func (c *Call) End(ctx context.Context) error {
	if c.open == nil {
		return nil
	}
	c.Keep()
	if c.open.cost < c.open.reserved {
		if err := c.spend.store.Update(ctx, c.settle); err != nil {
			return problem.Wrap(problem.SubstrateUnavailable, err, "the cost of a turn cannot be written")
		}
	}
	c.spent, c.open = c.Cost(), nil
	return nil
}

// settle adds the refund of the open turn to tx.
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
