package admin

import (
	"context"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func (d *api) setModels(ctx context.Context, in op.Body[op.Raw[models.Shape]]) (models.Table, error) {
	t, err := models.Parse(in.Body)
	if err != nil {
		return t, err
	}
	return d.Vacants.Resources.Models.Set(ctx, t)
}

// DailyBudget is a daily budget in micro-dollars.
type DailyBudget struct {
	Daily money.Amount `json:"daily" canon:"required"`
}

func (d *api) setBudget(ctx context.Context, in TenantWith[DailyBudget]) (b spend.Budget, err error) {
	daily := in.Body.Daily
	if daily < 0 {
		return b, problem.Invalid("daily", "0 or more micro-dollars", strconv.FormatInt(int64(daily), 10))
	}
	return d.Vacants.Resources.Spend.SetBudget(ctx, in.Tenant, daily)
}
