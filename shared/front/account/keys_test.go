package account_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/tests/stripemock"
)

// Each operation of the tenants' API, by each kind of key: what it needs is its scope, and
// that the key gains nothing.
func TestWhatEachKindOfKeyMayDo(t *testing.T) {
	f := paying(t, stripemock.Start(t))
	soon := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	scopes := func(all ...billing.Scope) []billing.Scope { return all }
	kinds := map[string]billing.KeyOptions{
		"live": {Scopes: scopes("call", "read", "manage")}, "default": {}, "test": {Test: true}, "capped": {DailyCap: 10_000}, "expiring": {Expires: soon},
		"test manager":     {Test: true, Scopes: scopes("call", "read", "manage")},
		"capped manager":   {DailyCap: 10_000, Scopes: scopes("call", "read", "manage")},
		"expiring manager": {Expires: soon, Scopes: scopes("call", "read", "manage")},
		"manager":          {Scopes: scopes("manage")},
		"reader":           {Scopes: scopes("read")}, "caller": {Scopes: scopes("call")}, "vacants": {Scopes: scopes("vacants")},
		"agp": {Tier: billing.Pro},
	}
	readers := []string{"live", "default", "capped", "expiring", "capped manager", "expiring manager", "reader", "agp"}
	managers := []string{"live", "test manager", "capped manager", "expiring manager", "manager"}
	liveManagers := []string{"live", "capped manager", "expiring manager", "manager"}
	made := func(body string) func(*fixture, string) (string, string, string) {
		return func(*fixture, string) (string, string, string) { return "POST", "/v1/keys", body }
	}
	get := func(path string) func(*fixture, string) (string, string, string) {
		return func(*fixture, string) (string, string, string) { return "GET", path, "" }
	}
	revoked := func(o billing.KeyOptions) func(*fixture, string) (string, string, string) {
		return func(f *fixture, _ string) (string, string, string) {
			k, _, err := f.billing.MakeKey(f.Context(), f.account.ID, o)
			must(f.T, err)
			return "DELETE", "/v1/keys/" + k.ID, ""
		}
	}
	for name, op := range map[string]struct {
		request func(f *fixture, key string) (method, path, body string)
		allowed []string
	}{
		"show the account":            {get("/v1/account"), readers},
		"its changes":                 {get("/v1/account/changes"), readers},
		"its usage":                   {get("/v1/usage"), readers},
		"its statement":               {get("/v1/account/statement"), readers},
		"its keys":                    {get("/v1/keys"), managers},
		"make a key like the default": {made(`{}`), []string{"live"}},
		"make a capped key":           {made(`{"cap":10000}`), []string{"live"}},
		"make a manager":              {made(`{"scopes":["manage"]}`), []string{"live", "manager"}},
		"make a manager with limits":  {made(`{"scopes":["manage"],"cap":10000,"expires":"` + soon.Format(time.RFC3339) + `"}`), liveManagers},
		"make a test key":             {made(`{"test":true,"scopes":["manage"]}`), []string{"live", "test manager", "manager"}},
		"make a key with vacants":     {made(`{"scopes":["vacants"]}`), nil},
		"make a free key of AGP":      {made(`{"tier":"free","scopes":["agp"],"cap":10000,"expires":"` + soon.Format(time.RFC3339) + `"}`), liveManagers},
		"make a key that books":       {made(`{"tier":"pro"}`), nil},
		"make a key with a quota":     {made(`{"tier":"free","quota":1000}`), nil},
		"revoke a test key":           {revoked(billing.KeyOptions{Test: true}), managers},
		"revoke a live key":           {revoked(billing.KeyOptions{}), liveManagers},
		"link a caller": {func(f *fixture, _ string) (string, string, string) {
			return "POST", "/v1/account/links", `{"claim":"` + f.claim(f.newKey(), f.account.ID) + `"}`
		}, []string{"live", "default", "caller"}},
		"unlink its own caller": {func(f *fixture, key string) (string, string, string) {
			vacant := f.newKey()
			by, err := f.billing.Authenticate(f.Context(), key)
			must(f.T, err)
			if _, err := f.billing.LinkBy(f.Context(), &by, f.account.ID, f.claim(vacant, f.account.ID)); err != nil { // it may not link
				_, err = f.billing.Link(f.Context(), f.account.ID, f.claim(vacant, f.account.ID))
				must(f.T, err)
			}
			return "DELETE", "/v1/account/links/" + vacant.ID().String(), ""
		}, append([]string{"default", "caller"}, liveManagers...)},
		"unlink a caller": {func(f *fixture, _ string) (string, string, string) {
			vacant := f.newKey()
			_, err := f.billing.Link(f.Context(), f.account.ID, f.claim(vacant, f.account.ID))
			must(f.T, err)
			return "DELETE", "/v1/account/links/" + vacant.ID().String(), ""
		}, liveManagers},
		"pay by card": {func(*fixture, string) (string, string, string) {
			return "POST", billing.CheckoutPath, `{"amount":25000000}`
		}, liveManagers},
		"raise the cap": {func(f *fixture, _ string) (string, string, string) {
			return "PUT", "/v1/admin/accounts/" + f.account.ID + "/cap", `{"amount":0}`
		}, nil},
	} {
		for kind, o := range kinds {
			_, secret, err := f.billing.MakeKey(t.Context(), f.account.ID, o)
			must(t, err)
			method, path, body := op.request(f, secret)
			got := f.status(method, path, body, secret)
			allowed := slices.Contains(op.allowed, kind)
			if allowed && got.Code >= 300 || !allowed && got.Code != http.StatusForbidden && got.Code != http.StatusNotFound {
				t.Errorf("%s by a key of kind %s = %d %s, want that it may: %t", name, kind, got.Code, got.Body, allowed)
			}
		}
	}
}

// status sends a request with a key.
func (f *fixture) status(method, path, body, key string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+key)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	return w
}
