package account_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/paykeys"
	"github.com/vacancy-host/vacancy/shared/host/billing/stripe"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/stripemock"
)

// paying is a fixture whose host takes payments at a host, "" for Stripe's.
func paying(t *testing.T, at string) *fixture {
	f := newFixture(t)
	vault, err := local.FromHex(strings.Repeat("0f", 32), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys := paykeys.New(f.billing.Store, vault, time.Now, rand.Reader)
	var hosts []string
	if at != "" {
		hosts = []string{at}
	}
	for name, value := range map[string]string{paykeys.StripeAPIKey: stripemock.Key, paykeys.StripeWebhookKey: stripemock.Signing} {
		if _, err := keys.Set(t.Context(), "", name, hosts, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	payments := stripe.New(paykeys.Config{
		Keys: keys, Client: outbound.New(outbound.Options{AllowLoopback: true}), Now: time.Now,
		HostID:  func(context.Context) (identity.ID, error) { return hostID, nil },
		BaseURL: func(context.Context) (string, error) { return "https://host.example", nil },
	})
	f.handler = account.TenantHandler(f.billing, nil, payments, slog.New(slog.NewTextHandler(&f.log, nil)), time.Now)
	return f
}

// webhook sends a webhook with a signature by a key at a time.
func (f *fixture) webhook(body, key string, at time.Time, status int, text string) {
	f.Helper()
	r := httptest.NewRequest(http.MethodPost, account.StripePath, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	r.Header.Set(paykeys.SignatureHeader, stripemock.Sign(body, key, at))
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	if w.Code != status || !strings.Contains(w.Body.String(), text) {
		f.Errorf("webhook = %d %s, want %d with %q", w.Code, w.Body, status, text)
	}
}

func TestATenantPaysByCard(t *testing.T) {
	f := paying(t, stripemock.Start(t))
	key, reader := f.key(), f.key(billing.ScopeRead)
	f.do("POST", billing.CheckoutPath, `{"amount":25000000}`, key, 201, `"url":"https://`)
	f.do("GET", billing.CheckoutPath, "", "", 200, "Thank you")
	f.do("GET", billing.CheckoutPath+"?cancelled=true", "", "", 200, "Nothing was paid")
	f.do("POST", billing.CheckoutPath, `{"amount":25000000}`, "", 401, "a key of an account is required")
	f.do("POST", billing.CheckoutPath, `{"amount":25000000}`, reader, 403, "the key lacks the scope manage")
	for body, text := range map[string]string{
		`{"amount":4990000}`: "$5 to $10000", `{"amount":10000010000}`: "amount", `{"amount":5000001}`: "whole cents", `{"amount":-25000000}`: "amount", `{}`: "amount",
		`{"amount":25.5}`: "", `{"amount":"25"}`: "", `{"amount":NaN}`: "", `{"amount":99999999999999999999}`: "", `{"amount":25000000,"note":"x"}`: "expected amount",
	} {
		f.do("POST", billing.CheckoutPath, body, key, 400, text)
	}
	now := time.Now()
	body := stripemock.Paid("pi_1", hostID.String(), f.account.ID, 2500)
	f.webhook(body, "whsec_of_somebody", now, 400, paykeys.SignatureHeader)
	f.webhook(body, stripemock.Signing, now.Add(-6*time.Minute), 400, "within 300 s")
	f.webhook(body, stripemock.Signing, now.Add(6*time.Minute), 400, "within 300 s")
	f.do("GET", "/v1/account", "", key, 200, `"balance":0`)
	for range 3 {
		f.webhook(body, stripemock.Signing, now, 200, `{"received":true}`)
	}
	f.do("GET", "/v1/account", "", key, 200, `"balance":25000000`)
	f.webhook(stripemock.Refunded("pi_1", 500), stripemock.Signing, now, 200, "received")
	f.do("GET", "/v1/account/statement", "", key, 200, `"credited":20000000`)
	if _, _, err := f.billing.Adjust(t.Context(), f.account.ID, -15*money.Dollar, "k", "spent"); err != nil {
		t.Fatal(err)
	}
	f.webhook(stripemock.Disputed("pi_1", "dp_1", "needs_response", 2000), stripemock.Signing, now, 200, "received")
	f.do("GET", "/v1/account", "", key, 200, `"suspended":true,"owed":15000000`)
	f.do("GET", "/v1/account/statement", "", key, 200, `"owed":15000000`)
	f.do("GET", "/v1/account/changes?from=4", "", key, 200, `"kind":"clawback","amount":-5000000,"payment":"pi_1"`)
	f.do("POST", billing.CheckoutPath, `{"amount":15000000}`, key, 201, `"url"`) // to pay what is owed
	f.webhook("canary", stripemock.Signing, now, 400, "not an event")
	f.webhook(strings.Repeat(" ", 300<<10), stripemock.Signing, now, 413, "body")
	for _, secret := range []string{key, stripemock.Signing, stripemock.Key} {
		if strings.Contains(f.log.String(), secret) {
			t.Error("the log has a secret")
		}
	}
}

// Stripe repeats what is answered with 503, and the account has it then.
func TestAWebhookThatMeetsAStorageFaultIsTakenLater(t *testing.T) {
	f := paying(t, "")
	whole, now := f.billing.Store, time.Now()
	for _, fate := range []storetest.Fault{storetest.Lost, storetest.Unacknowledged} { // after the second it is there
		f.billing.Store = &storetest.Lossy{Store: whole, ChooseFault: func(op string, _ []store.Write) storetest.Fault {
			if op == "Commit" {
				return fate
			}
			return storetest.NoFault
		}}
		f.webhook(stripemock.Paid("pi_1", hostID.String(), f.account.ID, 2500), stripemock.Signing, now, 503, "unavailable")
	}
	f.billing.Store = whole
	f.webhook(stripemock.Paid("pi_1", hostID.String(), f.account.ID, 2500), stripemock.Signing, now, 200, "received")
	f.do("GET", "/v1/account", "", f.key(billing.ScopeRead), 200, `"balance":25000000`)
}

func TestAnIdempotencyKeyOfACheckoutIsBounded(t *testing.T) {
	f := paying(t, "127.0.0.1:1")
	for n, status := range map[int]int{255: http.StatusServiceUnavailable, 256: http.StatusBadRequest} { // nobody answers there
		r := httptest.NewRequest(http.MethodPost, billing.CheckoutPath, strings.NewReader(`{"amount":25000000}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+f.key())
		r.Header.Set(account.IdempotencyHeader, strings.Repeat("k", n))
		w := httptest.NewRecorder()
		f.handler.ServeHTTP(w, r)
		if w.Code != status {
			t.Errorf("a key of %d bytes = %d %s, want %d", n, w.Code, w.Body, status)
		}
	}
}

func TestAHostWithoutKeysTakesNoPayments(t *testing.T) {
	f := newFixture(t)
	f.do("POST", billing.CheckoutPath, `{"amount":25000000}`, f.key(), 404, "")
	f.webhook(`{}`, stripemock.Signing, time.Now(), 404, "")
}
