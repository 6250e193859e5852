package vacants

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// checkPaid checks that r's agent may be the function that it names, and that the host has
// its secret and its price. a is nil for the default agent of r's substrate.
func (v *Directory) checkPaid(ctx context.Context, r *Record, a *definition.Agent) error {
	if a == nil {
		spec, err := substrate.Parse(r.Substrate)
		if err != nil {
			return err
		}
		of, ok := definition.Of(spec)
		if !ok {
			return nil // a plan
		}
		a = &of
	}
	if err := v.checkFunction(r.Tenant, a); err != nil {
		return err
	}
	if err := v.checkSecret(ctx, r, a); err != nil {
		return err
	}
	_, err := v.prices(ctx, r.Tenant, a)
	return err
}

// prices returns the prices of an agent of a tenant's vacant, zero for a free agent. The
// errors name the fields of definition.Agent.Prices.
func (v *Directory) prices(ctx context.Context, tenant string, a *definition.Agent) (p spend.Prices, err error) {
	switch {
	case !a.Costs(tenant):
		return p, nil
	case v.Spend == nil:
		return p, problem.Invalid("price", "a free model, because this host has no budgets", "a paid one")
	}
	var table models.Table
	if a.UsesTable(tenant) {
		if table, err = v.Models.Current(ctx); err != nil {
			return p, err
		}
	}
	p.Version = table.Version
	p.Model, p.Fallback, err = a.Prices(tenant, &table)
	return p, err
}

// payer returns the vacant and the budgets that a call is charged to.
func payer(id identity.ID, tenant string, a *definition.Agent) spend.Payer {
	p := spend.Payer{Vacant: id, Tenant: tenant, Daily: spend.DefaultVacant, Call: -1}
	if a.DailyBudget != nil {
		p.Daily = *a.DailyBudget
	}
	if a.Budget != nil {
		p.Call = *a.Budget
	}
	if spec, err := a.Spec(); err == nil {
		p.Host = spec.Kind == substrate.KindBedrock // AWS bills the operator
	}
	return p
}

// beginSpending begins the spending of a call that has cost something before; nil if the
// agent is free.
func (v *Directory) beginSpending(ctx context.Context, id identity.ID, tenant string, a *definition.Agent, before money.Amount) (*spend.Call, error) {
	if !a.Costs(tenant) {
		return nil, nil
	}
	prices, err := v.prices(ctx, tenant, a)
	switch {
	case problem.Is(err, problem.Unavailable):
		return nil, problem.Within(problem.SubstrateUnavailable, "read the price", err)
	case err != nil:
		return nil, problem.Within(problem.SubstrateMisconfigured, "price of the agent", err)
	}
	p := payer(id, tenant, a)
	p.Before = before
	return v.Spend.Begin(p, prices), nil
}

// checkBudget returns an error of kind BudgetSpent if r's budgets of the day are spent.
// Errors of the agent itself are left to the call.
func (v *Directory) checkBudget(ctx context.Context, r *Record) error {
	spec, err := substrate.Parse(r.Substrate)
	if err != nil || !spec.IsModel() || v.Spend == nil {
		return nil
	}
	a, err := v.currentAgent(ctx, r.ID, r.Substrate, r.Agent)
	if err != nil || !a.Costs(r.Tenant) {
		return nil
	}
	prices, err := v.prices(ctx, r.Tenant, &a)
	if err != nil {
		return nil
	}
	return v.Spend.Ready(ctx, payer(r.ID, r.Tenant, &a), prices.Model)
}
