package a2a_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
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
	await.Receive(t, "the agent is asked", begun)
	if _, err := w.server.Billing.RemoveIssuer(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	goOn <- true
	if got := await.Receive(t, "the stream ends", ended); !strings.Contains(got.body, "TASK_STATE_COMPLETED") {
		t.Errorf("the stream: %d %s", got.status, got.body)
	}
	w.wantBalance("acme", money.Dollar-2000)
	if got := w.rpc("/v/slow", "SendMessage", message("hi", ""), header); got.status != http.StatusUnauthorized || !strings.Contains(got.body, "do not count here") {
		t.Errorf("the next call: %d %s", got.status, got.body)
	}
}

// A token is good at the address that it names, however a request spells another one.
func TestATokenIsGoodAtItsAddressOnly(t *testing.T) {
	w := &paying{world: openWorld(t, true, func(c *serve.Config) { c.Charges, c.Tokens = true, tokens.ForBilling }).runs()}
	w.echo = w.create("clerk", "echo")
	other := w.create("other", "echo")
	login := tokenstest.New()
	t.Cleanup(login.Close)
	a, err := w.server.Billing.OpenAccount(t.Context(), "acme", 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.server.Billing.AddIssuer(t.Context(), a.ID, login.URL, billing.IssuerOptions{Cap: money.Dollar, Most: money.Dollar, Anybody: true}); err != nil {
		t.Fatal(err)
	}
	token := func(aud string) string {
		token, err := tokenstest.Sign("EdDSA", "EdDSA", map[string]any{"iss": login.URL, "sub": "ann", "aud": aud, "exp": time.Now().Add(time.Hour).Unix()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return "Authorization: Bearer " + token
	}
	base, clerk, id := w.http.URL, w.http.URL+"/v/clerk", w.echo.ID.String()
	for _, c := range []struct {
		path, aud string
		more      []string
		good      bool
	}{
		{path: "/v/clerk", aud: clerk, good: true},
		{path: "/v/clerk/", aud: clerk, good: true},
		{path: "/v/clerk", aud: clerk + "/", good: true},
		{path: "/v/cl%65rk", aud: clerk, good: true},
		{path: "/v/" + id, aud: clerk, good: true},
		{path: "/v/" + strings.ToUpper(id), aud: clerk, good: true},
		{path: "/v/clerk", aud: base + "/v/" + id, good: true},
		{path: "/v/clerk", aud: clerk + "/mcp", good: true},
		{path: "/v/clerk", aud: base},
		{path: "/v/clerk", aud: base + "/v/"},
		{path: "/v/clerk", aud: clerk + "//"},
		{path: "/v/clerk", aud: strings.Replace(clerk, "clerk", "Clerk", 1)},
		{path: "/v/clerk", aud: strings.Replace(clerk, "http:", "HTTP:", 1)},
		{path: "/v/clerk", aud: strings.Replace(clerk, "http:", "https:", 1)},
		{path: "/v/clerk", aud: "/v/clerk"},
		{path: "/v/clerk", aud: "https://evil.example/v/clerk", more: []string{"X-Forwarded-Host: evil.example", "X-Forwarded-Proto: https", "Forwarded: host=evil.example;proto=https"}},
		{path: "/v/other", aud: clerk},
		{path: "/v/other/", aud: clerk},
		{path: "/v/other?/v/clerk", aud: clerk},
		{path: "/v/clerk/../other", aud: clerk},
		{path: "/v/clerk%2f..%2fother", aud: clerk},
		{path: "/v/%6fther", aud: clerk},
		{path: "/v/" + strings.ToUpper(other.ID.String()), aud: clerk},
		{path: "//v/other", aud: clerk},
	} {
		got := w.rpc(c.path, "ListTasks", "{}", append(c.more, token(c.aud))...)
		if c.good != (got.status == http.StatusOK && strings.Contains(got.body, `"result"`)) || !c.good && got.status < 300 {
			t.Errorf("POST %s with a token for %s: %d %s, want good %t", c.path, c.aud, got.status, got.body, c.good)
		}
	}
	completion := `{"model":"other","messages":[{"role":"user","content":"hi"}]}`
	for path, aud := range map[string]string{"/v1/chat/completions": clerk, "/v/other/v1/chat/completions": clerk, "/v/clerk/v1/chat/completions": base} {
		if got := w.do("POST", path, completion, token(aud)); got.status != http.StatusUnauthorized {
			t.Errorf("POST %s with a token for %s: %d %s, want 401", path, aud, got.status, got.body)
		}
	}
	if got := w.do("POST", "/v1/chat/completions", completion, token(base)); got.status != http.StatusOK {
		t.Errorf("the host's own address, with a token for it: %d %s", got.status, got.body)
	}
}
