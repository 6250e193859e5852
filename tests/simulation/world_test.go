package simulation

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	priced "github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

const (
	due   = call.DefaultCallTimeout + call.GracePeriod // from the append until others may void
	price = 10

	// Costs of a model's turn, in micro-dollars: reserved before it, spent by it,
	// and the budgets of a day.
	reserved, cost, dayBudget, hostBudget = 20, 8, 50, 70
)

// The keys are the same in every run: making them is a third of a short run.
var callerKey, vacantKey, outsiderKey = mustKey(1), mustKey(2), mustKey(3)

func mustKey(n byte) *identity.Key {
	k, err := identity.KeyFromSeed(append(make([]byte, identity.Size-1), n))
	if err != nil {
		panic(err)
	}
	return k
}

// config is the part of a world that a seed determines, apart from the
// schedule.
type config struct {
	callers  []callerConfig
	priced   bool
	money    int64
	shards   int
	tokens   bool // the price is by tokens
	free     bool // no account pays for the caller until the world is quiet
	faults   int  // how many faults may happen
	eager    int  // one in so many chances is taken
	attacks  int  // how many envelopes a stranger replays
	crashes  bool // tasks may die
	ticks    bool // time passes between any two steps
	owner    bool // the vacant is paused and resumed
	closed   bool // the vacant is a closed child of the caller, and unrelated callers try it
	paid     bool // the vacant's model costs money, within its daily budget
	skew     [2]time.Duration
	steps    int
	hostCold int // one in so many requests meets a new process; 0 none
}

type callerConfig struct {
	reference  bool
	jobs       int
	skew       time.Duration
	freshReset bool // begins with a reset, as after another device
}

func (c config) String() string {
	var b strings.Builder
	for _, x := range c.callers {
		kind := "ours"
		if x.reference {
			kind = "reference"
		}
		fmt.Fprintf(&b, "%s (%d jobs, clock %+v, reset first %v), ", kind, x.jobs, x.skew, x.freshReset)
	}
	fmt.Fprintf(&b, "priced %v, money %d in %d, by tokens %v, free %v, faults %d (1 in %d), attacks %d, crashes %v, ticks %v, owner %v, closed %v, paid %v, host clocks %v, cold 1 in %d, %d steps",
		c.priced, c.money, c.shards, c.tokens, c.free, c.faults, c.eager, c.attacks, c.crashes, c.ticks, c.owner, c.closed, c.paid, c.skew, c.hostCold, c.steps)
	return b.String()
}

func one[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// randomConfig draws worlds like the model.
func randomConfig(r *rand.Rand) config {
	c := config{
		priced: r.IntN(10) < 6, money: one(r, int64(10), 20, 200),
		faults: r.IntN(9), eager: one(r, 2, 3, 6), attacks: r.IntN(9),
		crashes: r.IntN(10) < 7, ticks: r.IntN(10) < 7, owner: r.IntN(10) == 0,
		skew:  [2]time.Duration{one(r, 0, 0, -8*time.Second, 8*time.Second), one(r, 0, 0, 5*time.Second)},
		steps: one(r, 100, 250, 500), hostCold: one(r, 0, 0, 4),
	}
	const ours, reference = false, true
	kinds := one(r, []bool{ours}, []bool{ours}, []bool{ours}, []bool{reference}, []bool{reference}, []bool{ours, reference}, []bool{ours, ours})
	far := r.IntN(10) < 3
	for _, k := range kinds {
		x := callerConfig{reference: k, jobs: 1 + r.IntN(3), freshReset: r.IntN(10) == 0}
		switch {
		case far && k == reference:
			x.skew = 50 * call.MaxSkew
		case far:
			x.skew = one(r, -2*call.MaxSkew, 2*call.MaxSkew, 0)
		default:
			x.skew = one(r, 0, 0, -100*time.Second, 100*time.Second)
		}
		c.callers = append(c.callers, x)
	}
	c.closed = r.IntN(3) == 0
	c.shards, c.tokens, c.free = one(r, 1, 4, 16), r.IntN(3) == 0, r.IntN(3) == 0
	c.paid = r.IntN(3) == 0
	return c
}

// world is one run.
type world struct {
	t      *testing.T
	seed   uint64
	rng    *rand.Rand
	random io.Reader
	cfg    config
	mutant mutant
	trace  bool

	clock *calltest.Clock
	began time.Time
	store store.Store // what hosts see: stops at every call
	truth store.Store // the stored state
	texts *calltest.Texts
	// Of a world with prices.
	account  billing.Account
	price    *priced.Price // nil if calls are free
	linked   bool          // the account pays for the caller
	deposits int
	spend    *spend.Budgets // of the vacant's model; nil if it costs nothing
	money    int64          // paid in
	hosts    [2]*instance
	pair     call.Pair

	quiet     bool // faults have stopped
	callers   []*caller
	faults    int // left
	attacks   int // left
	tasks     int // made so far
	running   []*task
	exchanges []*exchange
	copies    []*packet      // requests in flight
	replies   []*packet      // replies in flight
	late      []func() error // writes in flight

	mu     sync.Mutex // guards points: hosts read in several goroutines
	points []*point

	seen  record
	wrong []string
	log   []string
}

func newWorld(t *testing.T, seed uint64, m mutant) *world {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &world{
		t: t, seed: seed, rng: rng, cfg: randomConfig(rng), mutant: m,
		random: rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)}),
		began:  time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC),
		truth:  memory.New(), texts: &calltest.Texts{},
		pair: call.Pair{Caller: callerKey.ID(), Vacant: vacantKey.ID()},
		seen: newRecord(),
	}
	w.clock = calltest.NewClock(w.began)
	w.faults, w.attacks = w.cfg.faults, w.cfg.attacks
	seen := w.truth
	if m.store != nil {
		seen = m.store(w, seen)
	}
	w.store = &calltest.Intercept{Store: seen, Handle: w.around}
	ctx := t.Context()
	for _, id := range []identity.ID{w.pair.Caller, w.pair.Vacant} {
		w.must(calltest.SetState(ctx, w.truth, id, lifecycle.Active))
	}
	if w.cfg.priced {
		w.openAccount()
	}
	if w.cfg.paid {
		w.spend = spend.New(store.Updater{Store: w.store, Rand: w.random, Wait: w.wait}, w.now, hostBudget)
	}
	for i := range w.hosts {
		w.hosts[i] = w.newInstance(i)
	}
	w.lookAtTip()
	for i, c := range w.cfg.callers {
		w.callers = append(w.callers, newCaller(w, i, c))
	}
	return w
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) now() time.Time { return w.clock.NowFunc(0)() }

// say adds a line to the trace.
func (w *world) say(format string, args ...any) {
	if w.trace {
		w.log = append(w.log, fmt.Sprintf("%9.3fs  ", w.now().Sub(w.began).Seconds())+fmt.Sprintf(format, args...))
	}
}

// violate records a broken invariant.
func (w *world) violate(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	w.wrong = append(w.wrong, s)
	w.say("VIOLATION %s", s)
}

// chance uses one of the remaining faults, or not.
func (w *world) chance() bool {
	if w.quiet || w.faults == 0 || w.rng.IntN(w.cfg.eager) > 0 {
		return false
	}
	w.faults--
	return true
}

// run plays the schedule and its quiet end.
func (w *world) run() {
	for _, c := range w.callers {
		w.startCaller(c, c.drive)
	}
	for range w.cfg.steps {
		if !w.step() {
			break
		}
	}
	w.calmDown()
	w.check()
}
