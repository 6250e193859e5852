package answer

import (
	"context"
	"encoding/json"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/loop"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/substrate/think"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// remoteModel asks a model turn by turn through a think.Service.
type remoteModel struct {
	service think.Service
	turn    think.Turn
	spent   *int // micro-dollars for the call
	tenant  string
	hasCost bool
}

func (m *remoteModel) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		turn := m.turn
		turn.Request, turn.CostBefore = r, *m.spent
		var modelTurn *call.ModelTurn
		if m.hasCost {
			// The other process knows the price, and reports the highest cost before it asks the
			// model.
			var err error
			if modelTurn, err = call.BeginModelTurn(ctx, m.tenant, 1, math.MaxInt64); err != nil {
				yield(nil, err)
				return
			}
			if modelTurn != nil {
				turn.TaskBudget = new(int(modelTurn.Reserved))
			}
		}
		cost := 0
		defer func() {
			modelTurn.Settle(money.Amount(cost))
			*m.spent += cost
		}()
		for e, err := range m.service.RunTurn(ctx, turn) {
			if u, ok := e.(substrate.Usage); ok {
				cost = max(u.Cost, 0)
				modelTurn.Settle(money.Amount(cost))
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// ThinkService returns the service with which other processes use the models and MCP servers of
// this host's agents.
func (a *Answerer) ThinkService() think.Service { return thinkService{a} }

type thinkService struct{ *Answerer }

func (v thinkService) Watch(ctx context.Context, name string) (context.Context, context.CancelFunc) {
	return task.WatchTurn(ctx, v.vacants.Store, name)
}

func (v thinkService) RunTurn(ctx context.Context, t think.Turn) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		events, err := v.thinkTurn(ctx, &t)
		if err != nil {
			yield(nil, err)
			return
		}
		events(yield)
	}
}

func (v thinkService) thinkTurn(ctx context.Context, t *think.Turn) (iter.Seq2[substrate.Event, error], error) {
	r, err := v.loadVacant(ctx, t.Agent.Vacant)
	if err != nil {
		return nil, err
	}
	t.Request.Vacant = r.ID
	if spec, err := substrate.Parse(r.Substrate); err == nil && spec.Kind == plan.Kind {
		t.Request.Chooser = vacants.ChooserOf(r.Tenant, outbound.Tenant)
		p, ok, err := v.vacants.Plan(ctx, r.ID)
		if err == nil && !ok {
			err = problem.New(problem.NotFound, "vacant %s has no plan", r.ID.Short())
		}
		var s substrate.Substrate
		if err == nil {
			s, err = v.resources.Combiner(&p)
		}
		if err != nil {
			return nil, asSubstrateError("the plan", err)
		}
		return s.Infer(ctx, t.Request), nil
	}
	openedAgent, err := v.openRequestedAgent(ctx, &r, t.Agent.Version)
	if err != nil {
		return nil, err
	}
	t.Request.Chooser = openedAgent.chooser
	loopConfig := openedAgent.config
	if t.Fallback && loopConfig.Fallback == nil {
		return nil, problem.New(problem.SubstrateMisconfigured, "the agent has no fallback model")
	}
	if t.TaskBudget != nil {
		budget := money.Amount(t.CostBefore + *t.TaskBudget)
		if agentBudget := loopConfig.Agent.Budget; agentBudget != nil {
			budget = min(budget, *agentBudget)
		}
		loopConfig.Agent.Budget = &budget
	}
	if err := openedAgent.prepareModel(ctx, &loopConfig, r.ID, t.IsCheck, money.Amount(t.CostBefore)); err != nil {
		return nil, err
	}
	if limit := loopConfig.Agent.TimeLimit(); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		events := loop.RunTurn(ctx, loopConfig, t.Request, t.Fallback)
		return func(yield func(substrate.Event, error) bool) {
			defer cancel()
			events(yield)
		}, nil
	}
	return loop.RunTurn(ctx, loopConfig, t.Request, t.Fallback), nil
}

func (v thinkService) loadVacant(ctx context.Context, id identity.ID) (vacants.Record, error) {
	r, err := v.vacants.GetExisting(ctx, id)
	return r, asSubstrateError("the vacant", err)
}

func (v thinkService) openRequestedAgent(ctx context.Context, r *vacants.Record, version int) (*agent, error) {
	if version > r.AgentVersion || version == 0 && r.AgentVersion > 0 {
		return nil, problem.New(problem.SubstrateMisconfigured, "version %d of the agent is not available, because the agent has changed", version)
	}
	def, err := v.vacants.Agent(ctx, r, version)
	if err != nil {
		return nil, asSubstrateError("the agent", err)
	}
	applyTaskLimits(ctx, r, &def)
	openedAgent, err := v.openAgentVersion(r, version, &def)
	return openedAgent, asSubstrateError("the agent", err)
}

func asSubstrateError(place string, err error) error {
	switch {
	case err == nil || problem.AsError(err).Kind.IsFailure():
		return err
	case problem.Is(err, problem.Unavailable):
		return problem.WithPlace(problem.SubstrateUnavailable, place, err)
	}
	return problem.WithPlace(problem.SubstrateMisconfigured, place, err)
}

func (v thinkService) ListMCPTools(ctx context.Context, agentVersion think.AgentVersion) (thinkOffer think.Offer, err error) {
	offer, closeServers, err := v.openMCPTools(ctx, agentVersion, "")
	if err != nil {
		return thinkOffer, err
	}
	defer closeServers()
	thinkOffer.OmittedTools = offer.OmittedTools
	for _, t := range offer.Tools {
		thinkOffer.Tools = append(thinkOffer.Tools, think.Tool{Tool: t.Tool, Writes: t.Writes})
	}
	return thinkOffer, nil
}

func (v thinkService) UseMCPTool(ctx context.Context, agentVersion think.AgentVersion, name string, arguments json.RawMessage) (string, error) {
	offer, closeServers, err := v.openMCPTools(ctx, agentVersion, name)
	if err != nil {
		return "", err
	}
	defer closeServers()
	i := slices.IndexFunc(offer.Tools, func(t loop.Tool) bool { return t.Name == name })
	if i < 0 {
		for _, omitted := range offer.OmittedTools.Tools {
			if prefix, isPrefix := strings.CutSuffix(omitted.Name, "*"); omitted.Name == name || isPrefix && strings.HasPrefix(name, prefix) {
				return "", problem.New(problem.SubstrateUnavailable, "%s", omitted.Reason)
			}
		}
		return "", problem.New(problem.NotFound, "the tool %.80q no longer exists", name)
	}
	return offer.Tools[i].Run(ctx, nil, arguments)
}

func (v thinkService) openMCPTools(ctx context.Context, agentVersion think.AgentVersion, name string) (offer loop.Offer, closeServers func(), err error) {
	r, err := v.loadVacant(ctx, agentVersion.Vacant)
	if err != nil {
		return offer, nil, err
	}
	openedAgent, err := v.openRequestedAgent(ctx, &r, agentVersion.Version)
	if err != nil {
		return offer, nil, err
	}
	servers := slices.DeleteFunc(slices.Clone(openedAgent.config.Agent.MCPServers), func(s definition.Server) bool {
		return name != "" && !strings.HasPrefix(name, loop.SanitizeName("mcp__"+s.Name+"__"))
	})
	if v.resources.Servers == nil {
		return offer, nil, problem.New(problem.SubstrateMisconfigured, "this process cannot reach MCP servers")
	}
	return v.resources.Servers(ctx, r.ID, openedAgent.chooser, servers)
}
