// Package stripe accepts payments with Stripe. It creates Checkout pages and handles Stripe's
// webhooks.
//
// An account is credited only by a webhook that Stripe signed with the host's own key and that
// contains this host's id. Keys are sent only to the host to which they are bound.
package stripe

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	api "github.com/stripe/stripe-go/v84"
	"github.com/stripe/stripe-go/v84/webhook"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/paykeys"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	maxClockSkew   = 300 * time.Second
	requestTimeout = 15 * time.Second
	currency       = "usd"
	// metaHost and metaAccount are metadata members, which payers cannot set.
	metaHost    = "vacancy_host"
	metaAccount = "vacancy_account"
)

type Payments struct{ paykeys.Config }

func New(c paykeys.Config) billing.Payments { return &Payments{c} }

// loadKeys requires both keys, because without a webhook a payment would not be credited.
func (p *Payments) loadKeys(ctx context.Context) (apiKey, webhookKey string, err error) {
	webhookKey, err = p.Keys.Use(ctx, "", paykeys.StripeWebhookKey)
	if err == nil {
		apiKey, err = p.Keys.Use(ctx, "", paykeys.StripeAPIKey)
	}
	if problem.Is(err, problem.NotFound) {
		err = problem.New(problem.NotFound, "this host does not accept payments by card")
	}
	return apiKey, webhookKey, err
}

func (p *Payments) CreateCheckout(ctx context.Context, account string, amount money.Amount, idempotencyKey string) (out billing.Checkout, err error) {
	apiKey, _, err := p.loadKeys(ctx)
	if err != nil {
		return out, err
	}
	info, err := p.Keys.Info(ctx, "", paykeys.StripeAPIKey)
	if err != nil {
		return out, err
	}
	self, err := p.HostID(ctx)
	if err != nil {
		return out, err
	}
	baseURL, err := p.BaseURL(ctx)
	if err == nil && baseURL == "" {
		err = problem.New(problem.Unavailable, "this host has no URL yet to which payers can return")
	}
	if err != nil {
		return out, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	session, err := p.newClient(apiKey, info.Hosts[0]).V1CheckoutSessions.Create(ctx, newSessionParams(self, baseURL, account, amount, idempotencyKey))
	if err != nil {
		return out, payerError(err, apiKey)
	}
	if session.ID == "" || session.URL == "" {
		return out, problem.New(problem.Untrusted, "the payment provider returned no payment page")
	}
	return billing.Checkout{ID: session.ID, URL: session.URL, Amount: amount, Expires: time.Unix(session.ExpiresAt, 0).UTC()}, nil
}

func (p *Payments) newClient(apiKey, host string) *api.Client {
	u := url.URL{Scheme: "https", Host: host}
	if outbound.IsThisMachine(u.Hostname()) { // plain HTTP is safe within this machine
		u.Scheme = "http"
	}
	return api.NewClient(apiKey, api.WithBackends(&api.Backends{API: api.GetBackendWithConfig(api.APIBackend, &api.BackendConfig{
		HTTPClient: p.Client.ForActor(outbound.HostActor(outbound.Operator)).HTTPClient(), URL: api.String(u.String()),
		LeveledLogger: &api.LeveledLogger{Level: api.LevelNull},
		// The library must not retry, because its pauses ignore the context.
		MaxNetworkRetries: api.Int64(0),
		EnableTelemetry:   api.Bool(false),
	})}))
}

// newSessionParams also sets the metadata on the payment, so that Stripe shows it to the operator.
func newSessionParams(self identity.ID, baseURL, account string, amount money.Amount, idempotencyKey string) *api.CheckoutSessionCreateParams {
	meta := map[string]string{metaHost: self.String(), metaAccount: account}
	returnURL := strings.TrimRight(baseURL, "/") + billing.CheckoutPath
	s := &api.CheckoutSessionCreateParams{
		Mode: api.String(string(api.CheckoutSessionModePayment)), SuccessURL: &returnURL, CancelURL: api.String(returnURL + "?cancelled=true"), Metadata: meta,
		AdaptivePricing:   &api.CheckoutSessionCreateAdaptivePricingParams{Enabled: api.Bool(false)}, // no other currency
		PaymentIntentData: &api.CheckoutSessionCreatePaymentIntentDataParams{Metadata: meta},
		LineItems: []*api.CheckoutSessionCreateLineItemParams{{Quantity: api.Int64(1), PriceData: &api.CheckoutSessionCreateLineItemPriceDataParams{
			Currency: api.String(currency), UnitAmount: api.Int64(int64(amount / billing.Cent)),
			ProductData: &api.CheckoutSessionCreateLineItemPriceDataProductDataParams{Name: api.String("Credit for account " + account[:min(len(account), 12)])},
		}}},
	}
	// The library's value would contain the name and the kernel of this machine.
	s.Headers = http.Header{"X-Stripe-Client-User-Agent": {"{}"}}
	if idempotencyKey != "" {
		sum := sha256.Sum256([]byte(account + "\x1f" + idempotencyKey))
		s.IdempotencyKey = api.String(hex.EncodeToString(sum[:]))
	}
	return s
}

// payerError hides the key, which Stripe's answer may contain.
func payerError(err error, apiKey string) error {
	var apiErr *api.Error
	if errors.As(err, &apiErr) {
		cause := problem.New(problem.Internal, "status %d, type %s, code %s, parameter %s, request %s", apiErr.HTTPStatusCode, apiErr.Type, apiErr.Code, apiErr.Param, apiErr.RequestID)
		if apiErr.Type == api.ErrorTypeIdempotency {
			return problem.Wrap(problem.IdempotencyConflict, cause, "the idempotency key was used for another payment")
		}
		return problem.Wrap(problem.Unavailable, cause, "the payment provider refuses requests of this host now; try again later")
	}
	var problemErr *problem.Error
	if errors.As(err, &problemErr) {
		return problemErr
	}
	cause := errors.New(strings.ReplaceAll(err.Error(), apiKey, "[key]"))
	return problem.Wrap(problem.Unavailable, cause, "the payment provider did not answer correctly; try again later")
}

func (p *Payments) ParseEvent(ctx context.Context, signature string, body []byte) (out billing.Event, err error) {
	apiKey, webhookKey, err := p.loadKeys(ctx)
	if err != nil {
		return out, err
	}
	if err := p.checkSignatureTime(signature); err != nil {
		return out, err
	}
	// checkSignatureTime has checked the time. The parsed members are the same in all API versions.
	e, err := webhook.ConstructEventWithOptions(body, signature, webhookKey, webhook.ConstructEventOptions{IgnoreTolerance: true, IgnoreAPIVersionMismatch: true})
	switch {
	case errors.Is(err, webhook.ErrNoValidSignature), errors.Is(err, webhook.ErrInvalidHeader):
		return out, problem.Invalid(paykeys.SignatureHeader, "a signature of the body with this host's webhook key", "another")
	case err != nil:
		return out, problem.Wrap(problem.Malformed, err, "the body is not an event")
	case e.Livemode != paykeys.IsLive(apiKey):
		return out, problem.Invalid("livemode", strconv.FormatBool(paykeys.IsLive(apiKey))+", as for the API key", strconv.FormatBool(e.Livemode))
	case e.Data == nil:
		return out, problem.Invalid("data", "an object", "none")
	}
	switch e.Type {
	case api.EventTypeCheckoutSessionCompleted, api.EventTypeCheckoutSessionAsyncPaymentSucceeded:
		return p.parsePayment(ctx, e.Data.Raw)
	case api.EventTypeChargeRefunded:
		return parseRefundedTotal(e.Data.Raw)
	case api.EventTypeRefundCreated, api.EventTypeRefundUpdated, api.EventTypeRefundFailed, api.EventTypeChargeRefundUpdated:
		return parseRefund(e.Data.Raw)
	case api.EventTypeChargeDisputeCreated, api.EventTypeChargeDisputeUpdated, api.EventTypeChargeDisputeClosed,
		api.EventTypeChargeDisputeFundsWithdrawn, api.EventTypeChargeDisputeFundsReinstated:
		return parseDispute(e.Data.Raw)
	}
	return out, nil
}

// checkSignatureTime returns an error unless the time of a signature is recent. It rejects a header
// with two times, because the library could verify the signature with the other time.
func (p *Payments) checkSignatureTime(signature string) error {
	if signature == "" {
		return problem.Invalid(paykeys.SignatureHeader, "t=SECONDS,v1=HEX", "none")
	}
	var times []string
	for part := range strings.SplitSeq(signature, ",") {
		if t, ok := strings.CutPrefix(part, "t="); ok {
			times = append(times, t)
		}
	}
	if len(times) != 1 {
		return problem.Invalid(paykeys.SignatureHeader, "one time, t=SECONDS", strconv.Itoa(len(times)))
	}
	seconds, err := strconv.ParseInt(times[0], 10, 64)
	if err != nil {
		return problem.Invalid(paykeys.SignatureHeader, "t=SECONDS", "another text")
	}
	if age := p.Now().Sub(time.Unix(seconds, 0)); age > maxClockSkew || age < -maxClockSkew {
		return problem.Invalid(paykeys.SignatureHeader, "a time within 300 s of the host's", time.Unix(seconds, 0).UTC().Format(time.RFC3339))
	}
	return nil
}

func parseObject(objectType string, raw json.RawMessage, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return problem.Wrap(problem.Malformed, err, "data.object: expected a %s", objectType)
	}
	return nil
}

func (p *Payments) parsePayment(ctx context.Context, raw json.RawMessage) (out billing.Event, err error) {
	var s api.CheckoutSession
	if err := parseObject("session of Checkout", raw, &s); err != nil {
		return out, err
	}
	self, err := p.HostID(ctx)
	if err != nil || s.Metadata[metaHost] != self.String() || s.PaymentStatus != api.CheckoutSessionPaymentStatusPaid {
		return out, err
	}
	if s.PaymentIntent == nil || s.PaymentIntent.ID == "" {
		return out, problem.Invalid("data.object.payment_intent", "an id", "none")
	}
	if s.Metadata[metaAccount] == "" {
		return out, problem.Invalid("data.object.metadata."+metaAccount, "the id of an account", "none")
	}
	amount, err := parseCents("amount_total", s.Currency, s.AmountTotal)
	return billing.Event{PaymentID: s.PaymentIntent.ID, Account: s.Metadata[metaAccount], Paid: amount}, err
}

func parseRefundedTotal(raw json.RawMessage) (out billing.Event, err error) {
	var c api.Charge
	if err := parseObject("charge", raw, &c); err != nil || c.PaymentIntent == nil || cmp.Or(c.Currency, currency) != currency {
		return out, err // a charge in another currency belongs to another business
	}
	amount, err := parseCents("amount_refunded", c.Currency, c.AmountRefunded)
	return billing.Event{PaymentID: c.PaymentIntent.ID, RefundedTotal: amount}, err
}

func parseRefund(raw json.RawMessage) (out billing.Event, err error) {
	var r api.Refund
	if err := parseObject("refund", raw, &r); err != nil || r.PaymentIntent == nil || cmp.Or(r.Currency, currency) != currency {
		return out, err
	}
	if r.ID == "" {
		return out, problem.Invalid("data.object.id", "an id", "none")
	}
	// A refund may fail after it has succeeded. In all other states, the payer gets the money.
	failed := r.Status == api.RefundStatusFailed || r.Status == api.RefundStatusCanceled
	amount, err := parseCents("amount", r.Currency, r.Amount)
	return billing.Event{PaymentID: r.PaymentIntent.ID, RefundID: r.ID, RefundReport: billing.Refund{Amount: amount, Failed: failed}}, err
}

func parseDispute(raw json.RawMessage) (out billing.Event, err error) {
	var d api.Dispute
	if err := parseObject("dispute", raw, &d); err != nil || d.PaymentIntent == nil || cmp.Or(d.Currency, currency) != currency {
		return out, err
	}
	// An inquiry, which has none of these states, moves no money.
	var state billing.DisputeState
	switch d.Status {
	case api.DisputeStatusNeedsResponse, api.DisputeStatusUnderReview:
		state = billing.DisputeOpen
	case api.DisputeStatusLost:
		state = billing.DisputeLost
	case api.DisputeStatusWon:
		state = billing.DisputeWon
	default:
		return out, nil
	}
	if d.ID == "" {
		return out, problem.Invalid("data.object.id", "an id", "none")
	}
	amount, err := parseCents("amount", d.Currency, d.Amount)
	return billing.Event{PaymentID: d.PaymentIntent.ID, DisputeID: d.ID, DisputeReport: billing.Dispute{Amount: amount, State: state}}, err
}

func parseCents(field string, gotCurrency api.Currency, centCount int64) (money.Amount, error) {
	field = "data.object." + field
	switch {
	case gotCurrency != currency:
		return 0, problem.Invalid(field, "an amount in "+currency, string(gotCurrency[:min(len(gotCurrency), 8)]))
	case centCount < 0 || centCount > int64(money.Max/billing.Cent):
		return 0, problem.Invalid(field, "cents from 0", strconv.FormatInt(centCount, 10))
	}
	return money.Amount(centCount) * billing.Cent, nil
}
