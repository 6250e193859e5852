package agp_test

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
)

const fee = money.Dollar / 4

// calls are the requests with a price, and their decisions.
func (n *network) calls() (requests []call.RequestRow, decisions []call.ResponseRow) {
	n.Helper()
	n.Must(n.Store.Walk(n.Context(), func(v store.View) error {
		streams, _, err := v.Streams(n.Context(), "", store.MaxPage, "")
		n.Must(err)
		for _, s := range streams {
			rows, err := v.Rows(n.Context(), s, 1, store.MaxPage, store.Ascending)
			n.Must(err)
			for _, row := range rows {
				switch s.Kind() {
				case store.KindRequest:
					r, err := call.DecodeRequest(row)
					n.Must(err)
					requests = append(requests, r)
				case store.KindResponse:
					r, err := call.DecodeResponse(row)
					n.Must(err)
					decisions = append(decisions, r)
				}
			}
		}
		return nil
	}))
	return requests, decisions
}

// A booking pays its venue: the row of the call says who paid, and how much.
func TestABookingPaysWhatItsVenueCharges(t *testing.T) {
	for what, p := range venuePrices {
		t.Run(what, func(t *testing.T) {
			n := open(t, true)
			n.priced("warung", p)
			before := n.balance()
			_, a := n.confirmed(n.pro, `{"venue_slug":"warung"}`)
			if want := fee + p.Charge(7, 3); before-n.balance() != want || a.text("price_usd") != "0.25" {
				t.Errorf("%s spent, want %s: %s", before-n.balance(), want, a.body)
			}
			if want := map[string]string{"free": "<nil>", "flat": "2.00", "by tokens": "3.00"}[what]; a.text("venue_price_usd") != want {
				t.Errorf("venue_price_usd = %s, want %s", a.text("venue_price_usd"), want)
			}
			requests, decisions := n.calls()
			if len(requests) != 1 || len(decisions) != 1 {
				t.Fatalf("%d requests, %d decisions", len(requests), len(decisions))
			}
			q, d := requests[0], decisions[0]
			if p.IsFree() {
				if q.PaidBy != call.Unpriced {
					t.Errorf("a free venue is paid by %d", q.PaidBy)
				}
			} else if q.PaidBy != call.PaidByAccount || hex.EncodeToString(q.Payer[:]) != n.acme.ID || q.PriceVersion != 1 || money.Amount(q.Price) != p.Hold() || money.Amount(d.Charge) != p.Charge(7, 3) {
				t.Errorf("paid by %d, %x, version %d, hold %d, charge %d", q.PaidBy, q.Payer, q.PriceVersion, q.Price, d.Charge)
			}
			n.WantWhole(n.Store)
		})
	}
}

// What a confirm may cost, with its venue, is within the balance, the caps and the request's
// maximum, or nothing is booked.
func TestABookingsCostWithItsVenueIsBounded(t *testing.T) {
	kept := &recorder{}
	n := open(t, true, func(c *serve.Config) {
		kept.Store = c.Store
		c.Store = kept
	})
	n.recorder = kept
	n.priced("warung", venuePrices["flat"])
	_, short := n.account("short", 2*money.Dollar, billing.KeyOptions{Tier: billing.Pro})
	_, enough := n.account("enough", 2*money.Dollar+fee, billing.KeyOptions{Tier: billing.Pro})
	below := n.Key(n.acme, billing.KeyOptions{Tier: billing.Pro, DailyCap: 2 * money.Dollar})
	bound := n.Key(n.acme, billing.KeyOptions{Tier: billing.Pro, MaxPrice: 2*money.Dollar + fee - 1})
	fits := n.Key(n.acme, billing.KeyOptions{Tier: billing.Pro, MaxPrice: 2*money.Dollar + fee})
	for _, c := range []struct {
		what, key, most string
		status          int
		code            string
	}{
		{"a balance below both", short, "", 402, "payment_required"},
		{"a cap below both", below, "", 402, "spend_cap_reached"},
		{"a maximum below both", n.pro, `,"max_price_usd":"2.24"`, 402, "price_above_max"},
		{"a key's bound below both", bound, "", 402, "price_above_max"},
		{"a key's bound below both, whatever the maximum", bound, `,"max_price_usd":"9"`, 402, "price_above_max"},
		{"a maximum below both, whatever the key's bound", fits, `,"max_price_usd":"2.24"`, 402, "price_above_max"},
		{"a key's bound of both", fits, "", 200, ""},
		{"a balance of both", enough, "", 200, ""},
		{"a maximum of both", n.pro, `,"max_price_usd":"2.25"`, 200, ""},
	} {
		asked := n.asked.Load()
		a := n.send(c.key, "booking.confirm", `{"venue_slug":"warung"`+c.most+`}`)
		n.want(c.what, a, c.status, c.code)
		if ran := n.asked.Load() > asked; ran != (c.status == 200) {
			t.Errorf("%s: the venue worked: %t", c.what, ran)
		}
		if c.most != "" && c.key != bound && c.status != 200 && !strings.Contains(a.body, "$0.25 and its venue up to $2") {
			t.Errorf("%s = %s", c.what, a.body)
		}
	}
	n.wantDetails(3)
}

// A venue whose price changes after a search is charged for at the price of the confirm, and
// one whose price changes after the confirm at the price that the confirm told.
func TestABookingsPriceIsThatOfItsConfirm(t *testing.T) {
	n := open(t, false) // nothing is dispatched until the sweeper does
	r := n.priced("warung", venuePrices["flat"])
	if a := n.send(n.pro, "booking.search", `{"query":"warung"}`); !strings.Contains(a.body, `"price_usd":"2.00"`) {
		t.Fatalf("search = %s", a.body)
	}
	set := func(p price.Price) {
		t.Helper()
		_, err := n.Server.Vacants.SetPrice(t.Context(), r.ID, p)
		n.Must(err)
	}
	set(price.Price{Flat: 4 * money.Dollar})
	n.want("a confirm at the price of the search", n.send(n.pro, "booking.confirm", `{"venue_slug":"warung","max_price_usd":2.25}`), 402, "price_above_max")
	before := n.balance()
	id, a := n.confirmed(n.pro, `{"venue_slug":"warung"}`, "Prefer: respond-async")
	if a.text("venue_price_usd") != "4.00" || before-n.balance() != fee+4*money.Dollar {
		t.Errorf("confirm = %s, %s held", a.body, before-n.balance())
	}
	set(price.Price{Flat: 9 * money.Dollar})
	n.sweep()
	n.sweep()
	if before-n.balance() != fee+4*money.Dollar {
		t.Errorf("%s spent, want the price of the confirm", before-n.balance())
	}
	// One that was free stays free for whom it was.
	set(price.Price{})
	free, _ := n.confirmed(n.pro, `{"venue_slug":"warung"}`, "Prefer: respond-async")
	set(price.Price{Flat: 9 * money.Dollar})
	n.sweep()
	n.sweep()
	if before-n.balance() != 2*fee+4*money.Dollar {
		t.Errorf("%s spent, want nothing for a venue that was free", before-n.balance())
	}
	for _, id := range []string{id, free} {
		n.eventually(id, "accepted")
	}
	n.WantWhole(n.Store)
}

// What a venue did not earn is given back: by each step that ends the wait for it.
func TestWhatAVenueDidNotEarnIsGivenBack(t *testing.T) {
	cancel := func(n *network, id string) {
		n.want("cancel", n.do("POST", "/v1/bookings/"+id+"/cancel", n.pro, "{}"), http.StatusOK, "")
	}
	for _, c := range []struct {
		what  string
		then  func(n *network, id string)
		spent money.Amount
		state string
	}{
		{"it expires", func(n *network, _ string) { n.Clock.Advance(time.Hour); n.sweep() }, 0, "expired"},
		{"it is cancelled before its venue hears", cancel, 0, "expired"},
		{"it is cancelled while it is sent", func(n *network, id string) {
			n.move(id, "dispatched")
			cancel(n, id)
			if n.balance() != 100*money.Dollar-fee {
				n.Errorf("a cancel leaves %s", n.balance())
			}
			for range 5 { // its call is refused: the venue works for no cancelled booking
				n.sweep()
			}
		}, 0, "rejected"},
		{"the operator accepts it for a venue that was not called", func(n *network, id string) {
			n.move(id, "dispatched")
			n.move(id, "accepted")
		}, fee, "accepted"},
		{"its venue is down", func(n *network, _ string) {
			n.said = func(string) (string, error) { return "", errDown }
			for range 45 {
				n.sweep()
			}
		}, 0, "rejected"},
		{"its venue has gone", func(n *network, _ string) {
			r, err := n.Server.Vacants.Find(n.Context(), vacants.OperatorAsker(), "warung")
			n.Must(err)
			_, err = n.Server.Vacants.Sink(n.Context(), r.ID)
			n.Must(err)
			for range 70 {
				n.sweep()
			}
		}, 0, "rejected"},
		{"its venue rejects it, for a reason of the host's", func(n *network, _ string) {
			n.said = func(string) (string, error) { return `{"decision":"reject","reason":"unreachable"}`, nil }
			for range 3 {
				n.sweep()
			}
		}, fee + 2*money.Dollar, "rejected"},
	} {
		t.Run(c.what, func(t *testing.T) {
			n := open(t, false)
			n.priced("warung", venuePrices["flat"])
			before := n.balance()
			starts := ""
			if c.state == "expired" {
				starts = `,"starts_at":"2026-11-24T13:00:00Z"`
			}
			id, _ := n.confirmed(n.pro, `{"venue_slug":"warung"`+starts+`}`, "Prefer: respond-async")
			if before-n.balance() != fee+2*money.Dollar {
				t.Fatalf("%s held", before-n.balance())
			}
			c.then(n, id)
			if got, _ := n.state(id); got != c.state || before-n.balance() != c.spent {
				t.Errorf("%s, %s spent, want %s, %s: %s", got, before-n.balance(), c.state, c.spent, n.do("GET", "/v1/bookings/"+id, n.pro, "").body)
			}
			n.WantWhole(n.Store)
		})
	}
}

// A dispatch that failed is paid for again by the account, or refused if it cannot pay.
func TestALaterDispatchIsPaidForAgain(t *testing.T) {
	for _, left := range []money.Amount{2 * money.Dollar, money.Dollar} {
		t.Run(left.String(), func(t *testing.T) {
			n := open(t, false)
			n.priced("warung", venuePrices["flat"])
			n.said = func(string) (string, error) { return "", errDown }
			id, _ := n.confirmed(n.pro, `{"venue_slug":"warung"}`, "Prefer: respond-async")
			n.sweep()
			n.sweep()
			n.eventually(id, "dispatch_failed")
			n.said = func(string) (string, error) { return "come", nil }
			if _, _, err := n.Server.Billing.Adjust(t.Context(), n.acme.ID, left-n.balance(), "adjusted", "for the test"); err != nil {
				t.Fatal(err)
			}
			asked := n.asked.Load()
			for range 45 {
				n.sweep()
			}
			want := map[money.Amount]string{2 * money.Dollar: "completed 0", money.Dollar: fmt.Sprint("rejected ", int64(money.Dollar+fee))}[left]
			if state, _ := n.state(id); fmt.Sprint(state, " ", int64(n.balance())) != want || n.asked.Load()-asked > 1 {
				t.Errorf("%s with %s, the venue worked %d times, want %s", state, n.balance(), n.asked.Load()-asked, want)
			}
			n.WantWhole(n.Store)
		})
	}
}
