package admin_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/httpagent"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// tenants is a host where the operator has a vacant, and two tenants have one each.
type tenants struct {
	*testServer
	*testing.T
	config  admin.Config
	billing *billing.Billing
	tenants http.Handler
	key     string // of acme
	own     admin.Vacant
	others  []admin.Vacant // the operator's, and the other tenant's
}

// vacantsKey are the options of a key that manages vacants.
var vacantsKey = billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeVacants}}

// newTenantsOf is a host without vacants, and without a key.
func newTenantsOf(t *testing.T, change ...func(*admin.Config)) *tenants {
	w := &tenants{T: t}
	w.testServer = newTestServer(t, func(c *admin.Config) {
		for _, f := range change {
			f(c)
		}
		w.billing = billing.New(billing.Config{
			Store: c.Vacants.Store, Now: func() time.Time { return at }, Rand: rand.Reader,
			MAC:  func(context.Context, []byte) (sum [32]byte, err error) { return sum, nil },
			Self: func(context.Context) (identity.ID, error) { return identity.ID{1}, nil },
		})
		c.Billing = w.billing
		w.config = *c
	})
	w.config.AllowedHost = "" // the public listener has many names
	w.tenants = admin.TenantHandler(w.config)
	return w
}

func newTenants(t *testing.T) *tenants {
	w := newTenantsOf(t)
	w.key = w.keyOf("acme", vacantsKey)
	for _, tenant := range []string{"", "acme", "other"} {
		answer := w.ask("POST", "/v1/admin/vacants", fmt.Sprintf(`{"name":"of-%s","capability":"echoes","tenant":%q}`, tenant, tenant))
		if answer.Code != http.StatusCreated {
			t.Fatal(answer.Body)
		}
		if v := decode[admin.Vacant](t, answer); tenant == "acme" {
			w.own = v
		} else {
			w.others = append(w.others, v)
		}
	}
	return w
}

func (w *tenants) keyOf(tenant string, o billing.KeyOptions) string {
	w.Helper()
	a, err := w.billing.FindAccount(w.Context(), tenant)
	if err != nil {
		a, err = w.billing.OpenAccount(w.Context(), tenant, 1)
	}
	if err != nil {
		w.Fatal(err)
	}
	_, secret, err := w.billing.MakeKey(w.Context(), a.ID, o)
	if err != nil {
		w.Fatal(err)
	}
	return secret
}

// by sends a request by a key.
func (w *tenants) by(key, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://host.example"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	answer := httptest.NewRecorder()
	w.tenants.ServeHTTP(answer, r)
	return answer
}

func (w *tenants) want(answer *httptest.ResponseRecorder, status int, text string) {
	w.Helper()
	if answer.Code != status || !strings.Contains(answer.Body.String(), text) {
		w.Errorf("answer = %d %s, want %d with %q", answer.Code, answer.Body, status, text)
	}
}

// Free calls for each caller are bounded for each address and altogether, unless the request
// says otherwise.
func TestAPriceBoundsItsFreeCalls(t *testing.T) {
	w := newTenants(t)
	w.want(w.by(w.key, "POST", "/v1/admin/vacants", `{"name":"clerk","capability":"answers"}`), 201, "clerk")
	for body, want := range map[string]string{
		`{"flat":2000,"free":10}`:                              `"free":10,"free_address":30,"free_all":1000,`,
		`{"flat":2000,"free":10,"free_address":5}`:             `"free":10,"free_address":5,"free_all":1000,`,
		`{"free_all":7,"flat":2000,"free":10}`:                 `"free":10,"free_address":30,"free_all":7,`,
		`{"flat":2000,"free":9,"free_address":0,"free_all":0}`: `"free":9,"set":`,
		`{"flat":2000,"free_address":5}`:                       `"flat":2000,"free_address":5,"set":`,
		`{"flat":2000,"free":1000000000,"free_address":4}`:     `"free_address":4,"free_all":1000000000,`,
	} {
		w.want(w.by(w.key, "PUT", "/v1/admin/vacants/clerk/price", body), 200, want)
	}
	w.want(w.by(w.key, "PUT", "/v1/admin/vacants/clerk/price", `{"flat":2000,"free":-1}`), 400, `"field":"free"`)
	w.want(w.by(w.key, "GET", "/v1/admin/vacants/clerk/price?version=99", ""), 404, "clerk has no version 99 of its price")
	w.want(w.by(w.key, "GET", "/v1/admin/vacants/of-acme/price?version=1", ""), 404, "of-acme has no version 1 of its price")
}

func TestATenantManagesItsVacants(t *testing.T) {
	w := newTenants(t)
	w.want(w.by(w.key, "POST", "/v1/admin/vacants", `{"name":"clerk","capability":"answers"}`), 201, `"tenant":"acme"`)
	w.want(w.by(w.key, "POST", "/v1/admin/vacants", `{"name":"second","capability":"answers","tenant":"acme"}`), 201, `"tenant":"acme"`)
	w.want(w.by(w.key, "POST", "/v1/admin/vacants", `{"name":"third","capability":"answers","tenant":"other"}`), 403, "tenant: expected acme")
	w.want(w.by(w.key, "POST", "/v1/admin/vacants", `{"name":"of-other","capability":"answers"}`), 409, "")
	w.want(w.by(w.key, "PATCH", "/v1/admin/vacants/clerk", `{"capability":"answers letters"}`), 200, "answers letters")
	w.want(w.by(w.key, "PUT", "/v1/admin/vacants/clerk/price", `{"flat":2000}`), 200, "2000")
	w.want(w.by(w.key, "POST", "/v1/admin/vacants/clerk/children", `{"path":"D2","name":"kid","capability":"helps"}`), 201, `"tenant":"acme"`)
	w.want(w.by(w.key, "POST", "/v1/admin/vacants/clerk/children", `{"path":"D4","name":"kid2","capability":"helps","with":"of-other"}`), 404, "acme has no vacant")
	w.want(w.by(w.key, "POST", "/v1/admin/vacants/clerk/pause", ""), 200, "HIBERNATING")
	w.want(w.by(w.key, "GET", "/v1/admin/vacants/"+w.own.ID.String(), ""), 200, `"of-acme"`)
	var names []string
	for _, v := range decode[admin.VacantPage](t, w.by(w.key, "GET", "/v1/admin/vacants?all=true", "")).Vacants {
		names = append(names, v.Name)
	}
	if got := strings.Join(names, " "); got != "clerk kid of-acme second" {
		t.Errorf("a tenant lists %s", got)
	}
}

// A cursor comes from a client, so a wrong one is its mistake, in each list.
func TestAWrongCursorIsToldByItsField(t *testing.T) {
	w := newTenants(t)
	for _, path := range []string{"/v1/admin/accounts", "/v1/admin/vacants", "/v1/admin/vacants/of-acme/children"} {
		if answer := w.ask("GET", path+"?cursor=T%C3%BD", ""); answer.Code != 404 { // of a host without the list
			wantRefusal(t, answer, problem.Malformed, "cursor")
		}
	}
}

func TestWhatATenantsKeyDoesNotOpen(t *testing.T) {
	w := newTenants(t)
	const operators = "this operation needs the operator's key"
	for _, path := range []string{"/v1/admin/vacants/of-acme/export", "/v1/admin/host", "/v1/admin/secrets", "/v1/admin/secrets/openai", "/v1/admin/models", "/v1/admin/budgets", "/v1/admin/payments/stripe", "/v1/admin/accounts", "/v1/admin/vacantsX",
		"/v1/admin/backup", "/v1/graduations", "/v1/admin/", "/v1/admin/root"} {
		w.want(w.by(w.key, "POST", path, `{}`), 403, operators)
		w.want(w.by("vac_live_"+strings.Repeat("a", 32), "POST", path, `{}`), 401, "this host has no such key")
	}
	w.want(w.by(w.key, "GET", "/v1/admin/vacants/%2e%2e/secrets", ""), 404, "")
	w.want(w.by(w.key, "GET", "/v1/admin/vacants/nobody/nothing", ""), 404, "")
	list := func(key string) *httptest.ResponseRecorder { return w.by(key, "GET", "/v1/admin/vacants", "") }
	w.want(list(""), 401, "")
	w.want(list("vac_live_"+strings.Repeat("a", 32)), 401, "this host has no such key")
	w.want(list("short"), 401, "expected Bearer and a key")
	w.want(list(w.keyOf("acme", billing.KeyOptions{})), 403, "the key lacks the scope vacants")
	w.want(list(w.keyOf("acme", billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeVacants}, Test: true})), 403, "needs a live key")
	a, err := w.billing.FindAccount(t.Context(), "acme")
	if err == nil {
		_, err = w.billing.SetSuspended(t.Context(), a.ID, true, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	w.want(list(w.key), 200, "of-acme")
	forTests := w.keyOf("acme", billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeVacants}, Test: true})
	unknown := "vac_live_" + strings.Repeat("a", 32)
	for path, methods := range admin.TenantRoutes(w.config) {
		for method := range methods {
			target := strings.Replace(path, "{vacant}", "of-acme", 1)
			w.want(w.by(forTests, method, target, ""), 403, "")
			if answer := w.by(unknown, method, target, ""); answer.Code != 401 || answer.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s by a key of nobody = %d %s", method, path, answer.Code, answer.Body)
			}
			answer := w.by(w.key, method, strings.Replace(path, "{vacant}", "of-acme", 1), "")
			if refused := strings.Contains(answer.Body.String(), "account_suspended"); refused != (method != "GET") || refused && answer.Code != 403 {
				t.Errorf("%s %s of a suspended account = %d %s", method, path, answer.Code, answer.Body)
			}
		}
	}
	r := httptest.NewRequest("GET", "http://host.example/v1/admin/vacants", nil)
	r.Header.Set("Authorization", "Bearer "+w.key)
	r.Header.Set("Origin", "https://somebody.example")
	answer := httptest.NewRecorder()
	w.tenants.ServeHTTP(answer, r)
	w.want(answer, 403, "browser")
	if strings.Contains(w.log.String(), w.key) {
		t.Error("the log has a key")
	}
}

// Only what the operator set may reach the operator's machine, so the host knows who set it.
func TestTheHostKnowsWhoSetAnAgent(t *testing.T) {
	w := newTenants(t)
	w.config.Vacants.Resources.Substrates[substrate.KindHTTP] = func(string) (substrate.Substrate, error) { return nil, nil }
	n := 0
	url := func() string { n++; return fmt.Sprintf("http://127.0.0.1:9000/%d", n) }
	for by, ask := range map[outbound.URLChooser]func(method, path, body string) *httptest.ResponseRecorder{
		outbound.Tenant:   func(method, path, body string) *httptest.ResponseRecorder { return w.by(w.key, method, path, body) },
		outbound.Operator: func(method, path, body string) *httptest.ResponseRecorder { return w.ask(method, path, body) },
	} {
		name := fmt.Sprintf("by-%d", by)
		for _, tt := range []struct{ method, path, body, made string }{
			{"POST", "", `{"name":"NAME","capability":"c","substrate":"URL","tenant":"acme"}`, name},
			{"PATCH", "/of-acme", `{"substrate":"URL"}`, "of-acme"},
			{"PUT", "/of-acme/agent", `{"provider":"http","base_url":"URL"}`, "of-acme"},
			{"POST", "/of-acme/children", `{"path":"D2","name":"NAME-kid","capability":"c","substrate":"URL"}`, name + "-kid"},
			{"POST", "/of-acme/children", `{"path":"D2","name":"NAME-heir","capability":"c","agent":{"provider":"http","base_url":"URL"}}`, name + "-heir"},
		} {
			answer := ask(tt.method, "/v1/admin/vacants"+tt.path, strings.NewReplacer("NAME", name, "URL", url()).Replace(tt.body))
			if r, err := w.config.Vacants.GetByName(t.Context(), vacants.OperatorAsker(), tt.made); answer.Code >= 300 || err != nil || r.Chooser != by {
				t.Errorf("%s %s: %d %s, %v: it is of %d, want %d", tt.method, tt.path, answer.Code, answer.Body, err, r.Chooser, by)
			}
		}
	}
}

// inner resolves each name to an address inside.
type inner struct{ err error }

func (i inner) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("10.0.0.7")}, i.err
}

type public struct{}

func (public) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("8.8.8.8")}, nil
}

// The addresses in the result of a check would let a tenant map the operator's
// network.
func TestACheckTellsAddressesToTheOperatorAlone(t *testing.T) {
	anybody := func(context.Context, outbound.Actor, string) error { return nil }
	dial := func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 443}, Err: errors.New("no route to host")}
	}
	texts := map[string]bool{} // the answers about names without a public address
	for what, o := range map[string]outbound.Options{
		"a name that leads inside":    {Guard: anybody, Resolver: inner{}},
		"a resolver that is named":    {Guard: anybody, Resolver: inner{&net.DNSError{Err: "server misbehaving", Name: "agent.example", Server: "10.0.0.7:53"}}},
		"a connection that is broken": {Guard: anybody, Resolver: public{}, Dial: dial},
	} {
		w := newTenants(t)
		w.config.Vacants.Resources.Substrates[substrate.KindHTTP] = httpagent.New(outbound.New(o))
		w.want(w.by(w.key, "PATCH", "/v1/admin/vacants/of-acme", `{"substrate":"https://agent.example/"}`), 200, "")
		told := w.by(w.key, "POST", "/v1/admin/vacants/of-acme/check", "")
		if body := told.Body.String(); !strings.Contains(body, `"ok":false`) || !strings.Contains(body, "agent.example") || strings.Contains(body, "10.0.0.7") {
			t.Errorf("%s: the tenant is told %s, want the name of its agent, and no address", what, body)
		}
		if o.Dial == nil {
			text, _, _ := strings.Cut(told.Body.String(), `"took_ms"`)
			texts[text] = true
		}
		if log := w.log.String(); !strings.Contains(log, "10.0.0.7") {
			t.Errorf("%s: the log says %s, want the address", what, log)
		}
		w.want(w.ask("POST", "/v1/admin/vacants/of-acme/check", ""), 200, "10.0.0.7")
	}
	if len(texts) != 1 {
		t.Errorf("the tenant learns which names lead inside: %v", texts)
	}
}
