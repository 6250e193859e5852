package account_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// fixture is the API of tenants, with the account of acme.
type fixture struct {
	*testing.T
	handler http.Handler
	billing *billing.Billing
	account billing.Account
	log     bytes.Buffer
}

var hostID = identity.ID{0xaa}

func newFixture(t *testing.T) *fixture { return newFixtureOver(t, memory.New(), time.Now) }

func newFixtureOver(t *testing.T, s store.Store, now func() time.Time) *fixture {
	t.Helper()
	f := &fixture{T: t}
	f.billing = billing.New(billing.Config{
		Store: s, Now: now, Rand: rand.Reader,
		MAC:  func(_ context.Context, b []byte) ([32]byte, error) { return sha256.Sum256(b), nil },
		Self: func(context.Context) (identity.ID, error) { return hostID, nil },
	})
	f.handler = account.TenantHandler(f.billing, nil, nil, slog.New(slog.NewTextHandler(&f.log, nil)), now)
	var err error
	if f.account, err = f.billing.OpenAccount(t.Context(), "acme", 1); err != nil {
		t.Fatal(err)
	}
	return f
}

// key makes a key with some scopes, by default call, read and manage.
func (f *fixture) key(scopes ...billing.Scope) string {
	f.Helper()
	if len(scopes) == 0 {
		scopes = []billing.Scope{billing.ScopeCall, billing.ScopeRead, billing.ScopeManage}
	}
	_, secret, err := f.billing.MakeKey(f.Context(), f.account.ID, billing.KeyOptions{Scopes: scopes})
	if err != nil {
		f.Fatal(err)
	}
	return secret
}

// do sends a request with a key, and requires a status and a text in the answer.
func (f *fixture) do(method, path, body, key string, status int, text string) map[string]any {
	f.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	if w.Code != status || !strings.Contains(w.Body.String(), text) {
		f.Errorf("%s %s = %d %s, want %d with %q", method, path, w.Code, w.Body, status, text)
	}
	if challenged := w.Header().Get("WWW-Authenticate") != ""; challenged != (w.Code == http.StatusUnauthorized || strings.Contains(w.Body.String(), "scope_required")) {
		f.Errorf("%s %s = %d with WWW-Authenticate: %t", method, path, w.Code, challenged)
	}
	var got map[string]any
	_ = json.Unmarshal(w.Body.Bytes(), &got)
	return got
}

func TestATenantManagesItsKeysByAKey(t *testing.T) {
	f := newFixture(t)
	key := f.key()
	made := f.do("POST", "/v1/keys", `{"scopes":["read"],"cap":5000}`, key, 201, `"secret":"vac_live_`)
	reader := made["secret"].(string)
	f.do("GET", "/v1/account", "", reader, 200, `"tenant":"acme"`)
	for _, secret := range []string{reader, key} { // the account names the key that asks
		f.do("GET", "/v1/account", "", secret, 200, `"prefix":"`+secret[:len("vac_live_")+4]+`"`)
	}
	f.do("GET", "/v1/account/changes?from=2&limit=1", "", reader, 200, `"kind":"key"`)
	f.do("GET", "/v1/keys", "", reader, 403, "scope_required")
	f.do("POST", "/v1/keys", `{}`, reader, 403, "the key lacks the scope manage")
	f.do("GET", "/v1/keys", "", key, 200, `"cap":5000`)
	f.do("DELETE", "/v1/keys/"+made["id"].(string), "", key, 200, `"revoked":"`)
	f.do("GET", "/v1/account", "", reader, 401, "was revoked")
	// A key ends with what it made, unless only the key is revoked.
	made = f.do("POST", "/v1/keys", `{"scopes":["read","manage"]}`, key, 201, `"made_by":"`)
	child := f.do("POST", "/v1/keys", `{"scopes":["read"]}`, made["secret"].(string), 201, `"made_by":"`+made["id"].(string)+`"`)["secret"].(string)
	f.do("DELETE", "/v1/keys/"+made["id"].(string)+"?only=true", "", key, 200, `"revoked":"`)
	f.do("GET", "/v1/account", "", child, 200, `"tenant":"acme"`)
	f.do("DELETE", "/v1/keys/"+made["id"].(string), "", key, 200, `"ended_keys":[{`)
	f.do("GET", "/v1/account", "", child, 401, "was revoked")
	f.do("DELETE", "/v1/keys/nothing", "", key, 404, "no such key")
	for _, secret := range []string{key, reader} {
		if strings.Contains(f.log.String(), secret) {
			t.Error("the log has a secret")
		}
	}
}

// do requires a challenge with each 401.
func TestABrokenSignatureIsChallengedLikeAMissingKey(t *testing.T) {
	f := newFixture(t)
	claim := []byte(f.claim(f.newKey(), f.account.ID))
	at := &claim[len(claim)-10] // a character of the signature, which stays one of base64url
	if *at == 'A' {
		*at = 'B'
	} else {
		*at = 'A'
	}
	f.do("POST", "/v1/account/links", `{"claim":"`+string(claim)+`"}`, f.key(), 401, "")
}

// A client that sends a body with every request can revoke a stolen key.
func TestABodyWithARevocationIsNotRead(t *testing.T) {
	f := newFixture(t)
	made := f.do("POST", "/v1/keys", `{"scopes":["read"]}`, f.key(), 201, `"secret"`)
	f.do("DELETE", "/v1/keys/"+made["id"].(string), "{}", f.key(), 200, `"revoked":"`)
}

func TestATenantSeesNothingOfOthers(t *testing.T) {
	f := newFixture(t)
	other, err := f.billing.OpenAccount(t.Context(), "other", 1)
	if err != nil {
		t.Fatal(err)
	}
	k, _, err := f.billing.MakeKey(t.Context(), other.ID, billing.KeyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	key := f.key()
	f.do("DELETE", "/v1/keys/"+k.ID, "", key, 404, "no such key")
	vacant := f.newKey()
	one := f.claim(vacant, other.ID)
	f.do("POST", "/v1/account/links", `{"claim":"`+one+`"}`, key, 400, "another account")
	if _, err := f.billing.Link(t.Context(), other.ID, one); err != nil {
		t.Fatal(err)
	}
	f.do("DELETE", "/v1/account/links/"+vacant.ID().String(), "", key, 404, "no such link")
}

func (f *fixture) newKey() *identity.Key {
	k, err := identity.NewKey(rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	return k
}

func (f *fixture) claim(k *identity.Key, to string) string {
	f.Helper()
	c := claim.PaymentClaim{Host: hostID, Account: to}
	if err := c.Sign(f.Context(), k, time.Now()); err != nil {
		f.Fatal(err)
	}
	return c.String()
}

func TestEitherSideEndsALink(t *testing.T) {
	f := newFixture(t)
	key, vacant := f.key(), f.newKey()
	f.do("POST", "/v1/account/links", `{"claim":"`+f.claim(vacant, f.account.ID)+`"}`, key, 201, vacant.ID().String())
	f.do("GET", "/v1/account", "", key, 200, `"links":[{"caller":"`+vacant.ID().String())
	f.do("DELETE", "/v1/account/links/"+vacant.ID().String(), "", key, 204, "")
	f.do("POST", "/v1/account/links", `{"claim":"`+f.claim(vacant, f.account.ID)+`"}`, key, 201, "")
	f.do("POST", "/v1/account/links", `{"claim":"`+f.claim(vacant, "")+`"}`, "", 204, "") // by itself, without a key
	if got := f.do("GET", "/v1/account", "", key, 200, ""); got["links"] != nil {
		t.Errorf("links are left: %v", got["links"])
	}
	if got := f.do("GET", "/v1/account/host", "", "", 200, ""); got["host_id"] != hostID.String() {
		t.Errorf("the host is %v", got)
	}
}

func TestWrongRequestsNameTheField(t *testing.T) {
	f := newFixture(t)
	key := f.key()
	for _, tt := range []struct {
		method, path, body, key string
		status                  int
		text                    string
	}{
		{"GET", "/v1/account", "", "", 401, "a key of an account is required"},
		{"GET", "/v1/account", "", "vac_live_x", 401, "expected Bearer and a key of this host"},
		{"GET", "/v1/account", "", "vac_live_" + strings.Repeat("a", 32), 401, "this host has no such key"},
		{"POST", "/v1/account", "{}", key, 405, "use GET"},
		{"GET", "/v1/account/other", "", key, 404, "no such path"},
		{"POST", "/v1/keys", `{"scopes":["all"]}`, key, 400, `"field":"scopes"`},
		{"POST", "/v1/keys", `{"scopes":"all"}`, key, 400, `"field":"scopes"`},
		{"POST", "/v1/keys", `{"cap":-1}`, key, 400, `"field":"cap"`},
		{"POST", "/v1/keys", `{"cap":0.5}`, key, 400, "cap"},
		{"POST", "/v1/keys", `{"cap":99999999999999999999}`, key, 400, "cap"},
		{"POST", "/v1/keys", `{"tenant":"x"}`, key, 400, "expected name, test, scopes, cap"},
		{"POST", "/v1/keys", `{`, key, 422, "not_json_object"},
		{"POST", "/v1/account/links", `{"claim":"x"}`, key, 400, `"field":"claim"`},
		{"DELETE", "/v1/account/links/x", "", key, 400, `"field":"caller"`},
		{"GET", "/v1/account/changes?from=0", "", key, 400, `"field":"from"`},
	} {
		f.do(tt.method, tt.path, tt.body, tt.key, tt.status, tt.text)
	}
}

func FuzzBodies(f *testing.F) {
	for _, seed := range []string{`{}`, `{"scopes":["read"],"cap":1,"test":true}`, `{"cap":1e3}`, `{"scopes":[1]}`, "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		x := newFixture(t)
		r := httptest.NewRequest("POST", "/v1/keys", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+x.key())
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		x.handler.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Errorf("%q = %d %s", body, w.Code, w.Body)
		}
	})
}

// A key of one scope opens the routes of its scope, and no other.
func TestEachRouteWantsItsScope(t *testing.T) {
	f := paying(t, "")
	link := "/v1/account/links/" + f.newKey().ID().String()
	for route, want := range map[string]billing.Scope{
		"GET /v1/account": billing.ScopeRead, "GET /v1/account/changes": billing.ScopeRead, "GET /v1/usage": billing.ScopeRead, "GET /v1/account/statement": billing.ScopeRead,
		"POST /v1/account/links": billing.ScopeCall, "DELETE " + link: billing.ScopeCall, "POST " + billing.CheckoutPath: billing.ScopeManage,
	} {
		method, path, _ := strings.Cut(route, " ")
		body := map[string]string{"POST /v1/account/links": `{"claim":"` + f.claim(f.newKey(), f.account.ID) + `"}`, "POST " + billing.CheckoutPath: `{"amount":25000000}`}[route]
		for _, scope := range []billing.Scope{billing.ScopeCall, billing.ScopeRead, billing.ScopeManage, billing.ScopeVacants} {
			r := httptest.NewRequest(method, path, strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer "+f.key(scope))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			f.handler.ServeHTTP(w, r)
			has := scope == want || method == "DELETE" && scope == billing.ScopeManage
			if refused := strings.Contains(w.Body.String(), "the key lacks the scope "+string(want)); refused == has || refused && w.Code != http.StatusForbidden {
				t.Errorf("%s with scope %s = %d %s, want the scope %s", route, scope, w.Code, w.Body, want)
			}
		}
	}
}
