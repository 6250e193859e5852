package admin

import (
	"context"
	"net/http"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
)

func askerOf(ctx context.Context) vacants.Asker {
	sender := op.CallerOf(ctx)
	if sender.IsOperator {
		return vacants.OperatorAsker()
	}
	return vacants.TenantAsker(sender.Key.Tenant)
}

// TenantHandler serves the operations on a tenant's own vacants, for account keys with the scope
// vacants. A request for another party's vacant gets the same answer, byte for byte, as a request
// for a vacant that does not exist. Operations on secrets must be forbidden, because
// definition.Agent.Prices treats all secrets as the operator's.
func TenantHandler(c Config) http.Handler {
	d := &api{c}
	s := op.Server{Keys: c.Billing}
	mux := d.httpAPI().Mux(op.RoutesByPath(d.routes(s)...))
	return d.guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != vacantsPath && !strings.HasPrefix(r.URL.Path, vacantsPath+"/") {
			op.Fail(w, r, s.OperatorOnlyError(r))
			return
		}
		mux.ServeHTTP(w, r)
	}))
}

func (d *api) findVacant(ctx context.Context, ref string) (vacants.Record, error) {
	return d.Vacants.Find(ctx, askerOf(ctx), ref)
}

func withVacant[In interface{ vacant() string }, Out any](d *api, f func(context.Context, *vacants.Record, In) (Out, error)) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (out Out, err error) {
		rec, err := d.findVacant(ctx, in.vacant())
		if err != nil {
			return out, err
		}
		return f(ctx, &rec, in)
	}
}
