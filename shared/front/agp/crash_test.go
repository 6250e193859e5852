package agp_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/keys/signingkey"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// dying is a store that dies at its n-th call from now on: nothing works after that, and
// the call itself is applied if late.
type dying struct {
	left atomic.Int64 // calls until it dies; below 0: it lives
	late bool
}

func (d *dying) decide(op string, _ []store.Write) storetest.Fault {
	for {
		n := d.left.Load()
		switch {
		case n < 0:
			return storetest.NoFault
		case n == 0:
			return storetest.Lost
		case d.left.CompareAndSwap(n, n-1):
			if n == 1 && d.late {
				return storetest.Unacknowledged
			}
			if n == 1 {
				return storetest.Lost
			}
			return storetest.NoFault
		}
	}
}

// TestAHostThatDiesLosesNoBookingAndNoMoney kills the host at each store call of a confirm
// and its dispatch. The sweeper completes what was begun, and whoever asks again finds it.
func TestAHostThatDiesLosesNoBookingAndNoMoney(t *testing.T) {
	const calls = 70 // more than a confirm has
	var lived atomic.Int64
	t.Run("calls", func(t *testing.T) {
		for at := int64(1); at <= calls; at++ {
			for _, late := range []bool{false, true} {
				for what, venue := range venuePrices {
					t.Run(fmt.Sprintf("%d applied %t, %s", at, late, what), func(t *testing.T) {
						t.Parallel()
						if !dies(t, at, late, venue) {
							lived.Add(1)
						}
					})
				}
			}
		}
	})
	if n := lived.Load(); n == 0 || n > 3*calls {
		t.Errorf("in %d of %d runs the host lived: the calls are too few, or it never died", n, 6*calls)
	}
}

// venuePrices are prices of the venue: what it charges for its answer of 7 tokens in and 3 out.
var venuePrices = map[string]price.Price{
	"free":      {},
	"flat":      {Flat: 2 * money.Dollar},
	"by tokens": {InputPrice: money.Dollar, OutputPrice: money.Dollar, MaxCharge: 3 * money.Dollar},
}

// dies kills the host at a store call, and reports whether it came to that.
func dies(t *testing.T, at int64, late bool, venue price.Price) (dead bool) {
	d := &dying{late: late}
	d.left.Store(-1)
	whole := memory.New()
	lossy := &storetest.Lossy{Store: whole, ChooseFault: d.decide}
	n := open(t, true, func(c *serve.Config) { c.Store = lossy })
	n.priced("warung", venue)
	before := n.balance()
	d.left.Store(at)
	const payload = `{"venue_slug":"warung","idempotency_key":"one"}`
	n.send(n.pro, "booking.confirm", payload, "Prefer: respond-async")
	time.Sleep(20 * time.Millisecond) // the worker begins
	dead = d.left.Load() == 0
	n.stop() // what the dead process still does has no effect
	n.stop = func() {}
	d.left.Store(-1)
	a := n.send(n.pro, "booking.confirm", payload, "Prefer: respond-async")
	if a.status != http.StatusOK {
		t.Fatalf("the same again = %d %s", a.status, a.body)
	}
	id := a.text("booking_id")
	for range 10 {
		n.sweep()
	}
	if got, _ := n.state(id); got != "accepted" && got != "completed" {
		t.Errorf("the booking is %s: %s", got, n.do("GET", "/v1/bookings/"+id, n.pro, "").body)
	}
	page, _, err := n.AGP.Bookings.ListAccountBookings(t.Context(), n.acme.ID, "", 100)
	n.Must(err)
	events, spent := n.events(n.pro), before-n.balance()
	if len(page) != 1 || fmt.Sprint(events) != "[25]" || spent != money.Dollar/4+venue.Charge(7, 3) {
		t.Errorf("%d bookings, events %v, %s spent", len(page), events, spent)
	}
	n.WantWhole(whole)
	// An answer that was not stored is void, and the booking is dispatched once more.
	if n.asked.Load() > 2 {
		t.Errorf("the venue worked %d times", n.asked.Load())
	}
	return dead
}

// TestADispatchIsRepeatedByTheKeyOfItsTime kills the host when the venue's answer is stored,
// and lets another key sign from then on. The dispatch is repeated with the same bytes, so the
// venue does not work again, and its answer counts.
func TestADispatchIsRepeatedByTheKeyOfItsTime(t *testing.T) {
	var dead atomic.Bool
	dies := true
	whole := memory.New()
	n := open(t, false, func(c *serve.Config) {
		c.Store = &storetest.Lossy{Store: whole, ChooseFault: func(_ string, writes []store.Write) storetest.Fault {
			if dead.Load() {
				return storetest.Lost
			}
			for _, w := range writes {
				if a, ok := w.(store.Append); ok && a.Stream.Kind() == store.KindResponse && dies {
					dead.Store(true) // after this commit
				}
			}
			return storetest.NoFault
		}}
	})
	n.priced("warung", price.Price{Flat: money.Dollar})
	key := func() identity.ID {
		s, err := n.Server.SigningKeys.Signer(t.Context(), n.Clock.NowFunc(0)())
		n.Must(err)
		return s.Certificate.Key
	}
	n.Must(n.Server.SigningKeys.RenewIfDue(t.Context()))
	n.Clock.Advance(signingkey.Lifetime / 2)
	n.Must(n.Server.SigningKeys.RenewIfDue(t.Context())) // makes the key of the next day
	n.Clock.Advance(24*time.Hour - 3*time.Minute)
	before, first := n.balance(), key()
	id, _ := n.confirmed(n.pro, `{"venue_slug":"warung"}`, "Prefer: respond-async")
	n.Clock.Advance(2 * time.Minute)
	_, _ = n.AGP.Bookings.Sweep(t.Context()) // dies
	if !dead.Load() {
		t.Fatal("the host lives on")
	}
	dies = false
	dead.Store(false)
	if got, _ := n.state(id); got != "dispatched" {
		t.Fatalf("the booking is %s, want dispatched", got)
	}
	n.Clock.Advance(10 * time.Minute)
	if key() == first {
		t.Fatal("the same key signs on")
	}
	n.sweep()
	if got, _ := n.state(id); got != "accepted" || n.asked.Load() != 1 {
		t.Errorf("the booking is %s, and the venue worked %d times; want accepted, and once", got, n.asked.Load())
	}
	if spent := before - n.balance(); spent != money.Dollar/4+money.Dollar {
		t.Errorf("%s spent", spent)
	}
}

func FuzzEnvelope(f *testing.F) {
	for _, s := range []string{
		`{"from":"a","intent":"network.ping"}`, `{"from_agent":"a","intent":"booking.search","payload":{"query":"x","limit":"5"},"ttl_ms":1e2,"agent_context":{"a":1}}`,
		`{"from":"a","intent":"booking.confirm","payload":{"venue_slug":"warung","starts_at":"2026-12-24T19:00:00Z","guest":{},"input":[],"max_price_usd":"0.25"}}`, `[]`, `{`,
	} {
		f.Add(s)
	}
	n := open(f, false)
	n.venue("warung", "echo", nil)
	f.Fuzz(func(t *testing.T, body string) {
		n.Clock.Advance(time.Second)
		a := n.do("POST", "/a2a/v1", n.ent, body, "Prefer: respond-async")
		if a.json == nil || a.status >= http.StatusInternalServerError {
			t.Errorf("%q = %d %s", body, a.status, a.body)
		}
		if a.status != http.StatusOK && (a.code() == "" || !strings.Contains(a.body, `"detail":`)) {
			t.Errorf("%q = %d %s", body, a.status, a.body)
		}
	})
}
