//go:build unix

package kills

import (
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
)

const (
	secretPath = "/v1/admin/secrets/key"
	budgetPath = "/v1/admin/budgets?tenant=acme"
	modelsPath = "/v1/admin/models"
)

func setSecret(*stage) request {
	return request{control: true, method: http.MethodPut, path: secretPath, body: []byte(`{"value":"s3cret","hosts":["api.example.com"]}`)}
}

func deleteSecret(*stage) request {
	return request{control: true, method: http.MethodDelete, path: secretPath}
}

func setBudget(*stage) request {
	return request{control: true, method: http.MethodPut, path: budgetPath, body: []byte(`{"daily":7}`)}
}

func setModels(*stage) request {
	return request{control: true, method: http.MethodPut, path: modelsPath, body: []byte(`{"models":[{"provider":"openai","model":"m","input":1,"output":2}]}`)}
}

func secretIsSet(s *stage, p process) {
	s.t.Helper()
	if r, err := p.do(setSecret(s)); err != nil || r.status != http.StatusOK {
		s.t.Fatalf("set the secret = %v, %v", r, err)
	}
}

// secretVersion returns the version of the secret, or 0 before it is set.
func secretVersion(s *stage, p process) int {
	s.t.Helper()
	for _, one := range decode[admin.Secrets](s.t, s.get(p, "/v1/admin/secrets")).Secrets {
		return one.Version
	}
	return 0
}

func setSecretAgain(s *stage, p process, r request, _ *response, then fate) {
	s.t.Helper()
	before := secretVersion(s, p)
	if want := map[fate]int{fresh: 0, done: 1}[then]; before != want {
		s.t.Fatalf("the secret has version %d, want %d: %s", before, want, then)
	}
	got, err := p.do(r)
	s.must(err)
	if now := secretVersion(s, p); got.status != http.StatusOK || now != before+1 {
		s.t.Fatalf("again: %d %s, version %d, want 200 and version %d", got.status, got.body, now, before+1)
	}
}

func deleteSecretAgain(s *stage, p process, r request, _ *response, then fate) {
	s.t.Helper()
	if there := secretVersion(s, p) > 0; there != (then == fresh) {
		s.t.Fatalf("the secret exists: %v, want %s", there, then)
	}
	got, err := p.do(r)
	s.must(err)
	want := map[fate]int{fresh: http.StatusNoContent, done: http.StatusNotFound}[then]
	if got.status != want || secretVersion(s, p) != 0 {
		s.t.Fatalf("again: %d %s, want %d and no secret", got.status, got.body, want)
	}
}

func setBudgetAgain(s *stage, p process, r request, _ *response, then fate) {
	s.t.Helper()
	want := map[fate]money.Amount{fresh: spend.DefaultTenantBudget, done: 7}[then]
	if b := decode[spend.Budget](s.t, s.get(p, budgetPath)); b.Daily != want {
		s.t.Fatalf("the budget is %s, want %s: %s", b.Daily, want, then)
	}
	got, err := p.do(r)
	s.must(err)
	if b := decode[spend.Budget](s.t, got); got.status != http.StatusOK || b.Daily != 7 {
		s.t.Fatalf("again: %d %s, want 200 and the new budget", got.status, got.body)
	}
}

func setModelsAgain(s *stage, p process, r request, _ *response, then fate) {
	s.t.Helper()
	want := map[fate]int{fresh: 1, done: 2}[then]
	if m := decode[models.Table](s.t, s.get(p, modelsPath)); m.Version != want {
		s.t.Fatalf("the table has version %d, want %d: %s", m.Version, want, then)
	}
	got, err := p.do(r)
	s.must(err)
	if m := decode[models.Table](s.t, got); got.status != http.StatusOK || m.Version != 2 || len(m.Models) != 1 {
		s.t.Fatalf("again: %d %s, want 200 and version 2", got.status, got.body)
	}
}
