// Package resources holds the resources of a host's agents: substrates, MCP servers, Lambda
// functions, secrets, budgets and prices. Package vacants checks an agent or a plan with it
// before it stores them; package answer uses it when a call comes.
package resources

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/keys/secrets"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/loop"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/host/substrate/think"
	"github.com/vacancy-host/vacancy/shared/host/tenant"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
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

// ParseSubstrate reads the text form of a substrate, and refuses a substrate that this host
// does not offer.
func (r *Resources) ParseSubstrate(text string) (substrate.Spec, error) {
	spec, err := substrate.Parse(text)
	if err != nil {
		return spec, err
	}
	if spec.Kind != plan.Kind {
		_, err := r.Substrates.Open(spec)
		return spec, err
	}
	if spec.Argument != "" {
		return spec, problem.Invalid("substrate", plan.Kind+" without an argument", "an argument")
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
		return problem.Below("aggregate", err)
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
		return &problem.Error{Kind: problem.Malformed, Field: "secret", Detail: "secret: " + problem.Of(err).Text()}
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

// prices returns the prices of an agent of a tenant's vacant, zero for a free agent. The
// errors name the fields of definition.Agent.Prices.
func (r *Resources) prices(ctx context.Context, tenant string, a *definition.Agent) (p spend.Prices, err error) {
	switch {
	case !a.Costs(tenant):
		return p, nil
	case r.Spend == nil:
		return p, problem.Invalid("price", "a free model, because this host has no budgets", "a paid one")
	}
	var table models.Table
	if a.UsesTable(tenant) {
		if table, err = r.Models.Current(ctx); err != nil {
			return p, err
		}
	}
	p.Version = table.Version
	p.Model, p.Fallback, err = a.Prices(tenant, &table)
	return p, err
}

// CheckPrice returns an error if a model of an agent has no price.
func (r *Resources) CheckPrice(ctx context.Context, tenant string, a *definition.Agent) error {
	_, err := r.prices(ctx, tenant, a)
	return err
}

// payer returns the vacant and the budgets that a call is charged to.
func payer(id identity.ID, tenant string, a *definition.Agent) spend.Payer {
	p := spend.Payer{Vacant: id, Tenant: tenant, Daily: spend.DefaultVacant, Call: -1}
	if a.DailyBudget != nil {
		p.Daily = *a.DailyBudget
	}
	if a.Budget != nil {
		p.Call = *a.Budget
	}
	if spec, err := a.Spec(); err == nil {
		p.Host = spec.Kind == substrate.KindBedrock // AWS bills the operator
	}
	return p
}

// BeginSpending begins the spending of a call that has cost before until now. It returns nil if
// the agent is free.
func (r *Resources) BeginSpending(ctx context.Context, id identity.ID, tenant string, a *definition.Agent, before money.Amount) (*spend.Call, error) {
	if !a.Costs(tenant) {
		return nil, nil
	}
	prices, err := r.prices(ctx, tenant, a)
	switch {
	case problem.Is(err, problem.Unavailable):
		return nil, problem.Within(problem.SubstrateUnavailable, "read the price", err)
	case err != nil:
		return nil, problem.Within(problem.SubstrateMisconfigured, "price of the agent", err)
	}
	p := payer(id, tenant, a)
	p.Before = before
	return r.Spend.Begin(p, prices), nil
}

// CheckBudget returns an error of kind BudgetSpent if a vacant's agent has no budget left today.
// Errors of the agent itself are left to the call.
func (r *Resources) CheckBudget(ctx context.Context, id identity.ID, tenant string, a *definition.Agent) error {
	if r.Spend == nil || !a.Costs(tenant) {
		return nil
	}
	prices, err := r.prices(ctx, tenant, a)
	if err != nil {
		return nil
	}
	return r.Spend.Ready(ctx, payer(id, tenant, a), prices.Model)
}

func clip(s string) string { return fmt.Sprintf("%.80q", s) }
