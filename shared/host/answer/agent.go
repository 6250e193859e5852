package answer

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/loop"
	"github.com/vacancy-host/vacancy/shared/host/substrate/think"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

func (a *Answerer) openAgentVersion(r *vacants.Record, version int, def *definition.Agent) (*agent, error) {
	spec, err := def.Spec()
	if err != nil {
		return nil, err
	}
	chooser := r.Chooser
	if version != r.AgentVersion {
		chooser = vacants.ChooserOf(r.Tenant, outbound.Tenant)
	}
	t := &agent{Answerer: a, version: version, tenant: r.Tenant, chooser: chooser, spec: spec, config: loop.Config{Agent: *def, NoRetry: !spec.IsModel(), Wait: a.vacants.Wait}}
	if t.config.Model, err = a.resources.Substrates.Open(spec); err != nil {
		return nil, err
	}
	if fallbackSpec, ok := def.Fallback(); ok {
		if t.config.Fallback, err = a.resources.Substrates.Open(fallbackSpec); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// maxCheckTokens limits the cost of checking a paid model.
const maxCheckTokens = 64

type agent struct {
	*Answerer
	calls          *call.Host // nil if the agent is only checked
	config         loop.Config
	askableVacants []identity.ID // vacants that the agent may ask
	version        int
	tenant         string
	chooser        outbound.URLChooser
	spec           substrate.Spec
}

func (t *agent) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		ctx, offer, closeTools := ctx, loop.Offer{}, func() {}
		if t.calls != nil { // a check uses no tools
			var err error
			if ctx, offer, closeTools, err = t.offerTools(ctx, r.Vacant); err != nil {
				yield(nil, err)
				return
			}
		}
		defer closeTools()
		r.Chooser = t.chooser
		loopConfig := t.config
		loopConfig.Offer = offer
		if t.resources.ThinkService != nil && (t.spec.IsModel() || t.spec.Kind == substrate.KindMCP || t.spec.Kind == substrate.KindLambda || loopConfig.Agent.SecretName() != "") {
			remote := remoteModel{t.resources.ThinkService, think.Turn{Agent: think.AgentVersion{Vacant: r.Vacant, Version: t.version}, IsCheck: t.calls == nil}, new(int), t.tenant, loopConfig.Agent.HasCost(t.tenant)}
			loopConfig.Model = &remote
			if loopConfig.Fallback != nil {
				fallback := remote
				fallback.turn.Fallback = true
				loopConfig.Fallback = &fallback
			}
		} else if err := t.prepareModel(ctx, &loopConfig, r.Vacant, t.calls == nil, 0); err != nil {
			yield(nil, err)
			return
		}
		modelRequest := r
		if d := task.DispatchOf(ctx, r.Vacant); d != nil && d.Mode == string(definition.ReadOnly) {
			modelRequest.Turns = slices.Clone(r.Turns)
			last := &modelRequest.Turns[len(modelRequest.Turns)-1]
			last.Text = readOnlyBanner + last.Text
		}
		t.signEvents(ctx, &r, loop.New(loopConfig).Infer(ctx, modelRequest))(yield)
	}
}

const readOnlyBanner = "PERMISSION MODE: READ-ONLY\nWrite files only below " + definition.SharedFolder + ", and leave source files unchanged. The host refuses other writes.\n\n"

func (t *agent) prepareModel(ctx context.Context, c *loop.Config, vacant identity.ID, isCheck bool, spent money.Amount) (err error) {
	if isCheck && c.Agent.HasCost(t.tenant) {
		c.Agent.MaxTokens = maxCheckTokens
	}
	if err := t.resources.CheckFunction(t.tenant, &c.Agent); err != nil {
		return problem.WithPlace(problem.SubstrateMisconfigured, "the agent", err)
	}
	if c.Secret, err = t.resources.LoadSecret(ctx, t.tenant, &c.Agent); err != nil {
		return err
	}
	c.Spending, err = t.resources.BeginSpending(ctx, vacant, t.tenant, &c.Agent, spent)
	return err
}

// offerTools returns the tools of an agent for a call, and the context for that call. The caller
// must call closeTools.
func (t *agent) offerTools(ctx context.Context, vacant identity.ID) (_ context.Context, offer loop.Offer, closeTools func(), err error) {
	closeTools = func() {}
	if len(t.askableVacants) > 0 {
		if ctx, offer, err = t.delegationRunner.VacantTools(ctx, t.vacants, t.calls, vacant, t.askableVacants); err != nil {
			return ctx, offer, nil, err
		}
	}
	if servers := t.config.Agent.MCPServers; len(servers) > 0 {
		var more loop.Offer
		switch {
		case t.resources.ThinkService != nil:
			agentVersion := think.AgentVersion{Vacant: vacant, Version: t.version}
			var offered think.Offer
			offered, err = t.resources.ThinkService.ListMCPTools(ctx, agentVersion)
			more.OmittedTools = offered.OmittedTools
			for _, tool := range offered.Tools {
				more.Tools = append(more.Tools, loop.Tool{Tool: tool.Tool, Writes: tool.Writes, Run: func(ctx context.Context, _ *substrate.Request, arguments json.RawMessage) (string, error) {
					return t.resources.ThinkService.UseMCPTool(ctx, agentVersion, tool.Name, arguments)
				}})
			}
		case t.resources.Servers == nil:
			err = problem.New(problem.SubstrateMisconfigured, "this host cannot reach MCP servers")
		default:
			more, closeTools, err = t.resources.Servers(ctx, vacant, t.chooser, servers)
		}
		if err != nil {
			return ctx, loop.Offer{}, nil, err
		}
		offer.AddAll(more)
	}
	if d := task.DispatchOf(ctx, vacant); d != nil && len(d.Servers) > 0 && t.resources.Servers != nil {
		var servers []definition.Server
		for _, s := range d.Servers {
			servers = append(servers, definition.Server(s))
		}
		more, closeTaskServers, err := t.resources.Servers(ctx, vacant, vacants.ChooserOf(t.tenant, outbound.Tenant), servers)
		if err != nil {
			closeTools()
			return ctx, loop.Offer{}, nil, err
		}
		closeFirst := closeTools
		closeTools = func() { closeFirst(); closeTaskServers() }
		offer.AddAll(more)
	}
	if call.IsOwnTaskWork(ctx) {
		ctx = context.WithValue(ctx, readOnlyKey{}, t.config.Agent.Mode != definition.ReadWrite)
		if w := task.WorkerTurnOf(ctx); w != nil && w.Files != nil && t.fileTools.Files != nil && t.spec.IsModel() {
			offer.Tools = append(t.fileTools.Tools(w, &t.config.Agent), offer.Tools...)
		}
	}
	return ctx, offer, closeTools, nil
}

// signEvents signs an entry about a model's answer into the vacant's logbook before the answer
// ends.
func (t *agent) signEvents(ctx context.Context, r *substrate.Request, events iter.Seq2[substrate.Event, error]) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		var answer strings.Builder // bounded, because the reader stops at substrate.MaxText
		fallback := false
		for e, err := range events {
			switch event := e.(type) {
			case substrate.Usage:
				fallback = event.UsedFallback
				if !t.spec.IsModel() {
					if event.UnreportedTurns > 0 {
						continue // the agent does not report its usage
					}
					event.Turns = 0
				}
				event.AgentVersion = t.version
				e = event
			case substrate.Text:
				answer.WriteString(string(event))
			case substrate.FinishReason:
				err = t.signInference(ctx, r, identity.Sum([]byte(answer.String())), fallback)
			}
			if err != nil {
				e = nil
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func (t *agent) signInference(ctx context.Context, r *substrate.Request, answer identity.Hash, fallback bool) error {
	request := r.ID()
	if request.IsZero() || !t.spec.IsModel() {
		return nil
	}
	model := t.config.Agent.Model
	if fallback {
		model = t.config.Agent.FallbackModel
	}
	return t.vacants.AppendEntries(ctx, vacants.LogEntry{ID: r.Vacant, Kind: logbook.KindInference, Payload: logbook.Inference{
		Caller: r.Caller, RequestHash: request, PromptHash: identity.Sum([]byte(r.Text())), ResponseHash: answer,
		Substrate: t.spec.Kind, Model: model, AgentVersion: t.version, Time: t.vacants.Now().UTC().Truncate(time.Microsecond),
	}.Payload()}, vacants.LogEntry{})
}
