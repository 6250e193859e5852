package spend

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/vacants/tenant"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Budget is the budget for models of a day of a tenant's vacants, or of those without a
// tenant, which the operator pays.
type Budget struct {
	Tenant string       `json:"tenant,omitempty"`
	Daily  models.Money `json:"daily"` // micro-dollars
	Spent  models.Money `json:"spent"` // micro-dollars, today
	Day    string       `json:"day"`   // in UTC, as 2026-11-24
}

func budgetKey(tenant string) store.Key {
	return store.Key{Partition: "budget", Sort: "tenant#" + tenant}
}

// limit is a tenant's budget as it is kept.
type limit struct {
	Format int          `json:"format"`
	Daily  models.Money `json:"daily"`
}

func budget(ctx context.Context, read reader, tenant string) (models.Money, error) {
	d, err := read(ctx, budgetKey(tenant))
	if err != nil || d.Version == 0 {
		return DefaultTenant, err
	}
	var l limit
	if err := json.Unmarshal(d.Data, &l); err != nil || l.Format != format || l.Daily < 0 {
		return 0, problem.Wrap(problem.Damaged, err, "the budget of tenant %s cannot be read", tenant)
	}
	return l.Daily, nil
}

// Budget is the budget of a tenant, "" of the host, and what is spent of it today.
func (s *Spend) Budget(ctx context.Context, whose string) (Budget, error) {
	b := Budget{Tenant: whose, Day: day(s.now())}
	if err := tenant.Check(whose); err != nil {
		return b, err
	}
	l, err := s.shared(ctx, s.store.Store.Doc, whose, b.Day)
	b.Daily, b.Spent = l.Budget, l.Spent
	return b, store.Problem(err)
}

// SetBudget sets the budget of a tenant. That of the host is a part of how the host is
// started. Turns that are paid for go on.
func (s *Spend) SetBudget(ctx context.Context, whose string, daily models.Money) (Budget, error) {
	switch err := tenant.Check(whose); {
	case err != nil:
		return Budget{}, err
	case whose == "":
		return Budget{}, problem.Invalid("tenant", "one, as the host's own budget is set where it is started, by --model-budget", "none")
	case daily < 0 || daily > models.MaxBudget:
		return Budget{}, problem.Invalid("daily", fmt.Sprintf("0 to %d micro-dollars", models.MaxBudget), fmt.Sprintf("%d", daily))
	}
	err := s.store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, budgetKey(whose))
		if err != nil {
			return err
		}
		data, err := json.Marshal(limit{format, daily})
		if err != nil {
			return err
		}
		tx.Put(store.Doc{Key: d.Key, Data: data})
		return nil
	})
	if err != nil {
		return Budget{}, store.Problem(err)
	}
	return s.Budget(ctx, whose)
}
