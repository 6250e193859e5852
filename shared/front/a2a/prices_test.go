package a2a_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/client/agents"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
)

func (w *paying) setPrice(p price.Price) {
	w.t.Helper()
	_, err := w.server.Vacants.SetPrice(w.t.Context(), w.echo.ID, p)
	must(w.t, err)
}

// wantBalance requires what a tenant can spend.
func (w *paying) wantBalance(tenant string, want money.Amount) {
	w.t.Helper()
	a, err := w.server.Billing.FindAccount(w.t.Context(), tenant)
	must(w.t, err)
	got, err := w.server.Billing.Balance(w.t.Context(), &a)
	if err != nil || got != want {
		w.t.Errorf("the balance of %s is %s, %v; want %s", tenant, got, err, want)
	}
}

func (w *paying) credit(tenant string, amount money.Amount) {
	w.t.Helper()
	a, err := w.server.Billing.FindAccount(w.t.Context(), tenant)
	must(w.t, err)
	_, _, err = w.server.Billing.Credit(w.t.Context(), a.ID, amount, "first", "")
	must(w.t, err)
}

func TestAKeyPaysForEachWayToSendAMessage(t *testing.T) {
	w := known(t)
	w.setPrice(price.Price{Flat: 2000})
	w.credit("acme", 20_000)
	refused := w.rpc("/v/echo", "SendMessage", message("hi", ""))
	if at(t, refused.body, "error", "code") != "-32004" || at(t, refused.body, "error", "data", 0, "reason") != "PAYMENT_REQUIRED" ||
		!strings.Contains(at(t, refused.body, "error", "data", 0, "metadata", "pay"), `{"way":"key",`) || !strings.Contains(at(t, refused.body, "error", "data", 0, "metadata", "price"), `"flat":2000`) {
		t.Errorf("without a key: %s", refused.body)
	}
	if got := w.do("POST", "/v/echo/message:send", message("hi", "")); got.status != http.StatusPaymentRequired {
		t.Errorf("without a key, by REST: %d %s", got.status, got.body)
	}
	left := money.Amount(20_000)
	for name, got := range map[string]answer{
		"unary":              w.rpc("/v/echo", "SendMessage", withID("", "one", "}"), w.acme),
		"as a stream":        w.rpc("/v/echo", "SendStreamingMessage", withID("", "two", "}"), w.acme),
		"by REST":            w.do("POST", "/v/echo/message:send", withID("", "three", "}"), w.acme),
		"in the background":  w.rpc("/v/echo", "SendMessage", withID("", "four", `},"configuration":{"returnImmediately":true}`), w.acme),
		"within a max_price": w.rpc("/v/echo?max_price=2000", "SendMessage", withID("", "five", "}"), w.acme),
	} {
		if got.status != 200 || strings.Contains(got.body, "PAYMENT") {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
		left -= 2000
	}
	w.wantBalance("acme", left)
	if got := w.rpc("/v/echo?max_price=1999", "SendMessage", withID("", "hi", "}"), w.acme); at(t, got.body, "error", "data", 0, "reason") != "PAYMENT_REQUIRED" || !strings.Contains(got.body, "price_above_max") {
		t.Errorf("above max_price: %s", got.body)
	}
	if got := w.rpc("/v/echo?max_price=x", "SendMessage", withID("", "hi", "}"), w.acme); !strings.Contains(got.body, "max_price") || strings.Contains(got.body, "echo from") {
		t.Errorf("a max_price of nothing: %s", got.body)
	}
	// One message, however often it comes, is one charge.
	for range 3 {
		w.rpc("/v/echo", "SendMessage", withID("m1", "once", "}"), w.acme)
	}
	w.wantBalance("acme", left-2000)
	if got := w.rpc("/v/echo", "SendMessage", withID("", "hi", "}"), w.other); at(t, got.body, "error", "data", 0, "reason") != "PAYMENT_REQUIRED" {
		t.Errorf("an account without money: %s", got.body)
	}
}

// A key's bound counts on every way on which the key pays, and a refusal says what the
// caller can do.
func TestAKeysBoundCountsForEachWayToSendAMessage(t *testing.T) {
	w := known(t)
	w.setPrice(price.Price{Flat: 2000})
	w.credit("acme", 20_000)
	a, err := w.server.Billing.FindAccount(t.Context(), "acme")
	must(t, err)
	_, secret, err := w.server.Billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{MaxPrice: 1999})
	must(t, err)
	bound := "Authorization: Bearer " + secret
	for name, got := range map[string]answer{
		"unary":                   w.rpc("/v/echo", "SendMessage", withID("", "one", "}"), bound),
		"of 0.3":                  w.rpc("/v/echo", "message/send", `{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"hi"}]}}`, bound),
		"as a stream":             w.rpc("/v/echo", "SendStreamingMessage", withID("", "two", "}"), bound),
		"by REST":                 w.do("POST", "/v/echo/message:send", withID("", "three", "}"), bound),
		"in the background":       w.rpc("/v/echo", "SendMessage", withID("", "four", `},"configuration":{"returnImmediately":true}`), bound),
		"with a higher max_price": w.rpc("/v/echo?max_price=5000", "SendMessage", withID("", "five", "}"), bound),
	} {
		if !strings.Contains(got.body, "PAYMENT_REQUIRED") || !strings.Contains(got.body, "price_above_max") || !strings.Contains(got.body, "$0.001999 a call that the key allows") {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	w.wantBalance("acme", 20_000)
	for name, got := range map[string]answer{
		"1.0":  w.rpc("/v/echo", "SendMessage", message("hi", "")),
		"0.3":  w.rpc("/v/echo", "message/send", `{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"hi"}]}}`),
		"REST": w.do("POST", "/v/echo/message:send", message("hi", "")),
	} {
		if !strings.Contains(got.body, "the price is $0.002 a call: send the key of an account (Authorization: Bearer KEY)") {
			t.Errorf("without a key, by %s: %s", name, got.body)
		}
	}
}

// An agent that reports no usage is charged the flat price, even for a cut answer, and not the usage that the host
// estimates.
func TestAPriceByTokensChargesWhatTheAgentReports(t *testing.T) {
	var reports, cut atomic.Bool
	w := &paying{world: openWorld(t, true, func(c *serve.Config) {
		c.HasAccounts = true
		c.Substrates[substrate.KindHTTP] = func(string) (substrate.Substrate, error) {
			return said(func(_ substrate.Request, yield func(substrate.Event, error) bool) {
				_ = yield(substrate.Text("a long answer"), nil) && (!reports.Load() || yield(substrate.Usage{InputTokens: 10, OutputTokens: 20}, nil)) && yield(map[bool]substrate.FinishReason{false: substrate.FinishStop, true: substrate.FinishLength}[cut.Load()], nil)
			}), nil
		}
	}).runs()}
	w.acme = "Authorization: Bearer " + w.key("acme", false)
	w.credit("acme", money.Dollar)
	var err error
	w.echo, err = w.server.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "agent", Capability: "Answers", Agent: &definition.Agent{Provider: substrate.KindHTTP, BaseURL: "http://127.0.0.1:1/", System: "answers"}})
	must(t, err)
	w.setPrice(price.Price{Flat: 2000, InputPrice: money.Dollar, OutputPrice: 10 * money.Dollar, MaxCharge: 50_000})
	left := money.Amount(money.Dollar)
	for _, tt := range []struct {
		reported, cut bool
		tokens        string
		charge        money.Amount
	}{{false, false, "0", 2000}, {false, true, "0", 2000}, {true, false, "30", 2000 + 10 + 200}, {true, true, "30", 2000 + 10 + 200}} {
		reports.Store(tt.reported)
		cut.Store(tt.cut)
		got := w.do("POST", "/v/agent"+completions, asking(strings.Repeat("a question ", 1000), ""), w.acme)
		if tokens := at(t, got.body, "usage", "total_tokens"); tokens != tt.tokens {
			t.Errorf("%+v: %s tokens of %d %s", tt, tokens, got.status, got.body)
		}
		left -= tt.charge
		w.wantBalance("acme", left)
	}
}

func TestTheCardOfAFreeAddressTakesGuests(t *testing.T) {
	for _, c := range []struct {
		of     price.Price
		guests bool
	}{
		{price.Price{Flat: 2000, FreePerAddress: 2}, true},
		{price.Price{Flat: 2000, FreePerSigner: 9}, false}, // for callers that sign
	} {
		w := known(t)
		w.setPrice(c.of)
		told := strings.Contains(w.do("GET", "/v/echo", "").body, `"security":[{"bearer":[]},{}]`)
		answered := !strings.Contains(w.rpc("/v/echo", "SendMessage", message("hi", "")).body, "PAYMENT_REQUIRED")
		if told != c.guests || answered != c.guests {
			t.Errorf("%+v: the card takes guests: %t, the host: %t, want %t", c.of, told, answered, c.guests)
		}
	}
}

func TestKeysAreLimitedByTheirScopeAndTenant(t *testing.T) {
	w := known(t)
	reader := "Authorization: Bearer " + w.key("acme", false, billing.ScopeRead)
	if got := w.rpc("/v/echo", "SendMessage", message("hi", ""), reader); got.status != http.StatusForbidden || !strings.Contains(got.body, "scope_required") {
		t.Errorf("a key that may not call: %d %s", got.status, got.body)
	}
	test := "Authorization: Bearer " + w.key("acme", true)
	if got := w.rpc("/v/echo", "SendMessage", message("hi", ""), test); got.status != http.StatusForbidden || !strings.Contains(got.body, "test_key") {
		t.Errorf("a test key at a vacant of the operator: %d %s", got.status, got.body)
	}
}

func TestTheCardTellsThePrice(t *testing.T) {
	w := known(t)
	if got := w.do("GET", "/v/echo", ""); at(t, got.body, "capabilities", "extensions", 0, "params", "price") != "0" {
		t.Errorf("a card without a price: %s", got.body)
	}
	for _, c := range []struct {
		of   price.Price
		want map[string]string
		says string
	}{
		{price.Price{InputPrice: money.Dollar, MaxCharge: 700}, map[string]string{"price": "700", "price_unit": "micro-USD", "price_flat": "0", "price_in": "1000000", "price_out": "0"}, "$1 in/$0 out for a million tokens, at most $0.0007 a call"},
		{price.Price{Flat: 2000}, map[string]string{"price": "2000", "price_unit": "micro-USD"}, "$0.002 a call"},
	} {
		w.setPrice(c.of)
		w.skip.Add(2_000_000_000) // the record is cached for a second
		for _, version := range []string{"1.0", "0.3"} {
			got := w.do("GET", "/v/echo", "", "A2A-Version: "+version)
			for name, want := range c.want {
				if at(t, got.body, "capabilities", "extensions", 0, "params", name) != want {
					t.Errorf("the card of %s of %s: %s, want %s of %s", version, c.of.String(), got.body, name, want)
				}
			}
			if read, err := agents.ParseCard("https://agents.example.org/v/echo", []byte(got.body)); err != nil || read.PriceTerms.String() != c.says || read.MaxCharge != int64(c.of.Hold()) {
				t.Errorf("the card of %s reads as %v, want %s", version, err, c.says)
			}
			if !strings.Contains(got.body, `"securitySchemes":{"bearer":`) {
				t.Errorf("the card of %s names no keys: %s", version, got.body)
			}
		}
	}
}

// The largest commit: a message in the background, with a notification, whose price all
// sixteen shards pay together, under two caps.
func TestATaskIsPaidByAllShardsInOneCommit(t *testing.T) {
	w := known(t)
	w.setPrice(price.Price{Flat: 1600})
	a, err := w.server.Billing.OpenAccount(t.Context(), "wide", 16)
	must(t, err)
	_, _, err = w.server.Billing.Credit(t.Context(), a.ID, 1600, "first", "")
	must(t, err)
	_, err = w.server.Billing.SetDailyCap(t.Context(), a.ID, money.Dollar)
	must(t, err)
	_, secret, err := w.server.Billing.MakeKey(t.Context(), a.ID, billing.KeyOptions{DailyCap: money.Dollar})
	must(t, err)
	push := `},"configuration":{"returnImmediately":true,"taskPushNotificationConfig":{"url":"http://127.0.0.1:1/"}}`
	got := w.rpc("/v/echo", "SendMessage", withID("m1", "hi", push), "Authorization: Bearer "+secret)
	if at(t, got.body, "result", "task", "id") == "" {
		t.Errorf("the task: %d %s", got.status, got.body)
	}
	w.wantBalance("wide", 0)
}
