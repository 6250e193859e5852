package admin

import (
	"context"
	"net/http"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
)

func askerOf(ctx context.Context) vacants.Asker {
	by := op.CallerOf(ctx)
	if by.Operator {
		return vacants.Operator()
	}
	return vacants.Tenant(by.Key.Tenant)
}

// Tenants serves the operations of vacants to tenants, by a key of their account that has the
// scope vacants: they create vacants of the tenant, and see and change the tenant's vacants.
// Another party's vacant is not found, in the same bytes as a vacant that does not exist. There
// are two exceptions: a taken name or slug is refused, though the refusal says nothing else
// about its owner, and an agent may ask public vacants. All other operations are forbidden to
// tenants. Operations on secrets must be, because definition.Agent.Prices counts every secret
// as the operator's.
func Tenants(c Config) http.Handler {
	d := &api{c}
	s := op.Server{Keys: c.Billing}
	own := d.http().Mux(op.Routes(d.routes(s)...))
	return d.guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != vacantsPath && !strings.HasPrefix(r.URL.Path, vacantsPath+"/") {
			op.Fail(w, r, s.OperatorsOnly(r))
			return
		}
		own.ServeHTTP(w, r)
	}))
}

// find finds a vacant that the request's Asker knows, by name, id or the beginning of
// one.
func (d *api) find(ctx context.Context, what string) (vacants.Record, error) {
	return d.Vacants.Find(ctx, askerOf(ctx), what)
}

// onVacant is the function of an operation on a vacant that the request's Asker knows.
func onVacant[In interface{ vacant() string }, Out any](d *api, f func(context.Context, *vacants.Record, In) (Out, error)) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (out Out, err error) {
		rec, err := d.find(ctx, in.vacant())
		if err != nil {
			return out, err
		}
		return f(ctx, &rec, in)
	}
}
