package account

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/paykeys"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const maxEventBytes = 256 << 10

func (d *api) startPayment(ctx context.Context, in PaymentRequest) (page billing.Checkout, err error) {
	if err := billing.CheckPayment(in.Body.Amount); err != nil {
		return page, err
	}
	if len(in.Key) > 255 {
		return page, problem.Invalid(IdempotencyHeader, "at most 255 bytes", "more")
	}
	a, err := d.findAccount(ctx, Ref{})
	if err == nil {
		page, err = d.payments.CreateCheckout(ctx, a.ID, in.Body.Amount, in.Key)
	}
	return page, err
}

func (d *api) showCheckoutReturn(w http.ResponseWriter, r *http.Request) error {
	text := "Thank you. The account is credited as soon as the payment is confirmed.\nYou may close this page.\n"
	if r.URL.Query().Get("cancelled") != "" {
		text = "Nothing was paid. You may close this page.\n"
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	_, err := io.WriteString(w, text)
	return err
}

// receiveStripeEvent answers only after the complete event is stored, because Stripe repeats a
// webhook for days until it gets status 200.
func (d *api) receiveStripeEvent(w http.ResponseWriter, r *http.Request) error {
	body, err := httpapi.ReadBody(w, r, maxEventBytes)
	if err != nil {
		return err
	}
	// Lambda splits a header value at its commas, so the parts are joined again.
	signature := strings.Join(r.Header.Values(paykeys.SignatureHeader), ",")
	event, err := d.payments.ParseEvent(r.Context(), signature, body)
	if err != nil {
		return err
	}
	if err := d.SettlePayment(r.Context(), event); err != nil {
		return err
	}
	return httpapi.SendJSON(w, http.StatusOK, struct {
		Received bool `json:"received"`
	}{true})
}
