// Package resources has what the agents of a host may be made of: substrates, MCP servers,
// Lambda functions, secrets, budgets and prices. vacants checks with it what is to answer
// for a vacant, before that is stored; answer uses it when a call comes.
package resources

import (
	"context"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/host/keys/secrets"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/loop"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/host/substrate/think"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Resources are the resources of one host. They are safe for concurrent use.
type Resources struct {
	Substrates substrate.Kinds
	// Servers opens the MCP servers of agents. An agent with servers is refused if both
	// Servers and Thinker are nil.
	Servers loop.Servers
	// Thinker asks models, Lambda functions, MCP servers and programs with a secret instead
	// of this process. If Thinker is nil, this process asks them.
	Thinker think.Service
	// Functions are the Lambda functions that agents may be.
	Functions Functions
	// Secrets has the secrets of agents; nil if this host stores none.
	Secrets *secrets.Secrets
	// Spend has the budgets and Models the prices of paid models. Both are nil if this host
	// has no paid models.
	Spend  *spend.Spend
	Models *models.Tables
}

// Parse reads the text form of a substrate, and refuses a substrate that this host does not
// offer.
func (r *Resources) Parse(text string) (substrate.Spec, error) {
	spec, err := substrate.Parse(text)
	if err != nil {
		return spec, err
	}
	if spec.Kind != plan.Kind {
		_, err := r.Substrates.Open(spec)
		return spec, err
	}
	if spec.Argument != "" {
		return spec, problem.Invalid("substrate", plan.Kind+" alone", "an argument")
	}
	return spec, nil
}

// CheckAgent makes the checks of an agent that need no store.
func (r *Resources) CheckAgent(a *definition.Agent) error {
	if err := a.Check(); err != nil {
		return err
	}
	spec, err := a.Spec()
	if err != nil {
		return err
	}
	if spec.Kind == plan.Kind {
		return problem.Invalid("provider", "a substrate that is not a plan", clip(spec.Kind))
	}
	if _, err = r.Substrates.Open(spec); err != nil {
		return err
	}
	if len(a.MCPServers) > 0 && r.Servers == nil && r.Thinker == nil {
		return problem.Invalid("mcp_servers", "none, as this host reaches no MCP servers", "some")
	}
	if other, ok := a.Fallback(); ok {
		_, err = r.Substrates.Open(other)
	}
	return err
}

// CheckPlan makes the checks of a plan that need no store: its form, and that this host has
// the substrate that combines.
func (r *Resources) CheckPlan(p *plan.Plan) error {
	if err := p.Check(); err != nil || p.Aggregate.How != plan.BySubstrate {
		return err
	}
	if _, err := r.Combiner(p); err != nil {
		return &problem.Error{Kind: problem.Malformed, Field: "aggregate.substrate", Detail: "aggregate." + problem.Of(err).Text(), Err: err}
	}
	return nil
}

// Combiner opens the substrate that combines the answers of a plan.
func (r *Resources) Combiner(p *plan.Plan) (substrate.Substrate, error) {
	if p.Aggregate.How != plan.BySubstrate {
		return nil, problem.New(problem.NotFound, "it combines by no substrate")
	}
	spec, err := substrate.Parse(p.Aggregate.Substrate)
	if err != nil {
		return nil, err
	}
	s, err := r.Substrates.Open(spec)
	if err == nil && (spec.IsPaid() || spec.Kind == substrate.KindLambda) {
		// A plan has no secret, no budget and no tenant's functions.
		err = problem.Invalid("substrate", "one that needs no secret and is free, or a child with an agent that has one", clip(spec.Kind))
	}
	return s, err
}

// CheckTenant checks that a vacant of a tenant may answer by an agent: that the function is
// the tenant's, and that the host has the secret and the price. If a is nil, the agent is the
// default agent of the substrate in text.
func (r *Resources) CheckTenant(ctx context.Context, tenant, text string, a *definition.Agent) error {
	if a == nil {
		spec, err := substrate.Parse(text)
		if err != nil {
			return err
		}
		of, ok := definition.Of(spec)
		if !ok {
			return nil // a plan
		}
		a = &of
	}
	if err := r.CheckFunction(tenant, a); err != nil {
		return err
	}
	if err := r.checkSecret(ctx, tenant, a); err != nil {
		return err
	}
	_, err := r.prices(ctx, tenant, a)
	return err
}

func clip(s string) string { return fmt.Sprintf("%.80q", s) }
