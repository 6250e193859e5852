package account

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/paykeys"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// StripePath is where Stripe sends its webhooks.
const StripePath = TenantPath + "/stripe"

// maxEvent bounds a webhook in bytes.
const maxEvent = 256 << 10

// checkout answers with a page where the tenant pays.
func (d *api) checkout(w http.ResponseWriter, r *http.Request) error {
	b, err := read[Limit](w, r)
	if err != nil {
		return err
	}
	if err := billing.CheckPayment(b.Amount); err != nil {
		return err
	}
	key := r.Header.Get(IdempotencyKey)
	if len(key) > 255 {
		return problem.Invalid(IdempotencyKey, "at most 255 bytes", "more")
	}
	a, by, err := d.find(r, billing.ScopeManage)
	if err == nil {
		err = by.CheckLive()
	}
	if err != nil {
		return err
	}
	page, err := d.payments.Checkout(r.Context(), a.ID, b.Amount, key)
	if err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusCreated, page)
}

// returned is what a payer sees afterwards.
func (d *api) returned(w http.ResponseWriter, r *http.Request) error {
	text := "Thank you. The account has the money as soon as the payment is confirmed.\nYou may close this page.\n"
	if r.URL.Query().Get("cancelled") != "" {
		text = "Nothing was paid. You may close this page.\n"
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	_, err := io.WriteString(w, text)
	return err
}

// stripe takes a webhook. Stripe repeats it for days unless it is answered with 200, so it
// is answered when all of it is stored.
func (d *api) stripe(w http.ResponseWriter, r *http.Request) error {
	body, err := httpapi.Body(w, r, maxEvent)
	if err != nil {
		return err
	}
	// In Lambda a value with commas comes as several values.
	signature := strings.Join(r.Header.Values(paykeys.SignatureHeader), ",")
	event, err := d.payments.Event(r.Context(), signature, body)
	if err != nil {
		return err
	}
	if err := d.SettlePayment(r.Context(), event); err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, struct {
		Received bool `json:"received"`
	}{true})
}

// Checkout makes a page where the tenant of the key pays an amount.
func (c Client) Checkout(ctx context.Context, amount money.Amount, key string) (out billing.Checkout, err error) {
	var header http.Header
	if key != "" {
		header = http.Header{IdempotencyKey: {key}}
	}
	return out, c.send(ctx, http.MethodPost, billing.CheckoutPath, header, map[string]any{"amount": amount}, &out)
}
