// Package spend keeps what models cost within the budgets of their vacants, tenants and
// host.
//
// The invariants: the most that a turn may cost is reserved before the turn is sent, in
// one commit in all budgets that it counts in, and no race exceeds one of them. What is
// reserved is spent until the turn's usage settles it, so what crashes is spent. A turn
// is reserved once and settled once, however often a commit is sent.
package spend

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Budgets of a day unless others are set.
const (
	DefaultVacant = models.Dollar
	DefaultTenant = 5 * models.Dollar
	DefaultHost   = 5 * models.Dollar
)

const (
	// leastOut is the shortest answer that is worth asking for, in tokens.
	leastOut = 16
	// leastIn is what a day must have left for a question, in tokens.
	leastIn = 1024
	// maxOpen bounds the reservations of crashed calls that a document lists.
	maxOpen = 500
	maxRace = 100 // tries of a reservation whose budget others keep changing
)

// Spend keeps the totals of a host. It is safe for concurrent use.
type Spend struct {
	store store.Updater
	now   func() time.Time
	host  models.Money
}

// New returns the totals in u's store. host is the budget of a day for all vacants
// without a tenant, whose models the operator pays.
func New(u store.Updater, now func() time.Time, host models.Money) *Spend {
	return &Spend{u, now, host}
}

// Payer is whose budgets a call counts in.
type Payer struct {
	Vacant identity.ID
	Tenant string
	Daily  models.Money // of the vacant, a day
	Call   models.Money // of the call; below 0: as the day's
}

func day(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// VacantKey is the total of a vacant's day, which is its Number in micro-dollars.
func VacantKey(id identity.ID, day string) store.Key {
	return store.Key{Partition: "spend#" + id.String(), Sort: day}
}

// VacantDays are the totals of all days of a vacant.
func VacantDays(id identity.ID) store.Range {
	return store.Range{Partition: VacantKey(id, "").Partition}
}

// DaysOf is the vacant whose VacantDays r is; ok is false if r is another range.
func DaysOf(r store.Range) (id identity.ID, ok bool) {
	rest, ok := strings.CutPrefix(r.Partition, "spend#")
	if !ok {
		return id, false
	}
	id, err := identity.ParseID(rest)
	return id, err == nil && r == VacantDays(id)
}

// sharedKey is the total of a day of all vacants of a tenant, or of all without one.
func sharedKey(tenant, day string) store.Key {
	if tenant == "" {
		return store.Key{Partition: "spend#host", Sort: day}
	}
	return store.Key{Partition: "spend#tenant#" + tenant, Sort: day}
}

// total is what the document of a vacant's day has beside its Number.
type total struct {
	Format int `json:"format"`
	// Open are the reservations that are not settled, by call.
	Open map[string]reservation `json:"open,omitempty"`
}

type reservation struct {
	Turn   int          `json:"turn"`
	Amount models.Money `json:"amount"`
}

const format = 1

func decode(d store.Doc) (t total, err error) {
	if d.Version > 0 {
		if err = json.Unmarshal(d.Data, &t); err != nil || t.Format != format {
			return t, problem.Wrap(problem.Damaged, err, "what a vacant has spent cannot be read")
		}
	}
	if t.Open == nil {
		t.Open = map[string]reservation{}
	}
	return t, nil
}

// CheckDay checks a document of VacantDays: no more is open than is spent.
func CheckDay(d store.Doc) error {
	t, err := decode(d)
	left := models.Money(d.Number)
	for _, r := range t.Open {
		if left -= r.Amount; r.Amount < 0 || left < 0 {
			err = problem.New(problem.Damaged, "more is reserved than is spent")
		}
	}
	return err
}

// blob is the document as the call id writes it.
func (t *total) blob(id string) []byte {
	for other := range t.Open {
		if len(t.Open) > maxOpen && other != id { // of a call that crashed: it stays spent
			delete(t.Open, other)
		}
	}
	t.Format = format
	b, err := json.Marshal(t)
	if err != nil {
		panic(err) // it is made of texts and numbers
	}
	return b
}

// Left is what a budget has left of a day.
type Left struct {
	Whose  string // a budget, for people
	Budget models.Money
	Spent  models.Money
}

// left are the day's budgets of a payer, and the document of the vacant's.
func (s *Spend) left(ctx context.Context, read reader, p Payer, day string) (vacant, shared Left, doc store.Doc, err error) {
	if doc, err = read(ctx, VacantKey(p.Vacant, day)); err != nil {
		return vacant, shared, doc, err
	}
	vacant = Left{"the agent's daily_budget", p.Daily, models.Money(doc.Number)}
	shared, err = s.shared(ctx, read, p.Tenant, day)
	return vacant, shared, doc, err
}

// reader is Doc of a store or of a store.Tx.
type reader func(context.Context, store.Key) (store.Doc, error)

func (s *Spend) shared(ctx context.Context, read reader, tenant, day string) (l Left, err error) {
	d, err := read(ctx, sharedKey(tenant, day))
	if err != nil {
		return l, err
	}
	l = Left{"the host's budget for models of a day", s.host, models.Money(d.Number)}
	if tenant != "" {
		l.Whose = "the budget for models of a day of tenant " + tenant
		l.Budget, err = budget(ctx, read, tenant)
	}
	return l, err
}

// Ready refuses a call that no budget of its day pays for any more, with kind
// BudgetSpent.
func (s *Spend) Ready(ctx context.Context, p Payer, price models.Price) error {
	vacant, shared, _, err := s.left(ctx, s.store.Store.Doc, p, day(s.now()))
	if err != nil {
		return store.Problem(err)
	}
	least := price.Cost(substrate.Usage{In: leastIn, Out: leastOut})
	for _, l := range []Left{vacant, shared} {
		if l.Budget-l.Spent < least {
			return problem.Wrap(problem.BudgetSpent, l, "%s", problem.BudgetSpent.Row().Text)
		}
	}
	return nil
}

// Error says which budget is spent, for the operator.
func (l Left) Error() string { return fmt.Sprintf("%s: %s of %s is spent", l.Whose, l.Spent, l.Budget) }

// Prices are those of an agent's models, and the version of the table that has them; 0
// if the agent itself does.
type Prices struct {
	Model, Fallback models.Price
	Version         int
}

// Call is what one call spends. It is for one goroutine.
type Call struct {
	Prices Prices

	spend *Spend
	payer Payer
	id    string
	turn  int          // that was reserved last
	spent models.Money // by the turns before it
	open  *turn        // the last turn, until the store knows what it cost
}

type turn struct {
	day      string
	price    models.Price
	reserved models.Money
	cost     models.Money // what is reserved until the usage is known
}

// Begin begins a call.
func (s *Spend) Begin(p Payer, prices Prices) *Call {
	return &Call{Prices: prices, spend: s, payer: p, id: rand.Text()}
}

// Cost is what the call has cost so far; a turn of which nothing is known, what was
// reserved.
func (c *Call) Cost() models.Money {
	if c.open == nil {
		return c.spent
	}
	return c.spent + c.open.cost
}

// Reserve pays for a turn of in tokens at most, before it is sent, and settles the one
// before. It returns how many tokens the model may say, at most out, by what is left.
// BudgetExceeded is too little for a turn.
func (c *Call) Reserve(ctx context.Context, fallback bool, in, out int) (int, error) {
	price, today := c.Prices.Model, day(c.spend.now())
	if fallback {
		price = c.Prices.Fallback
	}
	free := price.IsFree()
	if c.open != nil && (free || c.open.day != today) { // it is settled on its own day
		if err := c.End(ctx); err != nil {
			return 0, err
		}
	}
	if free {
		return out, nil
	}
	for try := 1; ; try++ {
		allowed, next, err := c.reserve(ctx, today, price, in, out)
		var bounds *store.BoundsError
		var known *problem.Error
		switch {
		case err == nil:
			c.spent, c.open = c.Cost(), next
			c.turn++
			return allowed, nil
		case errors.As(err, &bounds) && try < maxRace && c.spend.store.Backoff(ctx, try) == nil:
			// Others reserved at the same time: see what they left.
		case errors.As(err, &known):
			return 0, err
		case ctx.Err() != nil:
			return 0, substrate.Ended(ctx, "the agent")
		default:
			return 0, problem.Wrap(problem.SubstrateUnavailable, err, "what it may spend cannot be read or kept now")
		}
	}
}

func (c *Call) reserve(ctx context.Context, today string, price models.Price, in, out int) (allowed int, next *turn, err error) {
	back := models.Money(0) // what the turn before did not use
	if c.open != nil {
		back = c.open.reserved - c.open.cost
	}
	err = c.spend.store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		vacant, shared, doc, err := c.spend.left(ctx, tx.Doc, c.payer, today)
		if err != nil {
			return err
		}
		t, err := decode(doc)
		if err != nil {
			return err
		}
		if t.Open[c.id].Turn > c.turn {
			return nil // the try before was applied, and others have written since
		}
		vacant.Spent, shared.Spent = vacant.Spent-back, shared.Spent-back
		if allowed, err = c.affordable(price, in, out, vacant, shared); err != nil {
			return err
		}
		cost := price.Cost(substrate.Usage{In: in, Out: allowed})
		next = &turn{today, price, cost, cost}
		t.Open[c.id] = reservation{c.turn + 1, cost}
		c.add(tx, doc, &t, cost-back, shared.Budget)
		return nil
	})
	return allowed, next, err
}

// add changes both totals of a day. Less is always taken.
func (c *Call) add(tx *store.Tx, doc store.Doc, t *total, add, most models.Money) {
	if add <= 0 {
		most = math.MaxInt64
	}
	tx.Put(store.Doc{Key: doc.Key, Number: doc.Number + int64(add), Data: t.blob(c.id)})
	if add != 0 {
		tx.Add(store.Add{Key: sharedKey(c.payer.Tenant, doc.Key.Sort), Delta: int64(add), Max: int64(most)})
	}
}

// affordable is how much the model may say by what is left in all budgets.
func (c *Call) affordable(price models.Price, in, out int, all ...Left) (int, error) {
	least := price.Cost(substrate.Usage{In: in, Out: min(out, leastOut)})
	if c.payer.Call >= 0 {
		all = append(all, Left{"the agent's budget of a call", c.payer.Call, c.Cost()})
	}
	for _, l := range all {
		left := l.Budget - l.Spent
		if left < least {
			return 0, problem.New(problem.BudgetExceeded, "%s is %s, of which %s is left, and the next turn costs %s at least", l.Whose, l.Budget, max(left, 0), least)
		}
		if rest := left - price.Cost(substrate.Usage{In: in}); price.Out > 0 {
			out = min(out, int(rest*models.Dollar/price.Out))
		}
	}
	return out, nil
}

// Settle notes what the turn that was reserved last used. More than was reserved is
// absurd, and not believed.
func (c *Call) Settle(u substrate.Usage) {
	if c.open != nil {
		c.open.cost = min(c.open.price.Cost(u), c.open.reserved)
	}
}

// Release notes that the turn that was reserved last was refused by its server, which
// costs nothing.
func (c *Call) Release() { c.Settle(substrate.Usage{}) }

// End settles the last turn in the store. What it could not settle stays spent.
func (c *Call) End(ctx context.Context) error {
	if c.open == nil {
		return nil
	}
	back := c.open.reserved - c.open.cost
	if back > 0 {
		err := c.spend.store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			doc, err := tx.Doc(ctx, VacantKey(c.payer.Vacant, c.open.day))
			if err != nil {
				return err
			}
			t, err := decode(doc)
			if err != nil {
				return err
			}
			if t.Open[c.id].Turn != c.turn {
				return nil // it is settled, or the next turn was reserved and nobody heard of it
			}
			delete(t.Open, c.id)
			c.add(tx, doc, &t, -back, 0)
			return nil
		})
		if err != nil {
			return problem.Wrap(problem.SubstrateUnavailable, err, "what it has spent cannot be kept now")
		}
	}
	c.spent, c.open = c.Cost(), nil
	return nil
}
