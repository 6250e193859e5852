// Package resources contains the resources of a host's agents: substrates, MCP servers, Lambda
// functions, secrets, budgets and prices. It also checks agents and plans before they are stored.
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

// Resources is safe for concurrent use.
type Resources struct {
	Substrates substrate.Kinds
	Servers    loop.Servers
	// ThinkService calls models and servers in another process. If it is nil, this process calls
	// them.
	ThinkService think.Service
	Functions    Functions
	// Secrets is nil if this host stores no secrets.
	Secrets *secrets.Secrets
	// Budgets and Models are nil if this host has no paid models.
	Budgets *spend.Budgets
	Models  *models.Tables
}

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

// CheckAgent runs all checks of an agent that do not need the store.
func (r *Resources) CheckAgent(a *definition.Agent) error {
	if err := a.Check(); err != nil {
		return err
	}
	spec, err := a.Spec()
	if err != nil {
		return err
	}
	if spec.Kind == plan.Kind {
		return problem.Invalid("provider", "a substrate that is not a plan", quoteTruncated(spec.Kind))
	}
	if _, err = r.Substrates.Open(spec); err != nil {
		return err
	}
	if len(a.MCPServers) > 0 && r.Servers == nil && r.ThinkService == nil {
		return problem.Invalid("mcp_servers", "none, because this host cannot reach MCP servers", "some")
	}
	if fallback, ok := a.Fallback(); ok {
		_, err = r.Substrates.Open(fallback)
	}
	return err
}

func (r *Resources) CheckPlan(p *plan.Plan) error {
	if err := p.Check(); err != nil || p.Aggregate.Method != plan.BySubstrate {
		return err
	}
	if _, err := r.Combiner(p); err != nil {
		return problem.AtPath("aggregate", err)
	}
	return nil
}

func (r *Resources) Combiner(p *plan.Plan) (substrate.Substrate, error) {
	if p.Aggregate.Method != plan.BySubstrate {
		return nil, problem.New(problem.NotFound, "the plan does not combine its answers with a substrate")
	}
	spec, err := substrate.Parse(p.Aggregate.Substrate)
	if err != nil {
		return nil, err
	}
	s, err := r.Substrates.Open(spec)
	if err == nil && (spec.IsPaid() || spec.Kind == substrate.KindLambda) {
		// A plan has neither a secret nor a budget, and cannot use a tenant's functions.
		err = problem.Invalid("substrate", "a free substrate without a secret, or a child whose agent has the secret", quoteTruncated(spec.Kind))
	}
	return s, err
}

// CheckAgentOfTenant checks whether a tenant's vacant may use an agent. If a is nil, the default
// agent of the given substrate is checked.
func (r *Resources) CheckAgentOfTenant(ctx context.Context, tenant, substrateText string, a *definition.Agent) error {
	if a == nil {
		spec, err := substrate.Parse(substrateText)
		if err != nil {
			return err
		}
		agent, ok := definition.DefaultAgent(spec)
		if !ok {
			return nil // a plan
		}
		a = &agent
	}
	if err := r.CheckFunction(tenant, a); err != nil {
		return err
	}
	if err := r.checkSecret(ctx, tenant, a); err != nil {
		return err
	}
	_, err := r.loadPrices(ctx, tenant, a)
	return err
}

// Functions maps tenants to the Lambda functions that their agents may use. The key "" is for
// vacants without a tenant.
type Functions map[string][]string

// ParseFunctions parses a list such as TENANT=ARN,ARN. An ARN without a tenant is for the
// operator's vacants.
func ParseFunctions(text string) (Functions, error) {
	functions := Functions{}
	for entry := range strings.SplitSeq(text, ",") {
		if entry == "" {
			continue
		}
		owner, arn, ok := strings.Cut(entry, "=")
		if !ok {
			owner, arn = "", entry
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
		functions[owner] = append(functions[owner], arn)
	}
	return functions, nil
}

func (r *Resources) CheckFunction(owner string, a *definition.Agent) error {
	spec, err := a.Spec()
	if err != nil || spec.Kind != substrate.KindLambda || slices.Contains(r.Functions[owner], spec.Argument) {
		return err
	}
	return problem.New(problem.Forbidden, "function %.160s is not one of the tenant's functions (context value tenantFunctions)", spec.Argument)
}

func (r *Resources) checkSecret(ctx context.Context, tenant string, a *definition.Agent) error {
	name := a.SecretName()
	if name == "" {
		return nil
	}
	if r.Secrets == nil {
		return problem.Invalid("secret", "an agent without a secret, because this host stores none", quoteTruncated(name))
	}
	err := r.Secrets.Check(ctx, tenant, name, a.SecretEndpoints()...)
	if problem.Is(err, problem.NotFound) {
		return &problem.Error{Kind: problem.Malformed, Field: "secret", Detail: "secret: " + problem.AsError(err).Text()}
	}
	return err
}

func (r *Resources) LoadSecret(ctx context.Context, tenant string, a *definition.Agent) (substrate.Secret, error) {
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
		err = problem.WithPlace(problem.SubstrateUnavailable, "read the secret", err)
	case err != nil:
		err = problem.WithPlace(problem.SubstrateMisconfigured, "secret of the agent", err)
	}
	return substrate.NewSecret(value), err
}

func (r *Resources) loadPrices(ctx context.Context, tenant string, a *definition.Agent) (p spend.Prices, err error) {
	switch {
	case !a.HasCost(tenant):
		return p, nil
	case r.Budgets == nil:
		return p, problem.Invalid("price", "a free model, because this host has no budgets", "a paid one")
	}
	var table models.Table
	if a.UsesPriceTable(tenant) {
		if table, err = r.Models.Current(ctx); err != nil {
			return p, err
		}
	}
	p.Version = table.Version
	p.Model, p.Fallback, err = a.Prices(tenant, &table)
	return p, err
}

func (r *Resources) CheckPrice(ctx context.Context, tenant string, a *definition.Agent) error {
	_, err := r.loadPrices(ctx, tenant, a)
	return err
}

func newPayer(id identity.ID, tenant string, a *definition.Agent) spend.Payer {
	p := spend.Payer{Vacant: id, Tenant: tenant, DailyBudget: spend.DefaultVacantBudget, CallBudget: -1}
	if a.DailyBudget != nil {
		p.DailyBudget = *a.DailyBudget
	}
	if a.Budget != nil {
		p.CallBudget = *a.Budget
	}
	if spec, err := a.Spec(); err == nil {
		p.ChargesHost = spec.Kind == substrate.KindBedrock // AWS bills the operator
	}
	return p
}

// BeginSpending returns the spending of a call, or nil if the agent is free. costBefore is the cost
// of the call's earlier turns, which reduces the budget.
func (r *Resources) BeginSpending(ctx context.Context, id identity.ID, tenant string, a *definition.Agent, costBefore money.Amount) (*spend.Call, error) {
	if !a.HasCost(tenant) {
		return nil, nil
	}
	prices, err := r.loadPrices(ctx, tenant, a)
	switch {
	case problem.Is(err, problem.Unavailable):
		return nil, problem.WithPlace(problem.SubstrateUnavailable, "read the price", err)
	case err != nil:
		return nil, problem.WithPlace(problem.SubstrateMisconfigured, "price of the agent", err)
	}
	p := newPayer(id, tenant, a)
	p.CostBefore = costBefore
	return r.Budgets.BeginCall(p, prices), nil
}

// CheckBudget returns an error of kind BudgetSpent if a vacant's agent has no budget left today.
func (r *Resources) CheckBudget(ctx context.Context, id identity.ID, tenant string, a *definition.Agent) error {
	if r.Budgets == nil || !a.HasCost(tenant) {
		return nil
	}
	prices, err := r.loadPrices(ctx, tenant, a)
	if err != nil {
		return nil
	}
	return r.Budgets.CheckBudget(ctx, newPayer(id, tenant, a), prices.Model)
}

func quoteTruncated(s string) string { return fmt.Sprintf("%.80q", s) }
