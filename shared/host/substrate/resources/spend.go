package resources

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

// prices returns the prices of an agent of a tenant's vacant, zero for a free agent. The
// errors name the fields of definition.Agent.Prices.
func (r *Resources) prices(ctx context.Context, tenant string, a *definition.Agent) (p spend.Prices, err error) {
	switch {
	case !a.Costs(tenant):
		return p, nil
	case r.Spend == nil:
		return p, problem.Invalid("price", "a free model, because this host has no budgets", "a paid one")
	}
	var table models.Table
	if a.UsesTable(tenant) {
		if table, err = r.Models.Current(ctx); err != nil {
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

// Begin begins the spending of a call that has cost something before; nil if the
// agent is free.
func (r *Resources) Begin(ctx context.Context, id identity.ID, tenant string, a *definition.Agent, before money.Amount) (*spend.Call, error) {
	if !a.Costs(tenant) {
		return nil, nil
	}
	prices, err := r.prices(ctx, tenant, a)
	switch {
	case problem.Is(err, problem.Unavailable):
		return nil, problem.Within(problem.SubstrateUnavailable, "read the price", err)
	case err != nil:
		return nil, problem.Within(problem.SubstrateMisconfigured, "price of the agent", err)
	}
	p := payer(id, tenant, a)
	p.Before = before
	return r.Spend.Begin(p, prices), nil
}

// Ready returns an error of kind BudgetSpent if the budgets of the day of a vacant's agent are
// spent. Errors of the agent itself are left to the call.
func (r *Resources) Ready(ctx context.Context, id identity.ID, tenant string, a *definition.Agent) error {
	if r.Spend == nil || !a.Costs(tenant) {
		return nil
	}
	prices, err := r.prices(ctx, tenant, a)
	if err != nil {
		return nil
	}
	return r.Spend.Ready(ctx, payer(id, tenant, a), prices.Model)
}
