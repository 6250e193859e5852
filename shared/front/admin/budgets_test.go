package admin_test

import (
	"crypto/rand"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// newPayer is a host that pays for models.
func newPayer(t *testing.T) *testServer {
	t.Helper()
	return newTestServer(t, func(c *admin.Config) {
		now := func() time.Time { return at }
		c.Vacants.Resources.Budgets = spend.New(store.Updater{Store: c.Vacants.Store, Rand: rand.Reader}, now, 3*money.Dollar)
		c.Vacants.Resources.Models = models.NewTables(c.Vacants.Store, now, rand.Reader)
	})
}

func TestModelsThroughTheHandler(t *testing.T) {
	h := newPayer(t)
	if got := decode[models.Table](t, h.ask("GET", "/v1/admin/models", "")); got.Version != 1 || len(got.Models) < 10 {
		t.Errorf("GET = %+v", got)
	}
	w := h.ask("PUT", "/v1/admin/models", `{"models":[{"provider":"openai","model":"m","input":1,"output":2}]}`)
	if got := decode[models.Table](t, w); w.Code != http.StatusOK || got.Version != 2 || len(got.Models) != 1 {
		t.Errorf("PUT = %d %s", w.Code, w.Body)
	}
	if got := decode[models.Table](t, h.ask("GET", "/v1/admin/models", "")); got.Version != 2 {
		t.Errorf("GET = %+v, want what was set", got)
	}
	wantRefusal(t, h.ask("PUT", "/v1/admin/models", `{"models":[{"provider":"openai","model":"m","input":1}]}`), problem.Malformed, "models[0].output")
	wantRefusal(t, h.ask("PUT", "/v1/admin/models", `{"models":[]}`), problem.Malformed, "models")
	wantRefusal(t, h.ask("PUT", "/v1/admin/models", `{"models":"`+strings.Repeat("x", models.MaxTableBytes)+`"}`), problem.TooLarge, "")
	for _, method := range []string{"GET", "PUT"} {
		wantRefusal(t, newTestServer(t).ask(method, "/v1/admin/models", ""), problem.NotFound, "")
		wantRefusal(t, newTestServer(t).ask(method, "/v1/admin/budgets", ""), problem.NotFound, "")
	}
}

func TestBudgetsThroughTheHandler(t *testing.T) {
	h := newPayer(t)
	for path, want := range map[string]spend.Budget{
		"/v1/admin/budgets":             {Daily: 3 * money.Dollar, Day: "2026-05-06"},
		"/v1/admin/budgets?tenant=acme": {Tenant: "acme", Daily: 5 * money.Dollar, Day: "2026-05-06"},
	} {
		if got := decode[spend.Budget](t, h.ask("GET", path, "")); got != want {
			t.Errorf("GET %s = %+v, want %+v", path, got, want)
		}
	}
	w := h.ask("PUT", "/v1/admin/budgets?tenant=acme", `{"daily":0}`)
	if got := decode[spend.Budget](t, w); w.Code != http.StatusOK || got.Daily != 0 || got.Tenant != "acme" {
		t.Errorf("PUT = %d %s", w.Code, w.Body)
	}
	if got := decode[spend.Budget](t, h.ask("GET", "/v1/admin/budgets?tenant=acme", "")); got.Daily != 0 {
		t.Errorf("GET = %+v, want what was set", got)
	}
	for body, field := range map[string]string{`{}`: "daily", `{"daily":-1}`: "daily", `{"daily":"5"}`: "daily", `{"daily":5,"x":1}`: "x", `{"daily":9000000000000}`: "daily"} {
		wantRefusal(t, h.ask("PUT", "/v1/admin/budgets?tenant=acme", body), problem.Malformed, field)
	}
	wantRefusal(t, h.ask("PUT", "/v1/admin/budgets", `{"daily":1}`), problem.Malformed, "tenant")
	wantRefusal(t, h.ask("PUT", "/v1/admin/budgets?tenant=a%20b", `{"daily":1}`), problem.Malformed, "tenant")
	wantRefusal(t, h.ask("GET", "/v1/admin/budgets?tenant=a%20b", ""), problem.Malformed, "tenant")
}
