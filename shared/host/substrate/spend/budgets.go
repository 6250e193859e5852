package spend

import (
	"context"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/tenant"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Budget is a tenant's daily budget for models, or the host's if Tenant is "". Amounts are in
// micro-dollars.
type Budget struct {
	Tenant string       `json:"tenant,omitempty"`
	Daily  money.Amount `json:"daily"`
	Spent  money.Amount `json:"spent"` // including open reservations
	Day    string       `json:"day"`
}

type storedBudget struct {
	Daily money.Amount `json:"daily"`
}

func loadTenantBudget(ctx context.Context, reader store.Reader, tenant string) (money.Amount, error) {
	stored, d, err := BudgetDocs.Get(ctx, reader, BudgetDocs.Key(tenant))
	if err == nil && d.Version == 0 {
		stored.Daily = DefaultTenantBudget
	}
	return stored.Daily, err
}

func (s *Budgets) Budget(ctx context.Context, owner string) (Budget, error) {
	result := Budget{Tenant: owner, Day: formatDay(s.now())}
	if err := tenant.Check(owner); err != nil {
		return result, err
	}
	b, err := s.loadSharedBalance(ctx, s.store.Store, owner, result.Day)
	result.Daily, result.Spent = b.budget, b.spent
	return result, store.AsProblem(err)
}

func (s *Budgets) SetBudget(ctx context.Context, owner string, daily money.Amount) (Budget, error) {
	switch err := tenant.Check(owner); {
	case err != nil:
		return Budget{}, err
	case owner == "":
		return Budget{}, problem.Invalid("tenant", "a tenant; the flag --model-budget sets the host's budget", "none")
	case daily < 0 || daily > models.MaxBudget:
		return Budget{}, problem.Invalid("daily", fmt.Sprintf("0 to %d micro-dollars", models.MaxBudget), fmt.Sprintf("%d", daily))
	}
	err := s.store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, BudgetDocs.Key(owner))
		BudgetDocs.Put(tx, store.Doc{Key: d.Key}, storedBudget{daily})
		return err
	})
	if err != nil {
		return Budget{}, store.AsProblem(err)
	}
	return s.Budget(ctx, owner)
}
