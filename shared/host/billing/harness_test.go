package billing_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// world is a host with accounts and one vacant that answers what it is told to.
type world struct {
	testing.TB
	store   store.Store
	clock   *calltest.Clock
	billing *billing.Billing
	self    identity.ID
	vacant  *identity.Key
	price   *price.Price
	tenant  string
	behave  call.Behaviour
}

var noon = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)

func newWorld(t testing.TB) *world { return newWorldOver(t, memory.New()) }

func newWorldOver(t testing.TB, s store.Store) *world {
	w := &world{TB: t, store: s, clock: calltest.NewClock(noon), self: identity.ID{0xaa}, vacant: newKey(t), price: &price.Price{Version: 1, Flat: 2000}}
	w.behave = func(_ context.Context, _ *call.Host, e envelope.Envelope) (envelope.Message, error) {
		if e.Payload.Text() == "fail" {
			return envelope.Message{}, problem.New(problem.BehaviourFailed, "it fails")
		}
		return envelope.Message{Role: envelope.RoleAgent, Parts: []string{"re " + e.Payload.Text()}}, nil
	}
	w.billing = w.instance(s)
	return w
}

// instance is the billing of another process over a store.
func (w *world) instance(s store.Store) *billing.Billing {
	return billing.New(billing.Config{
		Store: s, Now: w.clock.NowFunc(0), Rand: rand.Reader,
		MAC:  func(_ context.Context, b []byte) ([32]byte, error) { return sha256.Sum256(b), nil },
		Self: func(context.Context) (identity.ID, error) { return w.self, nil },
		Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
}

func newKey(t testing.TB) *identity.Key {
	t.Helper()
	k, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// host is a host over the world's store.
func (w *world) host() *call.Host { return w.hostOf(w.store, w.billing) }

func (w *world) hostOf(s store.Store, ledger call.Ledger) *call.Host {
	return call.New(call.Config{
		Store: s, Texts: &calltest.Texts{}, Now: w.clock.NowFunc(0), Rand: rand.Reader, Ledger: ledger,
		Self:      func(context.Context) (identity.ID, error) { return w.self, nil },
		Wait:      func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
		Directory: call.SingleVacant{ID: w.vacant.ID(), State: lifecycle.Active, Behaviour: w.behave, Signer: w.vacant, Price: w.price, Tenant: w.tenant},
	})
}

// account is an account with a credit.
func (w *world) account(tenant string, shards int, credit money.Amount) billing.Account {
	w.Helper()
	a, err := w.billing.OpenAccount(context.Background(), tenant, shards)
	w.must(err)
	if credit > 0 {
		_, _, err = w.billing.Credit(context.Background(), a.ID, credit, "first", "")
		w.must(err)
	}
	return a
}

// wantBalance requires what an account can spend.
func (w *world) wantBalance(a billing.Account, want money.Amount) {
	w.Helper()
	got, err := w.billing.Balance(context.Background(), &a)
	w.must(err)
	if got != want {
		w.Fatalf("balance = %s, want %s", got, want)
	}
}

// caller signs calls to the world's vacant.
type caller struct {
	*world
	key  *identity.Key
	last *envelope.Envelope
}

func (w *world) caller() *caller { return &caller{world: w, key: newKey(w)} }

// linked is a caller that an account pays for.
func (w *world) linked(a billing.Account, most money.Amount) *caller {
	w.Helper()
	c := w.caller()
	_, err := w.billing.Link(context.Background(), a.ID, c.claim(a.ID, most))
	w.must(err)
	return c
}

// claim is the caller's claim for an account, now.
func (c *caller) claim(account string, most money.Amount) string {
	c.Helper()
	one := claim.PaymentClaim{Host: c.self, Account: account, DailyCap: int64(most)}
	c.must(one.Sign(context.Background(), c.key, c.clock.NowFunc(0)()))
	return one.String()
}

// next signs the caller's next message.
func (c *caller) next(text string) *envelope.Envelope {
	c.Helper()
	e := &envelope.Envelope{From: c.key.ID(), To: c.vacant.ID(), Seq: 1, Time: c.clock.NowFunc(0)().Truncate(time.Microsecond),
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{text}}}
	if c.last != nil {
		e.Seq, e.Prev = c.last.Seq+1, c.last.Hash()
	}
	_, err := e.Sign(context.Background(), c.key)
	c.must(err)
	return e
}

// say sends the caller's next message, and keeps it as the last if it was accepted.
func (c *caller) say(h *call.Host, text string, by ...call.Credential) call.Outcome {
	c.Helper()
	e := c.next(text)
	o := call.Options{}
	if len(by) > 0 {
		o.Credential = by[0]
	}
	out := h.SendWith(context.Background(), identity.ID{}, e, o)
	if out.Position > 0 {
		c.last = e
	}
	return out
}

func (w *world) wantRefusal(what string, err error, want problem.Kind) {
	w.Helper()
	if !problem.Is(err, want) {
		w.Fatalf("%s = %v, want %v", what, err, want)
	}
}

func (w *world) wantOutcome(what string, out call.Outcome, want problem.Kind) {
	w.Helper()
	if want == 0 && out.Problem != nil || want != 0 && !problem.Is(out.Problem, want) {
		w.Fatalf("%s = %v, want %v", what, out.Problem, want)
	}
}

// row reads the request row of an outcome.
func (c *caller) row(position uint64) call.RequestRow {
	c.Helper()
	rows, err := c.store.Rows(context.Background(), call.Pair{Caller: c.key.ID(), Vacant: c.vacant.ID()}.Requests(), position, 1, store.Ascending)
	c.must(err)
	if len(rows) == 0 {
		c.Fatalf("row %d is missing", position)
	}
	r, err := call.DecodeRequest(rows[0])
	c.must(err)
	return r
}

func name(n int) string { return fmt.Sprintf("tenant-%d", n) }
