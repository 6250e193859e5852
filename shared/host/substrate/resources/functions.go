package resources

import (
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/tenant"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Functions are the Lambda functions that agents may be, by their tenant; "" is of
// vacants without a tenant.
type Functions map[string][]string

// ParseFunctions parses TENANT=ARN,... An ARN without a tenant is for vacants without one.
func ParseFunctions(text string) (Functions, error) {
	all := Functions{}
	for one := range strings.SplitSeq(text, ",") {
		if one == "" {
			continue
		}
		owner, arn, ok := strings.Cut(one, "=")
		if !ok {
			owner, arn = "", one
		}
		if err := tenant.Check(owner); err != nil {
			return nil, err
		}
		if ok && owner == "" {
			return nil, problem.Invalid("tenant", "a name before =", "none")
		}
		if err := substrate.CheckFunction(arn); err != nil {
			return nil, err
		}
		all[owner] = append(all[owner], arn)
	}
	return all, nil
}

// CheckFunction checks that an agent at a Lambda function is one of its tenant's.
func (r *Resources) CheckFunction(owner string, a *definition.Agent) error {
	spec, err := a.Spec()
	if err != nil || spec.Kind != substrate.KindLambda || slices.Contains(r.Functions[owner], spec.Argument) {
		return err
	}
	return problem.New(problem.Forbidden, "function %.160s is not among the tenant's (context value tenantFunctions)", spec.Argument)
}
