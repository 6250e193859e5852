package a2a_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/tokens"
	"github.com/vacancy-host/vacancy/shared/host/billing/tokens/tokenstest"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
)

// A call that runs when its issuer is removed completes, and is paid for. The next one is refused.
func TestAnIssuerIsRemovedInTheMiddleOfAStream(t *testing.T) {
	begun, goOn := make(chan bool), make(chan bool)
	w := &paying{world: openWorld(t, true, func(c *serve.Config) {
		c.Charges, c.Tokens = true, tokens.ForBilling
		c.Substrates["slow"] = func(string) (substrate.Substrate, error) {
			return substrate.Func(func(ctx context.Context, _ substrate.Request) (string, error) {
				begun <- true
				select {
				case <-goOn:
				case <-ctx.Done():
				}
				return "done", ctx.Err()
			}), nil
		}
	}).runs()}
	w.echo = w.create("slow", "slow")
	w.setPrice(price.Price{Flat: 2000})
	login := tokenstest.New()
	t.Cleanup(login.Close)
	a, err := w.server.Billing.OpenAccount(t.Context(), "acme", 1)
	if err != nil {
		t.Fatal(err)
	}
	w.credit("acme", money.Dollar)
	i, err := w.server.Billing.AddIssuer(t.Context(), a.ID, login.URL, billing.IssuerOptions{Cap: money.Dollar, Most: money.Dollar, Anybody: true})
	if err != nil {
		t.Fatal(err)
	}
	token, err := tokenstest.Sign("EdDSA", "EdDSA", map[string]any{"iss": login.URL, "sub": "ann", "aud": w.http.URL + "/v/" + w.echo.ID.String(), "exp": time.Now().Add(time.Hour).Unix()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	header := "Authorization: Bearer " + token
	ended := make(chan answer)
	go func() { ended <- w.rpc("/v/slow", "SendStreamingMessage", message("hi", ""), header) }()
	<-begun
	if _, err := w.server.Billing.RemoveIssuer(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	goOn <- true
	if got := <-ended; !strings.Contains(got.body, "TASK_STATE_COMPLETED") {
		t.Errorf("the stream: %d %s", got.status, got.body)
	}
	w.wantBalance("acme", money.Dollar-2000)
	if got := w.rpc("/v/slow", "SendMessage", message("hi", ""), header); got.status != http.StatusUnauthorized || !strings.Contains(got.body, "do not count here") {
		t.Errorf("the next call: %d %s", got.status, got.body)
	}
}
