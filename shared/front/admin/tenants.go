package admin

import (
	"context"
	"net/http"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// vacantsPath begins the routes of vacants.
const vacantsPath = "/v1/admin/vacants"

// exportPath is the one among them that a tenant's key does not open: the answer is the
// private key of a vacant, which a stolen key could take for good.
const exportPath = vacantsPath + "/{vacant}/export"

// askerKey is where the context of a request has the Asker that it is by.
type askerKey struct{}

func withAsker(ctx context.Context, by vacants.Asker) context.Context {
	return context.WithValue(ctx, askerKey{}, by)
}

// askerOf is who a request is by. A route without an Asker is a mistake, and panics
// before it answers anything.
func askerOf(ctx context.Context) vacants.Asker { return ctx.Value(askerKey{}).(vacants.Asker) }

// Tenants serves the routes of vacants to tenants, by a key of their account that has the
// scope vacants: they create vacants of the tenant, and see and change those. Another's is
// not found, in the same bytes as one that does not exist, with two exceptions: nobody gets
// a name or slug that is taken, though the refusal tells nothing else of who has it, and an
// agent may be given public vacants to ask. All other routes are forbidden. Those of secrets must be, because
// definition.Agent.Prices counts every secret as the operator's.
func Tenants(c Config) http.Handler {
	d := &api{c}
	own := d.http().Mux(d.tenantRoutes())
	return d.guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tenant, err := d.authenticate(r)
		if err == nil && (!isTenants(r.URL.Path) || isExport(r.URL.Path)) {
			err = problem.New(problem.Forbidden, "a key of an account manages the vacants of its tenant; this is the operator's")
		}
		if err == nil {
			own.ServeHTTP(w, r.WithContext(withAsker(r.Context(), vacants.Tenant(tenant))))
			return
		}
		if problem.Is(err, problem.Unauthorized) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="vacancy"`)
		}
		httpapi.Fail(w, err)
	}))
}

// tenantRoutes are the routes that a tenant's key opens. Their handlers find vacants by find.
func (d *api) tenantRoutes() map[string]httpapi.Methods {
	routes := map[string]httpapi.Methods{}
	for path, methods := range d.routes() {
		if isTenants(path) && path != exportPath {
			routes[path] = methods
		}
	}
	return routes
}

func isTenants(path string) bool {
	return path == vacantsPath || strings.HasPrefix(path, vacantsPath+"/")
}

func isExport(path string) bool {
	_, tail, _ := strings.Cut(strings.TrimPrefix(path, vacantsPath+"/"), "/")
	return tail == "export"
}

// authenticate returns the tenant that a request's key is of.
func (d *api) authenticate(r *http.Request) (tenant string, err error) {
	secret, err := billing.Bearer(r)
	if err != nil {
		return "", err
	}
	k, err := d.Billing.Authenticate(r.Context(), secret)
	switch {
	case err != nil:
		return "", err
	case k.Test:
		return "", problem.New(problem.TestKey, "a test key manages no vacants")
	case !k.Has(billing.ScopeVacants):
		return "", billing.NeedsScope(billing.ScopeVacants)
	}
	a, err := d.Billing.Account(r.Context(), k.Account)
	if err == nil && a.Suspended && r.Method != http.MethodGet && r.Method != http.MethodHead {
		err = problem.New(problem.AccountSuspended, "the account of %s is suspended", a.Tenant)
	}
	return a.Tenant, err
}

// ownTenant is the tenant of a new vacant: the one named, for a tenant its own.
func ownTenant(ctx context.Context, named string) (string, error) {
	tenant, ok := askerOf(ctx).OfTenant()
	if !ok || named == tenant {
		return named, nil
	}
	if named != "" {
		return "", problem.New(problem.Forbidden, "tenant: expected %s, whose key this is, or none, got %s", tenant, clip(named))
	}
	return tenant, nil
}

// find finds a vacant that the request's Asker knows, by name, id or the beginning of
// one.
func (d *api) find(ctx context.Context, what string) (vacants.Record, error) {
	return d.Vacants.Find(ctx, askerOf(ctx), what)
}
