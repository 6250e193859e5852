package spend_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// errorOf returns the error of a call that returns a value, too.
func errorOf[T any](_ T, err error) error { return err }

const (
	dollar = money.Dollar
	cent   = dollar / 100
)

// simple prices make a token of input cost a micro-dollar, and one of output ten.
var simple = models.Price{InputPrice: dollar, OutputPrice: 10 * dollar, CachedPrice: dollar / 10}

// bench is a host's spending, at a time that tests move.
type bench struct {
	*spend.Budgets
	store store.Store
	time  atomic.Pointer[time.Time]
}

func newBench(s store.Store, host money.Amount) *bench {
	b := &bench{store: s}
	b.at(time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC))
	b.Budgets = spend.New(store.Updater{Store: s, Rand: rand.Reader}, func() time.Time { return *b.time.Load() }, host)
	return b
}

func (b *bench) at(t time.Time) { b.time.Store(&t) }

func (b *bench) begin(daily, call money.Amount) *spend.Call {
	return b.BeginCall(spend.Payer{Vacant: identity.ID{1}, DailyBudget: daily, CallBudget: call}, spend.Prices{Model: simple, Fallback: models.Price{InputPrice: 2 * dollar, OutputPrice: 20 * dollar}, Version: 1})
}

// spent returns the spending of the vacant and of the host on a day.
func (b *bench) spent(t testing.TB, day string) (vacant, host money.Amount) {
	t.Helper()
	for key, to := range map[store.Key]*money.Amount{spend.VacantTotalKey(identity.ID{1}, day): &vacant, {Partition: "spend#host", Sort: day}: &host} {
		d, err := b.store.Doc(context.Background(), key)
		must(t, err)
		*to = money.Amount(d.Number)
	}
	return vacant, host
}

const today = "2026-05-06"

func (b *bench) wantSpent(t testing.TB, want money.Amount) {
	t.Helper()
	if vacant, host := b.spent(t, today); vacant != want || host != want {
		t.Errorf("the vacant has spent %d, the host %d; want %d", vacant, host, want)
	}
}

func TestATurnIsReservedAndSettled(t *testing.T) {
	b, ctx := newBench(memory.New(), 5*dollar), t.Context()
	c := b.begin(dollar, -1)
	out, err := c.Reserve(ctx, false, 1000, 500)
	if out != 500 || err != nil {
		t.Fatalf("Reserve() = %d, %v", out, err)
	}
	b.wantSpent(t, 6000)
	c.Settle(substrate.Usage{InputTokens: 900, CachedTokens: 400, OutputTokens: 100})
	if c.Cost() != 1540 {
		t.Errorf("Cost() = %d, want 500 + 40 + 1000", c.Cost())
	}
	b.wantSpent(t, 6000) // not told to the store yet
	must(t, errorOf(c.Reserve(ctx, true, 100, 10)))
	b.wantSpent(t, 1540+400) // by the fallback's price
	c.Release()
	must(t, errors.Join(c.End(ctx), c.End(ctx)))
	b.wantSpent(t, 1540)
	if c.Cost() != 1540 {
		t.Errorf("Cost() = %d in the end, want 1540", c.Cost())
	}
}

// What crashed, or said nothing of its usage, or something absurd, is spent as it was
// reserved.
func TestWhatIsNotSettledIsSpent(t *testing.T) {
	for name, then := range map[string]func(c *spend.Call) error{
		"a crash":  func(*spend.Call) error { return nil },
		"no usage": func(c *spend.Call) error { return c.End(t.Context()) },
		"absurd usage": func(c *spend.Call) error {
			c.Settle(substrate.Usage{InputTokens: 1 << 60, OutputTokens: 1 << 60})
			return c.End(t.Context())
		},
	} {
		b := newBench(memory.New(), 5*dollar)
		c := b.begin(dollar, -1)
		must(t, errorOf(c.Reserve(t.Context(), false, 1000, 500)))
		if err := then(c); err != nil || c.Cost() != 6000 {
			t.Errorf("%s: %v, cost %d, want 6000", name, err, c.Cost())
		}
		b.wantSpent(t, 6000)
	}
}

func TestATurnSaysNoMoreThanIsLeft(t *testing.T) {
	for name, tt := range map[string]struct {
		daily, call, host money.Amount
		out               int
		refused           string
	}{
		"enough":               {dollar, -1, dollar, 5000, ""},
		"the vacant's day":     {cent, -1, dollar, 900, ""},
		"the host's day":       {dollar, -1, cent, 900, ""},
		"the call":             {dollar, cent, dollar, 900, ""},
		"just enough":          {1160, -1, dollar, 16, ""},
		"too little":           {1159, -1, dollar, 0, "the agent's daily_budget: $0.001159 of $0.001159 is left, the next turn costs at least $0.00116"},
		"too little of a call": {dollar, 1159, dollar, 0, "the agent's budget of a call: $0.001159 of"},
		"too little of a host": {dollar, -1, 1159, 0, "the host's daily budget for models: $0.001159 of"},
		"nothing":              {0, -1, dollar, 0, "the agent's daily_budget: $0 of $0"},
	} {
		b := newBench(memory.New(), tt.host)
		out, err := b.begin(tt.daily, tt.call).Reserve(t.Context(), false, 1000, 5000)
		if out != tt.out || (err != nil) != (tt.refused != "") {
			t.Errorf("%s: Reserve() = %d, %v; want %d", name, out, err, tt.out)
		}
		if tt.refused != "" && (!problem.Is(err, problem.BudgetExceeded) || !strings.Contains(err.Error(), tt.refused)) {
			t.Errorf("%s: %v, want %s", name, err, tt.refused)
		}
	}
}

// The turns before count in the budget of a call.
func TestACallEndsAtItsBudget(t *testing.T) {
	b := newBench(memory.New(), 5*dollar)
	c := b.begin(dollar, 10_000)
	for i, want := range []int{900, 450, 0} {
		out, err := c.Reserve(t.Context(), false, 1000, 900)
		if out != want || (err != nil) != (want == 0) {
			t.Errorf("turn %d: Reserve() = %d, %v; want %d", i+1, out, err, want)
		}
		c.Settle(substrate.Usage{InputTokens: 1000, OutputTokens: 350})
	}
	if c.Cost() != 9000 || c.End(t.Context()) != nil {
		t.Errorf("Cost() = %d, want 9000", c.Cost())
	}
	b.wantSpent(t, 9000)
}

// 64 calls for the last cent: as many are paid for as it pays for.
func TestNoRaceExceedsABudget(t *testing.T) {
	for name, budgets := range map[string][2]money.Amount{"of a vacant": {cent, dollar}, "of a host": {dollar, cent}} {
		b := newBench(memory.New(), budgets[1])
		var paid, refused atomic.Int64
		var at sync.WaitGroup
		for range 64 {
			at.Go(func() {
				c := b.begin(budgets[0], -1)
				out, err := c.Reserve(t.Context(), false, 500, 100)
				switch {
				case err == nil:
					paid.Add(int64(500 + 10*out))
				case problem.Is(err, problem.BudgetExceeded):
					refused.Add(1)
				default:
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		at.Wait()
		vacant, host := b.spent(t, today)
		if int64(vacant) != paid.Load() || vacant != host || vacant > cent || refused.Load() == 0 || vacant < cent-660 {
			t.Errorf("%s: %d was paid and %d, %d counted; %d calls were refused; want almost %d", name, paid.Load(), vacant, host, refused.Load(), cent)
		}
	}
}

// Whatever becomes of commits, no budget is exceeded, what is spent is never less than
// what the calls say they cost, and no more if nobody crashed.
func TestMoneyIsCountedOnceWhateverBecomesOfCommits(t *testing.T) {
	for seed := range uint64(60) {
		r := mathrand.New(mathrand.NewPCG(seed, 1))
		var mu sync.Mutex
		lossy := &storetest.Lossy{Store: memory.New()}
		lossy.ChooseFault = func(op string, _ []store.Write) storetest.Fault {
			mu.Lock()
			defer mu.Unlock()
			if op != "Commit" || r.IntN(3) > 0 {
				return storetest.NoFault
			}
			return []storetest.Fault{storetest.Lost, storetest.Unacknowledged, storetest.Twice}[r.IntN(3)]
		}
		b := newBench(lossy, 5*dollar)
		var costs atomic.Int64
		var lost atomic.Bool
		var at sync.WaitGroup
		for i := range 4 {
			at.Go(func() {
				r := mathrand.New(mathrand.NewPCG(seed, uint64(i+2)))
				c := b.begin(20_000, -1)
				for range r.IntN(4) {
					if _, err := c.Reserve(t.Context(), false, 500, 50+r.IntN(100)); err != nil {
						lost.Store(lost.Load() || !problem.Is(err, problem.BudgetExceeded))
						break
					}
					if r.IntN(4) > 0 {
						c.Settle(substrate.Usage{InputTokens: r.IntN(500), OutputTokens: r.IntN(150)})
					}
				}
				if c.End(t.Context()) != nil {
					lost.Store(true)
				}
				costs.Add(int64(c.Cost()))
			})
		}
		at.Wait()
		lossy.ChooseFault = func(string, []store.Write) storetest.Fault { return storetest.NoFault }
		vacant, host := b.spent(t, today)
		if vacant != host || int64(vacant) < costs.Load() || !lost.Load() && int64(vacant) > costs.Load() || vacant > 20_000 {
			t.Fatalf("seed %d: the calls cost %d; %d and %d are counted (a commit gave up: %v)", seed, costs.Load(), vacant, host, lost.Load())
		}
	}
}

// A reservation whose commit was applied without an answer remains spent, and the next
// reservation is another one.
func TestReserveAfterAReservationOfUnknownOutcome(t *testing.T) {
	unheard := false
	b := newBench(&storetest.Lossy{Store: memory.New(), ChooseFault: func(op string, _ []store.Write) storetest.Fault {
		if op == "Commit" && unheard {
			return storetest.Unacknowledged
		}
		return storetest.NoFault
	}}, 5*dollar)
	c := b.begin(dollar, -1)
	must(t, errorOf(c.Reserve(t.Context(), false, 1000, 100)))
	c.Settle(substrate.Usage{InputTokens: 500})
	unheard = true
	if _, err := c.Reserve(t.Context(), false, 100, 20); !problem.Is(err, problem.SubstrateUnavailable) {
		t.Fatalf("Reserve() = %v, want substrate_unavailable", err)
	}
	unheard = false
	if out, err := c.Reserve(t.Context(), false, 100, 30); out != 30 || err != nil {
		t.Errorf("Reserve() again = %d, %v; want 30", out, err)
	}
	c.Settle(substrate.Usage{InputTokens: 10})
	must(t, c.End(t.Context()))
	b.wantSpent(t, 500+300+10)
	if c.Cost() != 510 {
		t.Errorf("Cost() = %d, want 510", c.Cost())
	}
}

func TestATurnOverMidnightIsSettledOnItsDay(t *testing.T) {
	b := newBench(memory.New(), 5*dollar)
	b.at(time.Date(2026, 5, 6, 23, 59, 59, 0, time.UTC))
	c := b.begin(dollar, -1)
	must(t, errorOf(c.Reserve(t.Context(), false, 1000, 500)))
	c.Settle(substrate.Usage{InputTokens: 1000})
	b.at(time.Date(2026, 5, 7, 0, 0, 1, 0, time.UTC))
	must(t, errorOf(c.Reserve(t.Context(), false, 2000, 500)))
	c.Settle(substrate.Usage{InputTokens: 2000})
	must(t, c.End(t.Context()))
	b.wantSpent(t, 1000)
	if vacant, host := b.spent(t, "2026-05-07"); vacant != 2000 || host != 2000 || c.Cost() != 3000 {
		t.Errorf("the next day %d and %d are spent, the call cost %d; want 2000, 2000, 3000", vacant, host, c.Cost())
	}
}

func TestATenantPaysForItself(t *testing.T) {
	b, ctx := newBench(memory.New(), 0), t.Context()
	payer := spend.Payer{Vacant: identity.ID{1}, Tenant: "acme", DailyBudget: 10 * dollar, CallBudget: -1}
	reserve := func(in int) error {
		_, err := b.BeginCall(payer, spend.Prices{Model: simple}).Reserve(ctx, false, in, 16)
		return err
	}
	must(t, reserve(int(4*dollar)))
	if err := reserve(int(dollar)); !problem.Is(err, problem.BudgetExceeded) || !strings.Contains(err.Error(), "tenant acme: $0.99984 of $5 is left") {
		t.Errorf("Reserve() above the tenant's budget = %v", err)
	}
	got, err := b.SetBudget(ctx, "acme", 6*dollar)
	if want := (spend.Budget{Tenant: "acme", Daily: 6 * dollar, Spent: 4*dollar + 160, Day: today}); err != nil || got != want {
		t.Errorf("SetBudget() = %+v, %v; want %+v", got, err, want)
	}
	if err := reserve(int(dollar)); err != nil {
		t.Errorf("Reserve() within the new budget = %v", err)
	}
	if err := b.CheckBudget(ctx, payer, simple); err != nil {
		t.Errorf("Ready() = %v", err)
	}
	must(t, errorOf(b.SetBudget(ctx, "acme", 0)))
	if err := b.CheckBudget(ctx, payer, simple); !problem.Is(err, problem.BudgetSpent) || !strings.Contains(err.Error(), "tenant acme: $5.00032 of $0 is spent") {
		t.Errorf("Ready() without a budget = %v", err)
	}
	// Others are not touched.
	if err := b.CheckBudget(ctx, spend.Payer{Vacant: identity.ID{2}, Tenant: "other", DailyBudget: dollar, CallBudget: -1}, simple); err != nil {
		t.Errorf("Ready() of another tenant = %v", err)
	}
	if err := b.CheckBudget(ctx, spend.Payer{Vacant: identity.ID{2}, DailyBudget: dollar, CallBudget: -1}, simple); !problem.Is(err, problem.BudgetSpent) {
		t.Errorf("Ready() where the host has no budget = %v", err)
	}
	for whose, daily := range map[string]money.Amount{"": 5, "a b": 5, "acme": -1, "other": models.MaxBudget + 1} {
		if _, err := b.SetBudget(ctx, whose, daily); !problem.Is(err, problem.Malformed) {
			t.Errorf("SetBudget(%q, %d) = %v, want malformed", whose, daily, err)
		}
	}
}

// A free model needs no store at all.
func TestAFreeModelWritesNothing(t *testing.T) {
	s := &storetest.Lossy{Store: memory.New(), ChooseFault: func(op string, _ []store.Write) storetest.Fault {
		t.Errorf("%s for a free model", op)
		return storetest.NoFault
	}}
	c := newBench(s, 0).BeginCall(spend.Payer{Vacant: identity.ID{1}, CallBudget: -1}, spend.Prices{})
	out, err := c.Reserve(t.Context(), false, 1000, 500)
	if out != 500 || err != nil || c.End(t.Context()) != nil || c.Cost() != 0 {
		t.Errorf("Reserve() = %d, %v", out, err)
	}
}

// A first turn costs two commits of two writes, a further turn one: in a transaction of
// DynamoDB a write of a small item is two units.
func TestTurnsCostFewWrites(t *testing.T) {
	writes := 0
	s := &storetest.Lossy{Store: memory.New(), ChooseFault: func(_ string, w []store.Write) storetest.Fault {
		writes += len(w)
		return storetest.NoFault
	}}
	for turns, want := range map[int]int{1: 4, 2: 6, 16: 34} {
		writes = 0
		c := newBench(s, 5*dollar).begin(dollar, -1)
		for range turns {
			must(t, errorOf(c.Reserve(t.Context(), false, 100, 16)))
			c.Settle(substrate.Usage{InputTokens: 10, OutputTokens: 10})
		}
		if err := c.End(t.Context()); err != nil || writes != want {
			t.Errorf("%d turns: %v, %d writes, want %d", turns, err, writes, want)
		}
	}
}

func TestDamagedOrUnreadableTotalsPayForNothing(t *testing.T) {
	for _, key := range []store.Key{spend.VacantTotalKey(identity.ID{1}, today), {Partition: "budget", Sort: "tenant#acme"}} {
		s := memory.New()
		must(t, s.Commit(t.Context(), store.Put{Key: key, Data: []byte("{"), WriteID: store.WriteID{1}}))
		c := newBench(s, dollar).BeginCall(spend.Payer{Vacant: identity.ID{1}, Tenant: "acme", DailyBudget: dollar, CallBudget: -1}, spend.Prices{Model: simple})
		if _, err := c.Reserve(t.Context(), false, 10, 16); !problem.Is(err, problem.Damaged) {
			t.Errorf("Reserve() over a damaged %s = %v", key, err)
		}
	}
	gone := &storetest.Lossy{Store: memory.New(), ChooseFault: func(string, []store.Write) storetest.Fault { return storetest.Lost }}
	b := newBench(gone, dollar)
	if _, err := b.begin(dollar, -1).Reserve(t.Context(), false, 10, 16); !problem.Is(err, problem.SubstrateUnavailable) {
		t.Errorf("Reserve() without a store = %v", err)
	}
	if err := b.CheckBudget(t.Context(), spend.Payer{Vacant: identity.ID{1}, DailyBudget: dollar, CallBudget: -1}, simple); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Ready() without a store = %v", err)
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if _, err := b.begin(dollar, -1).Reserve(ctx, false, 10, 16); !problem.Is(err, problem.DeadlineExceeded) {
		t.Errorf("Reserve() after the deadline = %v", err)
	}
}

// Calls that crashed do not fill the document of their day.
func TestReservationsOfCrashedCallsAreBounded(t *testing.T) {
	b := newBench(memory.New(), 1000*dollar)
	for range 700 {
		must(t, errorOf(b.begin(1000*dollar, -1).Reserve(t.Context(), false, 100, 16)))
	}
	d, err := b.store.Doc(t.Context(), spend.VacantTotalKey(identity.ID{1}, today))
	if err != nil || len(d.Data) > 40<<10 || d.Number != 700*260 {
		t.Errorf("the document has %d bytes and %d, %v; want less than 40 KiB and %d", len(d.Data), d.Number, err, 700*260)
	}
	c := b.begin(1000*dollar, -1) // and the newest is among them
	must(t, errorOf(c.Reserve(t.Context(), false, 100, 16)))
	c.Release()
	must(t, c.End(t.Context()))
	b.wantSpent(t, 700*260)
}

func Example() {
	s := spend.New(store.Updater{Store: memory.New(), Rand: rand.Reader}, time.Now, spend.DefaultHostBudget)
	c := s.BeginCall(spend.Payer{Vacant: identity.ID{1}, DailyBudget: dollar, CallBudget: 5 * cent}, spend.Prices{Model: models.Price{InputPrice: 3 * dollar, OutputPrice: 15 * dollar, CachedPrice: 3 * dollar / 10}})
	out, _ := c.Reserve(context.Background(), false, 2000, 8192)
	c.Settle(substrate.Usage{InputTokens: 1200, OutputTokens: 300})
	fmt.Println(out, c.Cost())
	// Output: 2933 $0.0081
}
