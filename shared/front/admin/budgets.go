package admin

import (
	"context"
	"net/http"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// models answers with the current table of models.
func (d *api) models(w http.ResponseWriter, r *http.Request) error {
	t, err := d.Vacants.Resources.Models.Current(r.Context())
	if err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, t)
}

func (d *api) setModels(w http.ResponseWriter, r *http.Request) error {
	body, err := httpapi.Body(w, r, models.MaxTable)
	if err != nil {
		return err
	}
	t, err := models.Parse(body)
	if err != nil {
		return err
	}
	if t, err = d.Vacants.Resources.Models.Set(r.Context(), t); err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, t)
}

// budget answers with the budget of a tenant or of the host, and with its use today.
func (d *api) budget(w http.ResponseWriter, r *http.Request) error {
	b, err := d.Vacants.Resources.Spend.Budget(r.Context(), r.URL.Query().Get("tenant"))
	if err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, b)
}

// DailyBudget is a daily budget in micro-dollars.
type DailyBudget struct {
	Daily money.Amount `json:"daily" canon:"required"`
}

func (d *api) setBudget(w http.ResponseWriter, r *http.Request) error {
	b, err := read[DailyBudget](w, r)
	if err == nil && b.Daily < 0 {
		err = problem.Invalid("daily", "0 or more micro-dollars", strconv.FormatInt(int64(b.Daily), 10))
	}
	if err != nil {
		return err
	}
	set, err := d.Vacants.Resources.Spend.SetBudget(r.Context(), r.URL.Query().Get("tenant"), b.Daily)
	if err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, set)
}

// Models returns the current table of models.
func (c *Client) Models(ctx context.Context) (t models.Table, err error) {
	return t, c.do(ctx, http.MethodGet, "/v1/admin/models", nil, &t)
}

// SetModels sets the next version of the table of models.
func (c *Client) SetModels(ctx context.Context, table []byte) (t models.Table, err error) {
	return t, c.do(ctx, http.MethodPut, "/v1/admin/models", table, &t)
}

// Budget returns the daily budget for models of a tenant, or for "" of the host.
func (c *Client) Budget(ctx context.Context, tenant string) (b spend.Budget, err error) {
	return b, c.do(ctx, http.MethodGet, ofTenant("/v1/admin/budgets", tenant), nil, &b)
}

// SetBudget sets the daily budget for models of a tenant.
func (c *Client) SetBudget(ctx context.Context, tenant string, daily money.Amount) (b spend.Budget, err error) {
	return b, c.put(ctx, http.MethodPut, ofTenant("/v1/admin/budgets", tenant), DailyBudget{daily}, &b)
}
