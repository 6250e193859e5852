package definition

import (
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// HasCost reports whether budgets apply to the agent's turns. An empty tenant means the operator.
func (a *Agent) HasCost(tenant string) bool {
	return a.UsesPriceTable(tenant) || a.Price != nil && !a.Price.IsFree()
}

func (a *Agent) UsesPriceTable(tenant string) bool {
	spec, err := a.Spec()
	return err == nil && spec.IsModel() && (spec.IsPaid() || a.SecretName() != "") && (tenant != "" || a.Price == nil)
}

// Prices returns the prices of Model and FallbackModel. An empty tenant means the operator.
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
