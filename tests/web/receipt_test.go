package web

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/vacant/certificate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/receipt"
)

// The module accepts the receipts that Go accepts, and refuses each damaged one.
func TestReceiptsVerifyAsByGo(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 8000, time.UTC)
	host, key, other := keyOf(t, 1), keyOf(t, 2), keyOf(t, 3)
	certified := func(host *identity.Key, from, until time.Time) certificate.Signer {
		c, err := certificate.New(t.Context(), host, key.ID(), from, until)
		must(t, err)
		return certificate.Signer{Signer: key, Certificate: c}
	}
	signed := func(s certificate.Signer, change func(*receipt.Receipt)) receipt.Receipt {
		r := receipt.Receipt{
			Caller: keyOf(t, 4).ID(), Vacant: keyOf(t, 5).ID(), Position: 7, RequestHash: identity.Sum([]byte("request")), ReplyHash: identity.Sum([]byte("reply")),
			Time: "2026-03-04T05:06:07.000000+00:00", PriceVersion: 3, Price: "$0.002 a call, é\u2028\U0001F600", Hold: 2000, Charge: 1_500, TokensIn: 1 << 52, Payment: "account",
		}
		change(&r)
		must(t, r.Sign(t.Context(), s, at))
		return r
	}
	same := func(*receipt.Receipt) {}
	good := certified(host, at.Add(-time.Hour), at.Add(time.Hour))
	after := func(change func(*receipt.Receipt)) receipt.Receipt {
		r := signed(good, same)
		change(&r)
		return r
	}
	all := []receipt.Receipt{
		signed(good, same), signed(good, func(r *receipt.Receipt) { r.CutReason = "canceled" }), signed(certified(host, at, at.Add(time.Microsecond)), same),
		signed(certified(host, at.Add(-time.Hour), at), same), signed(certified(host, at.Add(time.Microsecond), at.Add(time.Hour)), same),
		after(func(r *receipt.Receipt) { r.Charge++ }), after(func(r *receipt.Receipt) { r.CutReason = "length" }), after(func(r *receipt.Receipt) { r.Payment = "free" }),
		after(func(r *receipt.Receipt) { r.ReplyHash = identity.Sum(nil) }), after(func(r *receipt.Receipt) { r.Host = other.ID() }), after(func(r *receipt.Receipt) { r.Certificate.Host = other.ID() }),
		after(func(r *receipt.Receipt) { r.Certificate.Key = other.ID() }), after(func(r *receipt.Receipt) { r.Certificate.ValidUntil = "2036-03-04T05:06:07.000000+00:00" }),
		after(func(r *receipt.Receipt) { r.SignedAt = "2026-03-04T05:06:07.000009+00:00" }), after(func(r *receipt.Receipt) { r.Signature = strings.Repeat("0", 128) }),
		after(func(r *receipt.Receipt) { r.Certificate.Signature = r.Signature }), after(func(r *receipt.Receipt) { r.Signature = r.Certificate.Signature }),
		after(func(r *receipt.Receipt) {
			r.Host, r.Certificate = other.ID(), certified(other, at, at.Add(time.Hour)).Certificate
		}),
	}
	inputs := make([]string, len(all))
	for i := range all {
		b, err := json.Marshal(all[i])
		must(t, err)
		inputs[i] = string(b)
	}
	verified := 0
	for i, got := range ask(t, newModule(t), "receipt", inputs) {
		err := all[i].Verify()
		if err == nil {
			verified++
		}
		if (err == nil) != (got.Error == "") || err == nil && got.Host != host.ID().String() {
			t.Errorf("receipt %d: the module says %+v, Go %v", i, got, err)
		}
	}
	if verified != 3 {
		t.Errorf("%d receipts verify, want 3", verified)
	}
	for i, got := range ask(t, newModule(t), "receipt", []string{"", "{}", "[]", `{"certificate":{}}`, strings.Replace(inputs[0], `"position":7`, `"position":7,"position":7`, 1), strings.Replace(inputs[0], `"position":7`, `"position":7,"more":1`, 1)}) {
		if got.Error == "" {
			t.Errorf("the module accepts malformed receipt %d", i)
		}
	}
}
