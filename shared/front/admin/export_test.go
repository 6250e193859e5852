package admin

import "github.com/vacancy-host/vacancy/shared/front/httpapi"

// ReadSpawning is readSpawning, for the fuzzer.
var ReadSpawning = readSpawning

// TenantRoutes are the routes that a tenant's key opens.
func TenantRoutes(c Config) map[string]httpapi.Methods { return (&api{c}).tenantRoutes() }
