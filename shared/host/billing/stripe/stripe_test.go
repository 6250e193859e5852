package stripe_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stripe/stripe-go/v84/webhook"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/paykeys"
	"github.com/vacancy-host/vacancy/shared/host/billing/stripe"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/secrets"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/stripemock"
)

const (
	apiKey  = "sk_test_canary"
	signing = "whsec_canary"
)

var (
	self    = identity.ID{7}
	account = strings.Repeat("ab", 32)
	noon    = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
)

// world is a host that takes payments.
type world struct {
	*testing.T
	billing.Payments
	keys *secrets.Secrets
	now  time.Time
	base string
}

func newWorld(t *testing.T, loopback bool) *world {
	vault, err := local.FromHex(strings.Repeat("0f", 32), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, now: noon, base: "https://host.example/"}
	now := func() time.Time { return w.now }
	w.keys = paykeys.New(memory.New(), vault, now, rand.Reader)
	w.Payments = stripe.New(paykeys.Config{
		Keys: w.keys, Client: outbound.New(outbound.Options{AllowLoopback: loopback}), Now: now,
		HostID:  func(context.Context) (identity.ID, error) { return self, nil },
		BaseURL: func(context.Context) (string, error) { return w.base, nil },
	})
	return w
}

// set sets both keys. host is the host that the API's key is sent to; "" means
// Stripe.
func (w *world) set(host string) {
	w.Helper()
	var hosts []string
	if host != "" {
		hosts = []string{host}
	}
	for name, value := range map[string]string{paykeys.StripeAPIKey: apiKey, paykeys.StripeWebhookKey: signing} {
		if _, err := w.keys.Set(w.Context(), "", name, hosts, []byte(value)); err != nil {
			w.Fatal(err)
		}
	}
}

func TestACheckoutIsAsStripeDescribesIt(t *testing.T) {
	w := newWorld(t, true)
	w.set(stripemock.Start(t))
	page, err := w.CreateCheckout(t.Context(), account, 25*money.Dollar, "once")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(page.ID, "cs_") || !strings.HasPrefix(page.URL, "https://") || page.Amount != 25*money.Dollar || page.Expires.IsZero() {
		t.Errorf("CreateCheckout() = %+v", page)
	}
}

// The request has what the webhook is recognized by, and nothing of this machine.
func TestTheRequestOfACheckout(t *testing.T) {
	var got map[string][]string
	var header http.Header
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		got, header = r.PostForm, r.Header
		_, _ = io.WriteString(rw, `{"id":"cs_1","url":"https://checkout.stripe.com/c/1","expires_at":1800000000}`)
	}))
	defer server.Close()
	w := newWorld(t, true)
	w.set(strings.TrimPrefix(server.URL, "http://"))
	for _, key := range []string{"", "one", "one", "two"} {
		if _, err := w.CreateCheckout(t.Context(), account, 12_340_000, key); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string][]string{
		"mode": {"payment"}, "adaptive_pricing[enabled]": {"false"},
		"success_url": {"https://host.example/v1/account/checkout"}, "cancel_url": {"https://host.example/v1/account/checkout?cancelled=true"},
		"line_items[0][quantity]": {"1"}, "line_items[0][price_data][currency]": {"usd"}, "line_items[0][price_data][unit_amount]": {"1234"},
		"line_items[0][price_data][product_data][name]": {"Credit for account " + account[:12]},
		"metadata[vacancy_host]":                        {self.String()}, "metadata[vacancy_account]": {account},
		"payment_intent_data[metadata][vacancy_host]": {self.String()}, "payment_intent_data[metadata][vacancy_account]": {account},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("form (-want +got):\n%s", diff)
	}
	if header.Get("Authorization") != "Bearer "+apiKey || header.Get("X-Stripe-Client-User-Agent") != "{}" || header.Get("User-Agent") != "vacancy" {
		t.Errorf("header %v", header)
	}
}

func TestAnIdempotencyKeyIsOfOneAccount(t *testing.T) {
	var keys []string
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		_, _ = io.WriteString(rw, `{"id":"cs_1","url":"https://checkout.stripe.com/c/1"}`)
	}))
	defer server.Close()
	w := newWorld(t, true)
	w.set(strings.TrimPrefix(server.URL, "http://"))
	for _, one := range [][2]string{{account, "k"}, {account, "k"}, {strings.Repeat("cd", 32), "k"}, {account, "l"}, {account, ""}, {account, ""}} {
		if _, err := w.CreateCheckout(t.Context(), one[0], billing.MinPayment, one[1]); err != nil {
			t.Fatal(err)
		}
	}
	different := map[string]bool{}
	for _, k := range keys {
		different[k] = true
	}
	if keys[0] != keys[1] || len(different) != 5 {
		t.Errorf("keys %q, want the first two alike", keys)
	}
}

// Stripe's text about a failure is not shown, because it may repeat the key.
func TestFailuresOfStripe(t *testing.T) {
	for answer, want := range map[string]problem.Kind{
		`401 {"error":{"type":"invalid_request_error","message":"Invalid API Key: ` + apiKey + `"}}`: problem.Unavailable,
		`400 {"error":{"type":"invalid_request_error","message":"canary","param":"line_items"}}`:     problem.Unavailable,
		`400 {"error":{"type":"idempotency_error","message":"canary"}}`:                              problem.IdempotencyConflict,
		`429 {"error":{"type":"invalid_request_error","message":"canary"}}`:                          problem.Unavailable,
		`500 canary, for ` + apiKey: problem.Unavailable,
		`200 canary`:                problem.Unavailable,
		`200 {"id":"cs_1"}`:         problem.Untrusted,
		`302 {}`:                    problem.Forbidden,
		`200 {"id":"` + strings.Repeat("x", 5<<20) + `"}`: problem.TooLarge,
	} {
		status, body, _ := strings.Cut(answer, " ")
		server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			var code int
			_, _ = fmt.Sscan(status, &code)
			rw.Header().Set("Location", "http://127.0.0.1:1/")
			rw.WriteHeader(code)
			_, _ = io.WriteString(rw, body)
		}))
		w := newWorld(t, true)
		w.set(strings.TrimPrefix(server.URL, "http://"))
		_, err := w.CreateCheckout(t.Context(), account, billing.MinPayment, "")
		if !problem.Is(err, want) || strings.Contains(problem.AsError(err).Text(), "canary") || strings.Contains(fmt.Sprint(err), apiKey) {
			t.Errorf("%.60s: %v, want %v without what Stripe says", answer, err, want)
		}
		server.Close()
	}
}

func TestACheckoutDialsByTheSafeClient(t *testing.T) {
	w := newWorld(t, false)
	w.set("127.0.0.1:1")
	if _, err := w.CreateCheckout(t.Context(), account, billing.MinPayment, ""); !problem.Is(err, problem.Forbidden) {
		t.Errorf("CreateCheckout() at loopback = %v, want Forbidden", err)
	}
	w.base = ""
	if _, err := w.CreateCheckout(t.Context(), account, billing.MinPayment, ""); !problem.Is(err, problem.Unavailable) {
		t.Errorf("CreateCheckout() of a host without a URL = %v, want Unavailable", err)
	}
}

func TestWithoutBothKeysThereAreNoPayments(t *testing.T) {
	for _, only := range []string{"", paykeys.StripeAPIKey, paykeys.StripeWebhookKey} {
		w := newWorld(t, true)
		if value := map[string]string{paykeys.StripeAPIKey: apiKey, paykeys.StripeWebhookKey: signing}[only]; only != "" {
			if _, err := w.keys.Set(t.Context(), "", only, nil, []byte(value)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.CreateCheckout(t.Context(), account, billing.MinPayment, ""); !problem.Is(err, problem.NotFound) {
			t.Errorf("CreateCheckout() with %q = %v, want NotFound", only, err)
		}
		if _, err := w.ParseEvent(t.Context(), "t=1,v1=00", []byte(`{}`)); !problem.Is(err, problem.NotFound) {
			t.Errorf("ParseEvent() with %q = %v, want NotFound", only, err)
		}
	}
}

func TestKeysAreWhatTheirNamesSay(t *testing.T) {
	w := newWorld(t, true)
	for _, tt := range []struct{ name, value, field string }{
		{paykeys.StripeAPIKey, signing, "value"}, {paykeys.StripeWebhookKey, apiKey, "value"}, {paykeys.StripeAPIKey, "pk_live_x", "value"}, {"paypal", "x", "secret"},
		{paykeys.StripeAPIKey, "", "value"}, {paykeys.StripeAPIKey, "sk_live_ x", "value"}, {paykeys.StripeAPIKey, "rk_live_x", ""}, {paykeys.StripeWebhookKey, "whsec_x", ""},
	} {
		info, err := w.keys.Set(t.Context(), "", tt.name, nil, []byte(tt.value))
		if tt.field == "" && (err != nil || info.Hosts[0] != "api.stripe.com") || tt.field != "" && (err == nil || problem.AsError(err).Field != tt.field || strings.Contains(err.Error(), "canary")) {
			t.Errorf("Set(%s) = %v, %v; want a refusal of %q", tt.name, info, err, tt.field)
		}
	}
}

type parseObject = map[string]any

// eventOf is an event of Stripe, as it is sent.
func eventOf(kind string, of parseObject) parseObject {
	return parseObject{"id": "evt_1", "object": "event", "api_version": "2019-01-01", "livemode": false, "type": kind, "data": parseObject{"object": of}}
}

func with(o parseObject, key string, value any) parseObject {
	o = maps.Clone(o)
	if o[key] = value; value == nil {
		delete(o, key)
	}
	return o
}

func (w *world) sign(event any, at time.Time, secret string) (header string, body []byte) {
	w.Helper()
	body, ok := event.([]byte)
	if !ok {
		var err error
		if body, err = json.Marshal(event); err != nil {
			w.Fatal(err)
		}
	}
	s := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: body, Secret: secret, Timestamp: at})
	return s.Header, body
}

func newSessionParams() parseObject {
	return parseObject{
		"id": "cs_1", "object": "checkout.session", "payment_status": "paid", "payment_intent": "pi_1", "currency": "usd", "amount_total": 2500,
		"client_reference_id": "of the payer", "metadata": parseObject{"vacancy_host": self.String(), "vacancy_account": account},
	}
}

func refund(status string) parseObject {
	return parseObject{"id": "re_1", "object": "refund", "charge": "ch_1", "payment_intent": "pi_1", "currency": "usd", "amount": 700, "status": status}
}

func dispute(status string) parseObject {
	return parseObject{"id": "dp_1", "object": "dispute", "payment_intent": "pi_1", "currency": "usd", "amount": 1000, "status": status}
}

func TestWebhooks(t *testing.T) {
	const completed = "checkout.session.completed"
	charge := parseObject{"id": "ch_1", "object": "charge", "payment_intent": "pi_1", "currency": "usd", "amount": 2500, "amount_refunded": 700}
	paid := billing.Event{PaymentID: "pi_1", Account: account, Paid: 25 * money.Dollar}
	disputed := func(s billing.DisputeState) billing.Event {
		return billing.Event{PaymentID: "pi_1", DisputeID: "dp_1", DisputeReport: billing.Dispute{Amount: 10 * money.Dollar, State: s}}
	}
	refunded := func(failed bool) billing.Event {
		return billing.Event{PaymentID: "pi_1", RefundID: "re_1", RefundReport: billing.Refund{Amount: 7 * money.Dollar, Failed: failed}}
	}
	w := newWorld(t, true)
	w.set("")
	for name, tt := range map[string]struct {
		event any
		want  billing.Event
		field string // that is refused
	}{
		"paid":                     {eventOf(completed, newSessionParams()), paid, ""},
		"paid later":               {eventOf("checkout.session.async_payment_succeeded", newSessionParams()), paid, ""},
		"expanded":                 {eventOf(completed, with(newSessionParams(), "payment_intent", parseObject{"id": "pi_1", "object": "payment_intent"})), paid, ""},
		"not yet paid":             {eventOf(completed, with(newSessionParams(), "payment_status", "unpaid")), billing.Event{}, ""},
		"of another host":          {eventOf(completed, with(newSessionParams(), "metadata", parseObject{"vacancy_host": identity.ID{8}.String(), "vacancy_account": account})), billing.Event{}, ""},
		"of another business":      {eventOf(completed, with(newSessionParams(), "metadata", nil)), billing.Event{}, ""},
		"without an account":       {eventOf(completed, with(newSessionParams(), "metadata", parseObject{"vacancy_host": self.String()})), billing.Event{}, "data.object.metadata.vacancy_account"},
		"without a payment":        {eventOf(completed, with(newSessionParams(), "payment_intent", nil)), billing.Event{}, "data.object.payment_intent"},
		"in euros":                 {eventOf(completed, with(newSessionParams(), "currency", "eur")), billing.Event{}, "data.object.amount_total"},
		"a negative amount":        {eventOf(completed, with(newSessionParams(), "amount_total", -1)), billing.Event{}, "data.object.amount_total"},
		"an overflow":              {eventOf(completed, with(newSessionParams(), "amount_total", int64(1)<<62)), billing.Event{}, "data.object.amount_total"},
		"a fraction":               {eventOf(completed, with(newSessionParams(), "amount_total", 1.5)), billing.Event{}, "data.object"},
		"no session":               {eventOf(completed, with(newSessionParams(), "metadata", "none")), billing.Event{}, "data.object"},
		"refunded":                 {eventOf("charge.refunded", charge), billing.Event{PaymentID: "pi_1", RefundedTotal: 7 * money.Dollar}, ""},
		"refunded in euros":        {eventOf("charge.refunded", with(charge, "currency", "eur")), billing.Event{}, ""},
		"refunded, no payment":     {eventOf("charge.refunded", with(charge, "payment_intent", nil)), billing.Event{}, ""},
		"a refund below 0":         {eventOf("charge.refunded", with(charge, "amount_refunded", -1)), billing.Event{}, "data.object.amount_refunded"},
		"a refund":                 {eventOf("refund.created", refund("pending")), refunded(false), ""},
		"a refund with a question": {eventOf("refund.updated", refund("requires_action")), refunded(false), ""},
		"a refund that succeeds":   {eventOf("refund.updated", refund("succeeded")), refunded(false), ""},
		"a refund that fails":      {eventOf("refund.failed", refund("failed")), refunded(true), ""},
		"a refund, canceled":       {eventOf("refund.updated", refund("canceled")), refunded(true), ""},
		"a refund, by old name":    {eventOf("charge.refund.updated", refund("failed")), refunded(true), ""},
		"a refund in euros":        {eventOf("refund.failed", with(refund("failed"), "currency", "eur")), billing.Event{}, ""},
		"a refund of no payment":   {eventOf("refund.failed", with(refund("failed"), "payment_intent", nil)), billing.Event{}, ""},
		"a refund without an id":   {eventOf("refund.failed", with(refund("failed"), "id", nil)), billing.Event{}, "data.object.id"},
		"a negative refund":        {eventOf("refund.failed", with(refund("failed"), "amount", -1)), billing.Event{}, "data.object.amount"},
		"disputed":                 {eventOf("charge.dispute.created", dispute("needs_response")), disputed(billing.DisputeOpen), ""},
		"under review":             {eventOf("charge.dispute.updated", dispute("under_review")), disputed(billing.DisputeOpen), ""},
		"withdrawn":                {eventOf("charge.dispute.funds_withdrawn", dispute("needs_response")), disputed(billing.DisputeOpen), ""},
		"lost":                     {eventOf("charge.dispute.closed", dispute("lost")), disputed(billing.DisputeLost), ""},
		"won":                      {eventOf("charge.dispute.funds_reinstated", dispute("won")), disputed(billing.DisputeWon), ""},
		"an inquiry":               {eventOf("charge.dispute.created", dispute("warning_needs_response")), billing.Event{}, ""},
		"a dispute without an id":  {eventOf("charge.dispute.created", with(dispute("lost"), "id", nil)), billing.Event{}, "data.object.id"},
		"something else":           {eventOf("customer.created", parseObject{"id": "cus_1"}), billing.Event{}, ""},
		"of real money":            {with(eventOf(completed, newSessionParams()), "livemode", true), billing.Event{}, "livemode"},
		"without data":             {with(eventOf(completed, newSessionParams()), "data", nil), billing.Event{}, "data"},
		"no event":                 {parseObject{"object": "charge"}, billing.Event{}, "body"},
		"no JSON":                  {[]byte("canary"), billing.Event{}, "body"},
		"an array":                 {[]byte("[]"), billing.Event{}, "body"},
	} {
		header, body := w.sign(tt.event, w.now, signing)
		got, err := w.ParseEvent(t.Context(), header, body)
		if tt.field != "" {
			if !problem.Is(err, problem.Malformed) || !strings.Contains(problem.AsError(err).Text(), tt.field) {
				t.Errorf("%s: %v, want a refusal of %s", name, err, tt.field)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// Money of tests is none, and a host with a key of tests has no real money.
func TestWebhooksOfTheOtherModeAreRefused(t *testing.T) {
	for key, live := range map[string]bool{"sk_live_canary": true, "rk_live_canary": true, "sk_test_canary": false, "rk_test_canary": false} {
		w := newWorld(t, true)
		w.set("")
		if _, err := w.keys.Set(t.Context(), "", paykeys.StripeAPIKey, nil, []byte(key)); err != nil {
			t.Fatal(err)
		}
		for _, mode := range []bool{true, false} {
			header, body := w.sign(with(eventOf("checkout.session.completed", newSessionParams()), "livemode", mode), w.now, signing)
			got, err := w.ParseEvent(t.Context(), header, body)
			if mode == live && (err != nil || got.PaymentID != "pi_1") || mode != live && (!problem.Is(err, problem.Malformed) || problem.AsError(err).Field != "livemode" || got != billing.Event{}) {
				t.Errorf("an event with livemode %t at a host with %s: %+v, %v", mode, key[:8], got, err)
			}
		}
	}
}

func TestWebhooksThatStripeDidNotSignAreRefused(t *testing.T) {
	w := newWorld(t, true)
	w.set("")
	event := eventOf("checkout.session.completed", newSessionParams())
	header, body := w.sign(event, w.now, signing)
	other, _ := w.sign(event, w.now, "whsec_of_somebody")
	old, _ := w.sign(event, w.now.Add(-301*time.Second), signing)
	early, _ := w.sign(event, w.now.Add(301*time.Second), signing)
	stamp := fmt.Sprintf("t=%d", w.now.Unix())
	for name, header := range map[string]string{
		"none": "", "by another key": other, "late": old, "early": early, "no signature": stamp, "an empty one": stamp + ",v1=",
		"no time": strings.TrimPrefix(header, stamp+","), "a time that is none": "t=now," + strings.TrimPrefix(header, stamp+","),
		"late under a new time": stamp + "," + old, "late before a new time": old + "," + stamp, "an old scheme": strings.Replace(header, "v1=", "v0=", 1),
		"another time": strings.Replace(header, stamp, fmt.Sprintf("t=%d", w.now.Unix()+1), 1),
		"no list":      "canary", "another list": "t=1=2",
	} {
		if _, err := w.ParseEvent(t.Context(), header, body); !problem.Is(err, problem.Malformed) || problem.AsError(err).Field != paykeys.SignatureHeader || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want a refusal of %s", name, err, paykeys.SignatureHeader)
		}
	}
	if _, err := w.ParseEvent(t.Context(), header, append(body, ' ')); !problem.Is(err, problem.Malformed) {
		t.Errorf("another body: %v, want a refusal", err)
	}
	for _, at := range []time.Duration{0, 299 * time.Second, -299 * time.Second} {
		header, _ := w.sign(event, w.now.Add(at), signing)
		if got, err := w.ParseEvent(t.Context(), header, body); err != nil || got.PaymentID != "pi_1" {
			t.Errorf("signed at %v: %v", at, err)
		}
	}
	both := header + "," + strings.Split(other, ",")[1] // while a key is rolled
	if _, err := w.ParseEvent(t.Context(), both, body); err != nil {
		t.Errorf("with two signatures: %v", err)
	}
}

func FuzzWebhooks(f *testing.F) {
	vault, err := local.FromHex(strings.Repeat("0f", 32), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	now := func() time.Time { return noon }
	keys := paykeys.New(memory.New(), vault, now, rand.Reader)
	for name, value := range map[string]string{paykeys.StripeAPIKey: apiKey, paykeys.StripeWebhookKey: signing} {
		if _, err := keys.Set(f.Context(), "", name, nil, []byte(value)); err != nil {
			f.Fatal(err)
		}
	}
	payments := stripe.New(paykeys.Config{Keys: keys, Now: now, HostID: func(context.Context) (identity.ID, error) { return self, nil }})
	for _, kind := range []string{"checkout.session.completed", "charge.refunded", "refund.failed", "charge.dispute.closed"} {
		for _, of := range []parseObject{newSessionParams(), refund("failed"), dispute("lost")} {
			body, err := json.Marshal(eventOf(kind, of))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(body)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: body, Secret: signing, Timestamp: noon})
		e, err := payments.ParseEvent(t.Context(), s.Header, body)
		if err != nil && !problem.Is(err, problem.Malformed) {
			t.Errorf("ParseEvent() = %v, want Malformed", err)
		}
		if e.Paid < 0 || e.RefundedTotal < 0 || e.RefundReport.Amount < 0 || e.DisputeReport.Amount < 0 || err != nil && e.Paid > 0 {
			t.Errorf("ParseEvent() = %+v, %v", e, err)
		}
	})
}
