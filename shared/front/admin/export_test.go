package admin

import (
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// ReadSpawning reads the body of a spawn, for the fuzzer.
func ReadSpawning(body []byte) (s Spawning, err error) {
	if err := canon.Unmarshal(body, &s, bodyLimits()); err != nil {
		return s, err
	}
	_, err = parseAgent(s.Agent)
	return s, err
}

// TenantRoutes are the routes that a tenant's key opens.
func TenantRoutes(c Config) map[string]httpapi.Methods {
	var open []op.Route
	for _, r := range (&api{c}).routes(op.Server{Keys: c.Billing}) {
		if r.Access.Key.Scope != "" {
			open = append(open, r)
		}
	}
	return op.RoutesByPath(open...)
}
