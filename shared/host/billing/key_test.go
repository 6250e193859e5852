package billing_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

func TestNamesOfKeysArePrintableAndShort(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, 0)
	for name, ok := range map[string]bool{
		"": true, "ci": true, "Zoë’s laptop": true, strings.Repeat("ä", 64): true, strings.Repeat("a", 65): false,
		"a\nb": false, "a\x1b[2J": false, "a\u202eb": false, "a\u200bb": false, "\xff": false, " a": false, "a ": false, " ": false,
	} {
		k, _, err := w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{Name: name})
		if !ok {
			w.wantRefusal("a key with the name "+name, err, problem.Malformed)
			continue
		}
		w.must(err)
		_, err = w.billing.RevokeKey(t.Context(), nil, a.ID, k.ID)
		w.must(err)
		changes, err := w.billing.Changes(t.Context(), a.ID, 1, 100)
		w.must(err)
		last := changes[len(changes)-2:]
		if k.Name != name || last[0].Name != name || last[1].Name != name || last[0].Kind != billing.KeyMade || last[1].Kind != billing.KeyRevoked {
			t.Errorf("a key with the name %q has %q, and in the log %+v", name, k.Name, last)
		}
	}
	for _, most := range []money.Amount{-1, money.Max + 1} {
		_, _, err := w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{MaxPrice: most})
		w.wantRefusal("a bound out of bounds", err, problem.Malformed)
	}
}

// A call that may cost more than its key allows is refused before it is accepted, whatever
// the account has and the request allows.
func TestAKeysBoundRefusesACallThatMayCostMore(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", 1, 10_000)
	h := w.host()
	for most, want := range map[money.Amount]problem.Kind{0: 0, 1999: problem.PriceAboveMax, 2000: 0} {
		_, secret, err := w.billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{MaxPrice: most})
		w.must(err)
		r := httptest.NewRequest("POST", "/", nil)
		r.Header.Set("Authorization", "Bearer "+secret)
		payer, err := w.billing.Identify(t.Context(), r)
		w.must(err)
		allowed := 5 * money.Dollar
		out := w.caller().say(h, "hi", call.Credential{Payer: payer, MaxPrice: &allowed})
		w.wantOutcome("a call by a key with the bound "+most.String(), out, want)
		if want != 0 && (out.Position != 0 || len(out.PaymentOptions) == 0) {
			t.Errorf("the refused call is at position %d, ways to pay %s", out.Position, out.PaymentOptions)
		}
		key, err := w.billing.Authenticate(t.Context(), secret)
		w.must(err)
		_, err = w.billing.PlanPurchase(t.Context(), &key, 2000)
		if problem.Is(err, problem.PriceAboveMax) != (want != 0) {
			t.Errorf("a purchase by a key with the bound %s: %v", most, err)
		}
	}
	w.wantBalance(a, 6000)
}

// Keys that were stored before names and bounds read as keys without them.
func TestAKeyStoredBeforeNamesAndBoundsReadsAsBefore(t *testing.T) {
	const old = `{"format":1,"id":"k1","account":"a1","tenant":"acme","prefix":"vac_live_abcd","scopes":["call"],"cap":5,"created":"2026-01-02T03:04:05Z"}`
	k, err := billing.SecretDocs.Decode(store.Doc{Data: []byte(old)})
	if err != nil {
		t.Fatal(err)
	}
	again, err := billing.SecretDocs.Encode(k)
	if k.Name != "" || k.MaxPrice != 0 || k.DailyCap != 5 || err != nil || string(again) != old {
		t.Errorf("it reads as %+v, and is written as %s, %v", k, again, err)
	}
}
