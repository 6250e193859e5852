package vacants

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// checkPaid checks that the host knows what r's agent costs, and has the secret that it
// needs. An agent of nil is that of defaults for r's substrate.
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
	if err := v.checkSecret(ctx, r, a); err != nil {
		return err
	}
	_, err := v.prices(ctx, a)
	return err
}

// prices are those of an agent that costs something. The error names the field price.
func (v *Directory) prices(ctx context.Context, a *definition.Agent) (p spend.Prices, err error) {
	switch {
	case !a.Costs():
		return p, nil
	case v.Spend == nil:
		return p, problem.Invalid("price", "a model that costs nothing, as this host keeps no budgets", "one that costs")
	case a.Price != nil:
		return spend.Prices{Model: *a.Price, Fallback: *a.Price}, nil
	}
	table, err := v.Models.Current(ctx)
	if err != nil {
		return p, err
	}
	p.Version = table.Version
	spec, err := a.Spec()
	if err != nil {
		return p, err
	}
	if p.Model, err = priceIn(&table, spec); err != nil {
		return p, err
	}
	if other, ok := a.Fallback(); ok {
		p.Fallback, err = priceIn(&table, other)
	}
	return p, err
}

func priceIn(t *models.Table, s substrate.Spec) (models.Price, error) {
	m, ok := t.Find(s)
	if !ok {
		return models.Price{}, problem.Invalid("price", "one, as the host's table of models does not have "+s.String()+": set it in the agent (price: IN/OUT), or vacancy models set FILE", "none")
	}
	return m.Price, nil
}

// payer is whose budgets a call of an agent counts in.
func payer(id identity.ID, tenant string, a *definition.Agent) spend.Payer {
	p := spend.Payer{Vacant: id, Tenant: tenant, Daily: spend.DefaultVacant, Call: -1}
	if a.DailyBudget != nil {
		p.Daily = *a.DailyBudget
	}
	if a.Budget != nil {
		p.Call = *a.Budget
	}
	return p
}

// beginSpending is what a call of an agent is paid by; nil if it costs nothing.
func (v *Directory) beginSpending(ctx context.Context, id identity.ID, tenant string, a *definition.Agent) (*spend.Call, error) {
	if !a.Costs() {
		return nil, nil
	}
	prices, err := v.prices(ctx, a)
	switch {
	case problem.Is(err, problem.Unavailable):
		return nil, problem.Within(problem.SubstrateUnavailable, "its price cannot be read now", err)
	case err != nil:
		return nil, problem.Within(problem.SubstrateMisconfigured, "its price", err)
	}
	return v.Spend.Begin(payer(id, tenant, a), prices), nil
}

// affordable refuses a call of r that no budget of its day pays for. Why an agent cannot
// answer otherwise is told by its answer.
func (v *Directory) affordable(ctx context.Context, r *Record) error {
	spec, err := substrate.Parse(r.Substrate)
	if err != nil || !spec.IsModel() || v.Spend == nil {
		return nil
	}
	a, err := v.currentAgent(ctx, r.ID, r.Substrate, r.Agent)
	if err != nil || !a.Costs() {
		return nil
	}
	prices, err := v.prices(ctx, &a)
	if err != nil {
		return nil
	}
	return v.Spend.Ready(ctx, payer(r.ID, r.Tenant, &a), prices.Model)
}
