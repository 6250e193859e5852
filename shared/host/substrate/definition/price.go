package definition

import (
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// HasCost reports whether the agent's turns are counted in budgets if its vacant belongs to tenant.
// An empty tenant means the operator.
func (a *Agent) HasCost(tenant string) bool {
	return a.UsesPriceTable(tenant) || a.Price != nil && !a.Price.IsFree()
}

// UsesPriceTable reports whether Prices needs the host's table of models. It does if the operator
// pays for the models (see the package comment), unless an agent of the operator states its own
// price.
func (a *Agent) UsesPriceTable(tenant string) bool {
	spec, err := a.Spec()
	return err == nil && spec.IsModel() && (spec.IsPaid() || a.SecretName() != "") && (tenant != "" || a.Price == nil)
}

// Prices returns the prices of Model and FallbackModel in a vacant of tenant. An empty tenant means
// the operator. Prices reads t only if UsesPriceTable is true. If a model has no price, the field
// of the error is model or fallback_model for a tenant's agent, and price for the operator's agent.
func (a *Agent) Prices(tenant string, t *models.Table) (model, fallback models.Price, err error) {
	spec, err := a.Spec()
	if err != nil {
		return model, fallback, err
	}
	if model, err = a.priceOf(tenant, t, "model", spec); err != nil {
		return model, fallback, err
	}
	if fallbackSpec, ok := a.Fallback(); ok {
		fallback, err = a.priceOf(tenant, t, "fallback_model", fallbackSpec)
	}
	return model, fallback, err
}

func (a *Agent) priceOf(tenant string, t *models.Table, field string, s substrate.Spec) (p models.Price, err error) {
	if a.Price != nil {
		p = *a.Price
	}
	if !a.UsesPriceTable(tenant) {
		return p, nil
	}
	row, ok := t.Find(s)
	switch {
	case ok:
		return models.Price{InputPrice: max(p.InputPrice, row.InputPrice), OutputPrice: max(p.OutputPrice, row.OutputPrice), CachedPrice: max(p.CachedPrice, row.CachedPrice)}, nil
	case tenant == "":
		return p, problem.Invalid("price", "a price, because the host's table of models has none for "+s.String()+": set price: IN/OUT in the agent, or run vacancy models set FILE", "none")
	}
	return p, problem.Invalid(field, "a model in the host's table of models, because the operator pays for it; the operator can add a model with vacancy models set FILE", s.String())
}
