package resources

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// checkSecret checks that the secret of a tenant's agent exists and may be sent to the agent's
// endpoints.
func (r *Resources) checkSecret(ctx context.Context, tenant string, a *definition.Agent) error {
	name := a.SecretName()
	if name == "" {
		return nil
	}
	if r.Secrets == nil {
		return problem.Invalid("secret", "an agent without a secret, because this host stores none", clip(name))
	}
	err := r.Secrets.Check(ctx, tenant, name, a.SecretEndpoints()...)
	if problem.Is(err, problem.NotFound) {
		command := "vacancy secret set " + name
		if tenant != "" {
			command += " --tenant " + tenant
		}
		return &problem.Error{Kind: problem.Malformed, Field: "secret", Detail: "secret: " + problem.Of(err).Text() + ": " + command}
	}
	return err
}

// Secret returns the secret of an agent for a call.
func (r *Resources) Secret(ctx context.Context, tenant string, a *definition.Agent) (substrate.Secret, error) {
	name := a.SecretName()
	if name == "" {
		return substrate.Secret{}, nil
	}
	if r.Secrets == nil {
		return substrate.Secret{}, problem.New(problem.SubstrateMisconfigured, "the agent has a secret, but this host stores none")
	}
	value, err := r.Secrets.Use(ctx, tenant, name, a.SecretEndpoints()...)
	switch {
	case problem.Is(err, problem.Unavailable):
		err = problem.Within(problem.SubstrateUnavailable, "read the secret", err)
	case err != nil:
		err = problem.Within(problem.SubstrateMisconfigured, "secret of the agent", err)
	}
	return substrate.NewSecret(value), err
}
