package a2a_test

import (
	"context"
	"net/http"
	"net/url"
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
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// A call that runs when its issuer is removed completes, and is paid for. The next one is refused.
func TestAnIssuerIsRemovedInTheMiddleOfAStream(t *testing.T) {
	begun, goOn := make(chan bool), make(chan bool)
	w := &paying{world: openWorld(t, true, func(c *serve.Config) {
		c.HasAccounts, c.NewTokenChecker = true, tokens.NewForBilling
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
	must(t, err)
	w.credit("acme", money.Dollar)
	i, err := w.server.Billing.AddIssuer(t.Context(), a.ID, login.URL, billing.IssuerOptions{SubjectDailyCap: money.Dollar, TotalDailyCap: money.Dollar, AllowAll: true})
	must(t, err)
	token, err := tokenstest.Sign("EdDSA", "EdDSA", map[string]any{"iss": login.URL, "sub": "ann", "aud": w.http.URL + "/v/" + w.echo.ID.String(), "exp": time.Now().Add(time.Hour).Unix()}, nil)
	must(t, err)
	header := "Authorization: Bearer " + token
	ended := make(chan answer)
	go func() { ended <- w.rpc("/v/slow", "SendStreamingMessage", message("hi", ""), header) }()
	await.Receive(t, "the agent is asked", begun)
	_, err = w.server.Billing.RemoveIssuer(t.Context(), i.ID)
	must(t, err)
	goOn <- true
	if got := await.Receive(t, "the stream ends", ended); !strings.Contains(got.body, "TASK_STATE_COMPLETED") {
		t.Errorf("the stream: %d %s", got.status, got.body)
	}
	w.wantBalance("acme", money.Dollar-2000)
	if got := w.rpc("/v/slow", "SendMessage", message("hi", ""), header); got.status != http.StatusUnauthorized || !strings.Contains(got.body, "does not accept tokens from the issuer") {
		t.Errorf("the next call: %d %s", got.status, got.body)
	}
}

// A token is good at the address that it names, however a request spells another one.
func TestATokenIsGoodAtItsAddressOnly(t *testing.T) {
	w := &paying{world: openWorld(t, true, func(c *serve.Config) { c.HasAccounts, c.NewTokenChecker = true, tokens.NewForBilling }).runs()}
	w.echo = w.create("clerk", "echo")
	other := w.create("other", "echo")
	login := tokenstest.New()
	t.Cleanup(login.Close)
	a, err := w.server.Billing.OpenAccount(t.Context(), "acme", 1)
	must(t, err)
	_, err = w.server.Billing.AddIssuer(t.Context(), a.ID, login.URL, billing.IssuerOptions{SubjectDailyCap: money.Dollar, TotalDailyCap: money.Dollar, AllowAll: true})
	must(t, err)
	token := func(aud string) string {
		token, err := tokenstest.Sign("EdDSA", "EdDSA", map[string]any{"iss": login.URL, "sub": "ann", "aud": aud, "exp": time.Now().Add(time.Hour).Unix()}, nil)
		must(t, err)
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
		{path: "/v/clerk", aud: clerk + "/text", good: true},
		{path: "/v/clerk", aud: clerk + "/v1/chat/completions", good: true},
		{path: "/v/clerk", aud: clerk + "/../other"},
		{path: "/v/clerk", aud: clerk + "er/text"},
		{path: "/v/other", aud: clerk + "/text"},
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

// A host on loopback has several names. Its metadata and its tokens have the one that the client uses.
func TestTokensAtAnotherNameOfLoopback(t *testing.T) {
	w, login := &paying{world: openWorld(t, true, func(c *serve.Config) { c.HasAccounts, c.NewTokenChecker = true, tokens.NewForBilling }).runs()}, tokenstest.New()
	t.Cleanup(login.Close)
	w.listIssuer(login.URL)
	base, err := url.Parse(w.http.URL)
	must(t, err)
	for host, want := range map[string]string{
		"localhost:" + base.Port(): "http://localhost:" + base.Port(), "[::1]:" + base.Port(): "http://[::1]:" + base.Port(),
		// Another program on this machine, and names that may be anybody's.
		"localhost:1": w.http.URL, "evil.example:" + base.Port(): w.http.URL, "localhost.evil.example:" + base.Port(): w.http.URL,
	} {
		for _, path := range []string{"", "/", "/mcp", "/mcp/", "/v1", "/v1/", "/v/echo", "/v/echo/", "/v/echo/mcp", "/v/echo/mcp/", "/v/echo/v1", "/v/echo/v1/"} {
			got := w.do("GET", "/.well-known/oauth-protected-resource"+path, "", "Host: "+host)
			if resource := at(t, got.body, "resource"); got.status != http.StatusOK || resource != want+path {
				t.Errorf("the metadata of %s at %s: %d %s, want the resource %s", path, host, got.status, got.body, want+path)
			}
		}
		token, err := tokenstest.Sign("EdDSA", "EdDSA", map[string]any{"iss": login.URL, "sub": "ann", "aud": "http://" + host + "/v/echo", "exp": time.Now().Add(time.Hour).Unix()}, nil)
		must(t, err)
		got := w.rpc("/v/echo", "ListTasks", "{}", "Host: "+host, "Authorization: Bearer "+token)
		if good := want == "http://"+host; (got.status == http.StatusOK) != good {
			t.Errorf("a token for %s: %d %s, want it accepted: %t", host, got.status, got.body, good)
		}
		metadata := `resource_metadata="` + want + `/.well-known/oauth-protected-resource/v/echo"`
		if got := w.rpc("/v/echo", "ListTasks", "{}", "Host: "+host, "Authorization: Bearer x"); got.status != http.StatusUnauthorized || !strings.Contains(got.header.Get("WWW-Authenticate"), metadata) {
			t.Errorf("the challenge at %s: %d %s, want %s", host, got.status, got.header.Get("WWW-Authenticate"), metadata)
		}
	}
}

// listIssuer lets tokens of an issuer of acme be accepted everywhere.
func (w *paying) listIssuer(issuer string) {
	w.t.Helper()
	a, err := w.server.Billing.OpenAccount(w.t.Context(), "acme", 1)
	if err == nil {
		_, err = w.server.Billing.AddIssuer(w.t.Context(), a.ID, issuer, billing.IssuerOptions{SubjectDailyCap: money.Dollar, TotalDailyCap: money.Dollar, AllowAll: true, Publish: true})
	}
	must(w.t, err)
	w.skip.Add(int64(2 * time.Second)) // issuers are cached for a second
}

// A guest at a priced vacant is led to the login by each protocol, and told the price. Everybody else gets 402.
func TestAGuestWhoHasToPayIsLedToTheLogin(t *testing.T) {
	w := &paying{world: openWorld(t, true, func(c *serve.Config) { c.HasAccounts, c.NewTokenChecker = true, tokens.NewForBilling }).runs()}
	w.setPrice(price.Price{Flat: 2000})
	text := func(headers ...string) answer {
		return w.do("POST", "/v/echo/text", "hi", append(headers, "Content-Type: text/plain")...)
	}
	ways := map[string]func(headers ...string) answer{
		"A2A": func(h ...string) answer { return w.rpc("/v/echo", "SendMessage", message("hi", ""), h...) },
		"A2A 0.3": func(h ...string) answer {
			return w.rpc("/v/echo", "message/send", `{"message":{"kind":"message","messageId":"m1","role":"user","parts":[{"kind":"text","text":"hi"}]}}`, h...)
		},
		"stream": func(h ...string) answer { return w.rpc("/v/echo", "SendStreamingMessage", message("hi", ""), h...) },
		"REST": func(h ...string) answer {
			return w.do("POST", "/v/echo/message:send", message("hi", ""), append(h, "A2A-Version: 1.0")...)
		},
		"REST stream": func(h ...string) answer {
			return w.do("POST", "/v/echo/message:stream", message("hi", ""), append(h, "A2A-Version: 1.0")...)
		},
		"OpenAI": func(h ...string) answer { return w.do("POST", "/v/echo/v1/chat/completions", asking("hi", ""), h...) },
		"OpenAI host": func(h ...string) answer {
			return w.do("POST", "/v1/chat/completions", `{"model":"echo","messages":[{"role":"user","content":"hi"}]}`, h...)
		},
		"text":        text,
		"text stream": func(h ...string) answer { return text(append(h, "Accept: text/event-stream")...) },
	}
	check := func(when string, led bool, headers ...string) {
		t.Helper()
		for name, ask := range ways {
			got := ask(headers...)
			challenge := got.header.Get("WWW-Authenticate")
			if !led {
				if got.status == http.StatusUnauthorized || challenge != "" || !strings.Contains(got.body, "price is") && !strings.Contains(got.body, "does not cover") {
					t.Errorf("%s, %s: %d %s %s, want how to pay", name, when, got.status, challenge, got.body)
				}
				continue
			}
			resource := w.http.URL + "/.well-known/oauth-protected-resource"
			if name != "OpenAI host" {
				resource += "/v/echo"
			}
			if want := `Bearer realm="vacancy", scope="call", resource_metadata="` + resource + `"`; got.status != http.StatusUnauthorized || challenge != want {
				t.Errorf("%s, %s: %d %s, want 401 %s", name, when, got.status, challenge, want)
			}
			if !strings.Contains(got.body, "the price is $0.002") || !strings.Contains(got.body, "; or log in at https://login.example") {
				t.Errorf("%s, %s: %s, want the price and the login", name, when, got.body)
			}
		}
	}
	check("without an issuer", false)
	w.listIssuer("https://login.example")
	check("a guest", true)
	check("an account without money", false, "Authorization: Bearer "+w.key("poor", false))
	if got := ways["A2A"](); !strings.Contains(got.body, `"pay":"[`) {
		t.Errorf("the refusal is %s, want the price and the ways to pay for programs", got.body)
	}
	// A vacant that signs cannot log in.
	if got := w.rpc("/v/echo", "SendMessage", params1(w.signer().envelope(w.echo.ID, 1, identity.Hash{}, "hi", "", ""), "")); got.status == http.StatusUnauthorized || !strings.Contains(got.body, "PAYMENT_REQUIRED") {
		t.Errorf("a signed message: %d %s", got.status, got.body)
	}
}

// A token whose scope does not name call calls nothing, and its client is told the scope.
func TestATokenOfAnotherScopeIsToldTheScope(t *testing.T) {
	w, login := &paying{world: openWorld(t, true, func(c *serve.Config) { c.HasAccounts, c.NewTokenChecker = true, tokens.NewForBilling }).runs()}, tokenstest.New()
	t.Cleanup(login.Close)
	w.listIssuer(login.URL)
	for scope, good := range map[string]bool{"read": false, "openid profile": false, "call openid": true} {
		token, err := tokenstest.Sign("EdDSA", "EdDSA", map[string]any{"iss": login.URL, "sub": "ann", "aud": w.http.URL + "/v/echo", "exp": time.Now().Add(time.Hour).Unix(), "scope": scope}, nil)
		must(t, err)
		header := "Authorization: Bearer " + token
		for name, got := range map[string]answer{
			"A2A":    w.rpc("/v/echo", "ListTasks", "{}", header),
			"REST":   w.do("GET", "/v/echo/tasks", "", header, "A2A-Version: 1.0"),
			"OpenAI": w.do("POST", "/v/echo/v1/chat/completions", asking("hi", ""), header),
			"text":   w.do("POST", "/v/echo/text", "hi", header, "Content-Type: text/plain"),
		} {
			challenge := got.header.Get("WWW-Authenticate")
			want := `Bearer realm="vacancy", error="insufficient_scope", scope="call", resource_metadata="` + w.http.URL + `/.well-known/oauth-protected-resource/v/echo"`
			if good && got.status != http.StatusOK || !good && (got.status != http.StatusForbidden || challenge != want || !strings.Contains(got.body, "the token lacks the scope call")) {
				t.Errorf("scope %q by %s: %d %s %s", scope, name, got.status, challenge, got.body)
			}
		}
	}
}

// A page of another site sends nothing by any protocol: POST …:cancel has a body of any form.
func TestPagesOfOtherSitesChangeNothing(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct{ path, body string }{
		{"/v/echo", `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}`}, {"/v/echo/tasks/x:cancel", ""}, {"/v/echo/tasks/x:subscribe", ""}, {"/v/echo/message:send", message("hi", "")},
		{"/v/echo/text", "hi"}, {"/v/echo/v1/chat/completions", asking("hi", "")}, {"/v1/account/links", "{}"}, {"/v/echo/a2a/message/send", "{}"},
	} {
		for _, mark := range []string{"Origin: https://evil.example", "Origin: null", "Origin: ", "Origin: https://127.0.0.1", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"} {
			got := w.do("POST", tt.path, tt.body, mark, "Content-Type: text/plain")
			if got.status != http.StatusForbidden || !strings.Contains(got.body, "this host refuses requests from pages of other sites") || got.header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("POST %s with %s: %d %v %s, want 403", tt.path, mark, got.status, got.header, got.body)
			}
		}
		for _, mark := range []string{"Origin: " + w.http.URL, "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none"} {
			if got := w.do("POST", tt.path, tt.body, mark, "Content-Type: text/plain"); got.status == http.StatusForbidden {
				t.Errorf("POST %s with %s: %d %s", tt.path, mark, got.status, got.body)
			}
		}
	}
}
