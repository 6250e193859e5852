package faults

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/tests/caller"
	"github.com/vacancy-host/vacancy/tests/estimates"
	"github.com/vacancy-host/vacancy/tests/faultproxy"
	"github.com/vacancy-host/vacancy/tests/roundtrips"
)

// priced is a caller of a vacant with a price, whose calls an account pays for.
type priced struct {
	*fixture
	account billing.Account
}

// credit is the balance of a new account, in micro-dollars.
const credit = 1_000_000

func (h *fixture) money(s store.Store, now func() time.Time) *serve.Server {
	failing := func(string) (substrate.Substrate, error) {
		return substrate.Func(func(context.Context, substrate.Request) (string, error) { return "", errors.New("it fails") }), nil
	}
	kinds := h.kinds()
	kinds["failing"] = failing
	return h.Open(h.t, s, now, kinds)
}

// priced makes a vacant with a price, and a caller of it that is linked to an account
// with caps if most is not 0.
func (h *fixture) priced(name, substrate string, p price.Price, shards int, most money.Amount) *priced {
	h.t.Helper()
	ctx, server := h.t.Context(), h.money(h.Store(h.Endpoint), time.Now)
	r, err := server.Vacants.Create(ctx, vacants.CreateSpec{Name: name, Capability: "counts", Substrate: substrate})
	must(h.t, err)
	_, err = server.Vacants.SetPrice(ctx, r.ID, p)
	must(h.t, err)
	c := &priced{fixture: &fixture{Host: h.Host, t: h.t, vacant: r.ID, caller: caller.New(h.t, r.ID), asked: map[string]int{}}}
	if p.FreePerSigner > 0 {
		return c
	}
	c.account, err = server.Billing.OpenAccount(ctx, name, shards)
	must(h.t, err)
	_, _, err = server.Billing.Credit(ctx, c.account.ID, credit, "first", "")
	must(h.t, err)
	if most > 0 {
		_, err = server.Billing.SetDailyCap(ctx, c.account.ID, most)
		must(h.t, err)
	}
	self, err := server.Vacants.HostID(ctx)
	must(h.t, err)
	one := claim.PaymentClaim{Host: self, Account: c.account.ID, DailyCap: int64(most)}
	must(h.t, one.Sign(ctx, c.caller.Key, time.Now()))
	_, err = server.Billing.Link(ctx, c.account.ID, one.String())
	must(h.t, err)
	return c
}

func (h *priced) handlerOf(s store.Store) http.Handler {
	return serve.Public(h.money(s, time.Now).MessageHandler())
}

// swept sweeps at a time, and returns the units that the deletions of reminders consumed.
func (h *priced) swept(at time.Time) (units float64) {
	h.t.Helper()
	counter := &roundtrips.Counter{}
	server := h.money(h.Store(h.Endpoint, counter.Option), func() time.Time { return at })
	_, err := server.Billing.Sweep(h.t.Context(), server.Calls)
	must(h.t, err)
	for _, c := range counter.Calls() {
		if c.Operation == "DeleteItem" {
			units += c.WriteUnits
		}
	}
	return units
}

// balance returns the amount that the account can spend.
func (h *priced) balance() money.Amount {
	h.t.Helper()
	b, err := h.money(h.Store(h.Endpoint), time.Now).Billing.Balance(h.t.Context(), &h.account)
	must(h.t, err)
	return b
}

// The write units of a call with a price, its reminder's end included, whose rows are below
// a kilobyte.
func TestPricedCallsConsumeFewWriteUnits(t *testing.T) {
	base := newFixture(t)
	base.answered("the first of the day")
	// All sweeps have one time. A later sweep would skip the minutes of the one before, in which a
	// call has its reminder.
	still := time.Now()
	for i, tt := range []struct {
		name, substrate string
		price           price.Price
		caps            money.Amount
		status          int
		units           float64
	}{
		{"flat", "counting", price.Price{Flat: 2000}, 0, 200, estimates.PricedCall.WriteUnits},
		{"by tokens", "counting", price.Price{Flat: 5, InputPrice: money.Dollar, MaxCharge: 2000}, 0, 200, 11},
		{"a void", "failing", price.Price{Flat: 2000}, 0, 500, 11},
		{"a free call", "counting", price.Price{Flat: 2000, FreePerSigner: 5, FreePerAddress: 5, FreeTotal: 80}, 0, 200, 9},
		{"under two caps", "counting", price.Price{Flat: 2000}, 100_000, 200, 12},
		{"that is free", "counting", price.Price{}, 0, 200, 2},
	} {
		h := base.priced(fmt.Sprintf("units-%d", i), tt.substrate, tt.price, 4, tt.caps)
		counter := &roundtrips.Counter{}
		handler := serve.Public(h.money(h.Store(h.Endpoint, counter.Option), func() time.Time { return still }).MessageHandler())
		e := h.caller.Call("hi", still)
		if a := h.post(handler, caller.SendPath, e); a.Status != tt.status {
			t.Fatalf("%s: %v, want %d", tt.name, a, tt.status)
		}
		units := counter.WriteUnits() + h.swept(still.Add(3*time.Minute))
		t.Logf("%s: %v write units, %v read units", tt.name, units, counter.ReadUnits())
		if tt.name == "flat" && counter.ReadUnits() > estimates.PricedCall.ReadUnits {
			t.Errorf("%s consumed %v read units, the estimate is %v", tt.name, counter.ReadUnits(), estimates.PricedCall.ReadUnits)
		}
		if units != tt.units {
			t.Errorf("%s consumed %v write units, want %v", tt.name, units, tt.units)
		}
	}
}

// A call that is free takes what it took before there were prices; one with a price waits
// for one round trip more, warm, for who pays.
func TestAPricedCallWaitsForOneRoundTripMore(t *testing.T) {
	base := newFixture(t)
	base.answered("the first of the day")
	h := base.priced("trips", "counting", price.Price{Flat: 2000}, 4, 0)
	counter := &roundtrips.Counter{Hold: hold}
	still := time.Now()
	handler := serve.Public(h.money(h.Store(h.Endpoint, counter.Option), func() time.Time { return still }).MessageHandler())
	for _, tt := range []struct {
		name       string
		trips      int
		operations []string
	}{
		{"warm", 3, []string{"GetItem", "GetItem", "PutItem", "TransactWriteItems"}}, // the account, and revocation
		{"warm again", 3, []string{"GetItem", "GetItem", "PutItem", "TransactWriteItems"}},
	} {
		if tt.name == "warm" { // after a cold one
			e := h.caller.Call("cold", still)
			if a := h.post(handler, caller.SendPath, e); a.Status != 200 {
				t.Fatal(a)
			}
			h.caller.Accepted(e)
		}
		counter.Reset()
		e := h.caller.Call(tt.name, still)
		if a := h.post(handler, caller.SendPath, e); a.Status != 200 {
			t.Fatalf("%s: %v, want 200", tt.name, a)
		}
		h.caller.Accepted(e)
		got := counter.Operations()
		slices.Sort(got)
		if diff := cmp.Diff(tt.operations, got); diff != "" || counter.Trips() != tt.trips {
			t.Errorf("%s: %d round trips, want %d; requests (-want +got):\n%s", tt.name, counter.Trips(), tt.trips, diff)
		}
	}
}

// Every request of a call with a price fails once in every way, and its money is where its
// rows say.
func TestFaultInOneRequestOfAPricedCall(t *testing.T) {
	base := newFixture(t)
	base.answered("the first of the day")
	n := 0
	for _, r := range []request{
		{"a read of documents", "GetItem", 3}, {"another read of documents", "GetItem", 4},
		{"the accept", "TransactWriteItems", 1}, {"the answer", "PutItem", 1},
	} {
		for _, f := range faultproxy.Faults() {
			if n++; !storetest.InSample(n) {
				continue
			}
			name := fmt.Sprintf("fault-%d", n)
			t.Run(fmt.Sprintf("%s, %v", r.name, f), func(t *testing.T) {
				t.Parallel()
				h := &fixture{Host: base.Host, t: t, vacant: base.vacant, caller: base.caller, asked: map[string]int{}}
				p := h.priced(name, "counting", price.Price{Flat: 2000}, 1, 0)
				proxy := faultproxy.Start(t, h.Endpoint)
				proxy.Set(faultproxy.Rule{Operation: r.operation, Nth: r.nth, Fault: f, For: 20 * time.Millisecond})
				e := p.caller.Call(t.Name(), time.Now())
				first := p.post(p.handlerOf(p.faulty(proxy.URL, time.Second)), caller.SendPath, e)
				release(t, proxy)
				p.sound()
				p.swept(time.Now().Add(3 * time.Minute))
				again := p.post(p.handlerOf(p.Store(p.Endpoint)), caller.SendPath, e)
				want := money.Amount(credit)
				if first.Status == 200 || again.Status == 200 || again.State == "answered" {
					want -= 2000
				}
				if got := p.balance(); got != want {
					t.Errorf("call = %v, again %v; the balance is %d, want %d", first, again, got, want)
				}
				if n := p.ran(t.Name()); n > 1 {
					t.Errorf("it ran %d times", n)
				}
			})
		}
	}
}
