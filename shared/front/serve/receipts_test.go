package serve_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/readproof"
	"github.com/vacancy-host/vacancy/shared/vacant/receipt"
)

// idOnly is an identity whose key this process may not use, as in the function gateway.
type idOnly struct{ id identity.ID }

func (i idOnly) ID() identity.ID { return i.id }

func (i idOnly) Sign(context.Context, []byte) ([]byte, error) {
	return nil, problem.New(problem.Forbidden, "this process may not sign as the host")
}

// A receipt is for the caller, the payer and the owner; for others there is none. The process
// that signs it cannot sign as the host, so until the host has certified a key it is unavailable.
func TestAReceiptIsForCallerPayerAndOwner(t *testing.T) {
	vault, err := local.FromHex(strings.Repeat("5a", 32), rand.Reader)
	must(t, err)
	must := func(err error) {
		t.Helper()
		must(t, err)
	}
	ctx := t.Context()
	c := serve.Config{Store: memory.New(), Vault: vault, URL: "http://127.0.0.1:8080", Log: slog.New(slog.DiscardHandler), Now: time.Now, Rand: rand.Reader, HasAccounts: true}
	host, err := identity.NewKey(rand.Reader)
	must(err)
	maker := c
	maker.HoldsIdentity = true
	maker.Identity = func(context.Context) (identity.Signer, error) { return host, nil }
	c.Identity = func(context.Context) (identity.Signer, error) { return idOnly{host.ID()}, nil }
	s, err := c.Open()
	must(err)
	defer s.Vacants.Close()
	r, err := s.Vacants.Create(ctx, vacants.CreateSpec{Name: "demo", Capability: "echoes", Substrate: "echo", Tenant: "owner"})
	must(err)
	_, err = s.Vacants.SetPrice(ctx, r.ID, price.Price{Flat: 2000})
	must(err)
	keys := map[string]string{}
	var payer string
	for _, tenant := range []string{"payer", "owner", "other"} {
		a, err := s.Billing.OpenAccount(ctx, tenant, 1)
		must(err)
		_, keys[tenant], err = s.Billing.MakeKey(ctx, a.ID, billing.KeyOptions{})
		must(err)
		if tenant == "payer" {
			payer = a.ID
			_, _, err = s.Billing.Credit(ctx, a.ID, 10_000, "first", "")
			must(err)
			_, keys["payer, to call"], err = s.Billing.MakeKey(ctx, a.ID, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeCall}})
			must(err)
		}
	}
	who, err := identity.NewKey(rand.Reader)
	must(err)
	stranger, err := identity.NewKey(rand.Reader)
	must(err)
	self, err := s.Vacants.HostID(ctx)
	must(err)
	one := claim.PaymentClaim{Host: self, Account: payer}
	must(one.Sign(ctx, who, time.Now()))
	_, err = s.Billing.Link(ctx, payer, one.String())
	must(err)

	public := serve.Handlers{Message: s.MessageHandler(), Account: s.AccountHandler(nil)}.Public()
	e := &envelope.Envelope{From: who.ID(), To: r.ID, Seq: 1, Time: time.Now().UTC().Truncate(time.Microsecond), Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"hi"}}}
	_, err = e.Sign(ctx, who)
	must(err)
	call := httptest.NewRequest("POST", "/a2a/message/send", bytes.NewReader(envelope.AppendRequest(nil, nil, e)))
	call.Header.Set("Content-Type", "application/json")
	answered := httptest.NewRecorder()
	public.ServeHTTP(answered, call)
	path := answered.Header().Get("Vacancy-Receipt")
	if answered.Code != 200 || path != "/v1/account/receipts/"+who.ID().String()+"/"+r.ID.String()+"/1" {
		t.Fatalf("the call: %d %s, receipt %q", answered.Code, answered.Body, path)
	}
	// The same bytes again, as after a lost answer.
	again := httptest.NewRequest("POST", "/a2a/message/send", bytes.NewReader(envelope.AppendRequest(nil, nil, e)))
	again.Header = call.Header
	kept := httptest.NewRecorder()
	public.ServeHTTP(kept, again)
	if got := kept.Header().Get("Vacancy-Receipt"); got != path || !strings.Contains(kept.Body.String(), `"state":"answered"`) {
		t.Errorf("the kept answer: %d %s, receipt %q", kept.Code, kept.Body, got)
	}
	proof := func(k *identity.Key, target string) http.Header {
		value, err := readproof.Sign(ctx, k, readproof.Request{Authority: "127.0.0.1:8080", Method: "GET", Target: target}, time.Now())
		must(err)
		return http.Header{readproof.Header: {value}}
	}
	key := func(tenant string) http.Header { return http.Header{"Authorization": {"Bearer " + keys[tenant]}} }
	last := strings.TrimSuffix(path, "1") + "last"
	early := httptest.NewRequest("GET", path, nil)
	early.Host = "127.0.0.1:8080"
	early.Header = proof(who, path)
	out := httptest.NewRecorder()
	public.ServeHTTP(out, early)
	if out.Code != http.StatusServiceUnavailable || !strings.Contains(out.Body.String(), "no key for receipts and bookings yet") {
		t.Errorf("before the host has a key: %d %s, want 503", out.Code, out.Body)
	}
	made, err := maker.Open()
	must(err)
	defer made.Vacants.Close()
	must(made.SigningKeys.RenewIfDue(ctx))
	for _, tt := range []struct {
		name, path string
		header     http.Header
		status     int
	}{
		{"the caller", path, proof(who, path), 200}, {"the caller's last", last, proof(who, last), 200}, {"the payer", path, key("payer"), 200}, {"the owner", path, key("owner"), 200},
		{"the payer, by a key to call", path, key("payer, to call"), 403},
		{"another tenant", path, key("other"), 404}, {"a stranger", path, proof(stranger, path), 404}, {"nobody", path, nil, 404},
		{"a call that is not there", path + "0", key("payer"), 404}, {"no position", strings.TrimSuffix(path, "1") + "01", key("payer"), 404},
		{"no caller", "/v1/account/receipts/x/" + r.ID.String() + "/1", key("payer"), 404},
	} {
		in := httptest.NewRequest("GET", tt.path, nil)
		in.Host = "127.0.0.1:8080"
		for name, values := range tt.header {
			in.Header[name] = values
		}
		out := httptest.NewRecorder()
		public.ServeHTTP(out, in)
		if out.Code != tt.status {
			t.Errorf("%s: %d %s, want %d", tt.name, out.Code, out.Body, tt.status)
			continue
		}
		if tt.status != 200 {
			if want := map[int]string{403: "the key lacks the scope read", 404: "no such receipt"}[tt.status]; !strings.Contains(out.Body.String(), want) {
				t.Errorf("%s: %s", tt.name, out.Body)
			}
			continue
		}
		body, err := io.ReadAll(out.Body)
		must(err)
		got, err := receipt.Parse(body)
		if err != nil || got.Verify() != nil || got.Host != self || got.Charge != 2000 || got.Payment != "account" || got.RequestHash != e.Hash() {
			t.Errorf("%s: %s, %v", tt.name, body, err)
		}
	}
}
