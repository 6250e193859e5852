package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
)

// priced is a chat whose calls cost money, after its one free call, and an account of its host.
func priced(t *testing.T) (*chat, billing.Account) {
	t.Helper()
	c := newChat(t, vacants.CreateSpec{})
	c.setPrice(price.Price{Flat: 2000, FreePerSigner: 1, FreePerAddress: 9, FreeTotal: 100})
	return c, c.account("acme", 3000)
}

// account opens the account of a tenant with a balance.
func (h *hosted) account(tenant string, balance money.Amount) billing.Account {
	h.t.Helper()
	a, err := h.Billing.OpenAccount(h.t.Context(), tenant, 1)
	if err == nil && balance > 0 {
		_, _, err = h.Billing.Credit(h.t.Context(), a.ID, balance, "credit", "test")
	}
	must(h.t, err)
	return a
}

// key makes a key of an account.
func (h *hosted) key(a billing.Account, o billing.KeyOptions) (id, secret string) {
	h.t.Helper()
	k, secret, err := h.Billing.MakeKey(h.t.Context(), a.ID, o)
	must(h.t, err)
	return k.ID, secret
}

// pay types a key of an account and presses the button.
func (p *page) pay(key string) {
	p.t.Helper()
	p.until(`document.querySelector(".pay .secret") !== null && !document.querySelector(".pay button").disabled`)
	p.fill(".pay .secret", key)
	p.click(".pay button")
}

// verdict waits for the verdict on a key.
func (p *page) verdict() string {
	p.t.Helper()
	p.until(`!document.querySelector(".pay button").disabled && document.querySelector(".pay [role=status]").textContent !== ""`)
	return p.text(".pay [role=status]")
}

// A person pays on the page with a key of an account, which the page neither sends to another host nor stores.
func TestAPersonPaysOnThePage(t *testing.T) {
	c, acme := priced(t)
	_, secret := c.key(acme, billing.KeyOptions{})
	p := c.tab()
	p.say("free")
	p.heard(1)
	p.say("paid")
	got := p.refused()
	for _, want := range []string{"A call costs at most $0.002", "no account pays for your key yet", "1 call a day is free", "Key of an account of " + strings.TrimPrefix(c.url, "http://")} {
		if !strings.Contains(got, want) {
			t.Errorf("the page shows %q, want %q", got, want)
		}
	}
	for _, other := range []string{"vacancy account", "402", "terminal"} {
		if strings.Contains(got, other) {
			t.Errorf("the page shows %q, with %q", got, other)
		}
	}
	p.until(`document.querySelector(".pay") !== null`)
	p.accessible("talk-402")
	p.pay(secret)
	p.hears(2, "You said: paid")
	p.verified()
	links, err := c.Billing.Links(t.Context(), acme.ID)
	if err != nil || len(links) != 1 || links[0].Caller.String() != p.key() {
		t.Errorf("the links are %v, %v, want one of the page's key", links, err)
	}
	// The key of the account is nowhere in the browser.
	var kept string
	p.eval(`(async () => {
		const all = [document.documentElement.outerHTML, ...[...document.querySelectorAll("input, textarea")].map((e) => e.value), JSON.stringify({ ...localStorage, ...sessionStorage }), document.cookie];
		for (const { name } of await indexedDB.databases()) {
			const db = await new Promise((done) => { indexedDB.open(name).onsuccess = (e) => done(e.target.result); });
			for (const store of db.objectStoreNames) all.push(JSON.stringify(await new Promise((done) => { db.transaction(store).objectStore(store).getAll().onsuccess = (e) => done(e.target.result); })));
		}
		return all.join("\n");
	})()`, &kept)
	if strings.Contains(kept, secret[len(secret)-20:]) || !strings.Contains(kept, "You said: paid") {
		t.Errorf("the browser keeps the key of the account: %t", strings.Contains(kept, secret))
	}
	// The account has too little for another call. A key with the scope manage pays in by card.
	p.say("more")
	p.until(`document.querySelector(".pay [name=amount]") !== null`)
	expect(t, "the page", p.text(".refused:last-child"), "the account that pays for your key has less")
	p.pay(secret)
	if got := p.verdict(); !strings.Contains(got, "lacks the scope manage") && !strings.Contains(got, "does not accept card payments") {
		t.Errorf("the page shows %q", got)
	}
	var asked struct {
		Amount int64
		Key    string
	}
	_, manager := c.key(acme, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeManage}})
	c.intercept(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if r.URL.Path != billing.CheckoutPath {
			return false
		}
		asked.Key = r.Header.Get("Authorization")
		if err := json.Unmarshal(body, &asked); err != nil || r.Header.Get("Idempotency-Key") == "" {
			t.Errorf("%s: %v", body, err)
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id":"x","url":"https://checkout.example/c/1","amount":25000000}`)
		return true
	})
	p.pay(manager)
	p.until(`document.querySelector(".pay a")?.href === "https://checkout.example/c/1"`)
	if asked.Amount != 25_000_000 || asked.Key != "Bearer "+manager {
		t.Errorf("the host was asked for %+v", asked)
	}
	p.accessible("talk-checkout")
}

// key returns the id of the page's chosen key.
func (p *page) key() (id string) {
	p.t.Helper()
	p.eval(`document.querySelector("#key").value`, &id)
	return id
}

// Each key that cannot pay gets a sentence, and links nothing.
func TestAKeyThatCannotPayIsExplained(t *testing.T) {
	c, acme := priced(t)
	elsewhere := newHost(t)
	_, foreign := elsewhere.key(elsewhere.account("acme", 0), billing.KeyOptions{})
	revokedID, revoked := c.key(acme, billing.KeyOptions{})
	if _, err := c.Billing.RevokeKey(t.Context(), nil, acme.ID, revokedID); err != nil {
		t.Fatal(err)
	}
	_, test := c.key(acme, billing.KeyOptions{Test: true})
	_, reader := c.key(acme, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeRead}})
	_, caller := c.key(acme, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeCall}})
	_, capped := c.key(acme, billing.KeyOptions{DailyCap: 1000})
	_, ends := c.key(acme, billing.KeyOptions{Expires: time.Now().Add(time.Hour)})
	host := strings.TrimPrefix(c.url, "http://")
	posts := 0
	c.intercept(func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
		if strings.HasPrefix(r.URL.Path, "/v1/account") {
			posts++
		}
		return false
	})
	p := c.tab()
	p.say("free")
	p.heard(1)
	p.say("paid")
	p.refused()
	for _, tt := range []struct{ name, key, want string }{
		{"of another host", foreign, host + " does not accept this key: this host has no such key. A key is valid only at the host that made it"},
		{"revoked", revoked, "was revoked"},
		{"a test key", test, "This is a test key"},
		{"only reads", reader, "the key lacks the scope call"},
		{"only calls", caller, "the key lacks the scope read"},
		{"with a cap", capped, "without a cap"},
		{"that ends", ends, "without an end"},
		{"a password", "correct horse battery", "was not sent"},
		{"a line for a header", "vac_live_" + strings.Repeat("a", 32) + " x", "was not sent"},
	} {
		p.pay(tt.key)
		if got := p.verdict(); !strings.Contains(got, tt.want) || strings.Contains(got, tt.key) {
			t.Errorf("a key %s: the page shows %q, want %q", tt.name, got, tt.want)
		}
	}
	if links, err := c.Billing.Links(t.Context(), acme.ID); err != nil || len(links) != 0 {
		t.Errorf("the links are %v, %v", links, err)
	}
	if want := 3; posts != want { // of the live keys that may read
		t.Errorf("the page posted %d claims, want %d", posts, want)
	}
	if got := c.questions(); fmt.Sprint(got) != "[free]" {
		t.Errorf("the agent was asked %q", got)
	}
}

// A payment that ends while another call is under way does not lose its message.
func TestAPaymentDuringAnotherCallKeepsItsMessage(t *testing.T) {
	c, acme := priced(t)
	_, secret := c.key(acme, billing.KeyOptions{})
	linking, link, call := make(chan bool, 1), make(chan bool), make(chan bool)
	p := c.tab()
	p.say("free")
	p.heard(1)
	p.say("paid")
	p.refused()
	c.intercept(func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
		if strings.HasPrefix(r.URL.Path, "/v1/account") {
			linking <- true
			<-link
		} else {
			<-call
		}
		return false
	})
	p.pay(secret)
	await.Receive(t, "the page links its key", linking)
	p.say("other")
	close(link)
	expect(t, "the page", p.verdict(), "Send the message again")
	close(call)
	p.hears(2, "You said: other")
	p.click(".refused .row:last-child button")
	p.until(`document.querySelector("#message").value === "paid"`)
}
