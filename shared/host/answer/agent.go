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

func (a *Answerer) openVersion(r *vacants.Record, version int, def *definition.Agent) (*agent, error) {
	spec, err := def.Spec()
	if err != nil {
		return nil, err
	}
	by := r.Chooser // the party that chose the settings of the current version
	if version != r.Agent {
		by = vacants.ChooserOf(r.Tenant, outbound.Tenant)
	}
	t := &agent{Answerer: a, version: version, tenant: r.Tenant, by: by, spec: spec, config: loop.Config{Agent: *def, NoRetry: !spec.IsModel(), Wait: a.vacants.Wait}}
	if t.config.Model, err = a.resources.Substrates.Open(spec); err != nil {
		return nil, err
	}
	if other, ok := def.Fallback(); ok {
		if t.config.Fallback, err = a.resources.Substrates.Open(other); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// checkTokens limits the answer, in tokens, if a paid model is only checked.
const checkTokens = 64

// agent is the agent of a vacant on this host.
type agent struct {
	*Answerer
	calls   *call.Host // nil if the agent is only checked
	config  loop.Config
	asked   []identity.ID // vacants that the agent may ask
	version int
	tenant  string
	by      outbound.URLChooser // the party that chose the agent's URLs
	spec    substrate.Spec
}

func (t *agent) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		ctx, offer, done := ctx, loop.Offer{}, func() {}
		if t.calls != nil { // a check uses no tools
			var err error
			if ctx, offer, done, err = t.offer(ctx, r.Vacant); err != nil {
				yield(nil, err)
				return
			}
		}
		defer done()
		r.Chooser = t.by
		c := t.config
		c.Offer = offer
		if t.resources.Thinker != nil && (t.spec.IsModel() || t.spec.Kind == substrate.KindMCP || t.spec.Kind == substrate.KindLambda || c.Agent.SecretName() != "") {
			remote := remoteModel{t.resources.Thinker, think.Turn{Agent: think.Agent{Vacant: r.Vacant, Version: t.version}, IsCheck: t.calls == nil}, new(int), t.tenant, c.Agent.HasCost(t.tenant)}
			c.Model = &remote
			if c.Fallback != nil {
				fallback := remote
				fallback.turn.Fallback = true
				c.Fallback = &fallback
			}
		} else if err := t.prepare(ctx, &c, r.Vacant, t.calls == nil, 0); err != nil {
			yield(nil, err)
			return
		}
		told := r
		if d := task.DispatchOf(ctx, r.Vacant); d != nil && d.Mode == string(definition.ReadOnly) {
			told.Turns = slices.Clone(r.Turns)
			last := &told.Turns[len(told.Turns)-1] // message of the caller
			last.Text = banner + last.Text
		}
		t.signEvents(ctx, &r, loop.New(c).Infer(ctx, told))(yield)
	}
}

// banner precedes the text of a task in mode read-only.
const banner = "PERMISSION MODE: READ-ONLY\nWrite files only below " + definition.SharedFolder + ", and leave source files unchanged. The host refuses other writes.\n\n"

func (t *agent) prepare(ctx context.Context, c *loop.Config, vacant identity.ID, check bool, spent money.Amount) (err error) {
	if check && c.Agent.HasCost(t.tenant) {
		c.Agent.MaxTokens = checkTokens
	}
	if err := t.resources.CheckFunction(t.tenant, &c.Agent); err != nil {
		return problem.WithPlace(problem.SubstrateMisconfigured, "the agent", err)
	}
	if c.Secret, err = t.resources.Secret(ctx, t.tenant, &c.Agent); err != nil {
		return err
	}
	c.Spending, err = t.resources.BeginSpending(ctx, vacant, t.tenant, &c.Agent, spent)
	return err
}

// offer returns the tools of the agent's files, vacants and MCP servers for a call, and the context
// for that call. done closes the connections that were opened for the tools.
func (t *agent) offer(ctx context.Context, vacant identity.ID) (_ context.Context, offer loop.Offer, done func(), err error) {
	done = func() {}
	if len(t.asked) > 0 {
		if ctx, offer, err = t.composites.VacantTools(ctx, t.vacants, t.calls, vacant, t.asked); err != nil {
			return ctx, offer, nil, err
		}
	}
	if servers := t.config.Agent.MCPServers; len(servers) > 0 {
		var more loop.Offer
		switch {
		case t.resources.Thinker != nil:
			agentVersion := think.Agent{Vacant: vacant, Version: t.version}
			var offered think.Offer
			offered, err = t.resources.Thinker.MCPTools(ctx, agentVersion)
			more.LeftOut = offered.LeftOut
			for _, tool := range offered.Tools {
				more.Tools = append(more.Tools, loop.Tool{Tool: tool.Tool, Writes: tool.Writes, Run: func(ctx context.Context, _ *substrate.Request, arguments json.RawMessage) (string, error) {
					return t.resources.Thinker.UseMCPTool(ctx, agentVersion, tool.Name, arguments)
				}})
			}
		case t.resources.Servers == nil:
			err = problem.New(problem.SubstrateMisconfigured, "this host cannot reach MCP servers")
		default:
			more, done, err = t.resources.Servers(ctx, vacant, t.by, servers)
		}
		if err != nil {
			return ctx, loop.Offer{}, nil, err
		}
		offer.Join(more)
	}
	if d := task.DispatchOf(ctx, vacant); d != nil && len(d.Servers) > 0 && t.resources.Servers != nil {
		var servers []definition.Server
		for _, s := range d.Servers {
			servers = append(servers, definition.Server(s))
		}
		more, closed, err := t.resources.Servers(ctx, vacant, vacants.ChooserOf(t.tenant, outbound.Tenant), servers)
		if err != nil {
			done()
			return ctx, loop.Offer{}, nil, err
		}
		first := done
		done = func() { first(); closed() }
		offer.Join(more)
	}
	if call.IsOwnWork(ctx) {
		ctx = context.WithValue(ctx, readOnlyKey{}, t.config.Agent.Mode != definition.ReadWrite)
		if w := task.WorkOf(ctx); w != nil && w.Files != nil && t.files.Files != nil && t.spec.IsModel() {
			offer.Tools = append(t.files.Tools(w, &t.config.Agent), offer.Tools...)
		}
	}
	return ctx, offer, done, nil
}

// signEvents adds the version of the agent to the usage events. Before the answer of a model ends,
// signEvents signs an entry about the answer into the vacant's logbook. The answer itself is signed
// afterwards.
func (t *agent) signEvents(ctx context.Context, r *substrate.Request, events iter.Seq2[substrate.Event, error]) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		var answer strings.Builder // limited, because the reader stops at substrate.MaxText
		fallback := false
		for e, err := range events {
			switch is := e.(type) {
			case substrate.Usage:
				fallback = is.Fallback
				if !t.spec.IsModel() {
					if is.Unreported > 0 {
						continue // the agent does not report its usage
					}
					is.Turns = 0
				}
				is.Agent = t.version
				e = is
			case substrate.Text:
				answer.WriteString(string(is))
			case substrate.FinishReason:
				err = t.sign(ctx, r, identity.Sum([]byte(answer.String())), fallback)
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

func (t *agent) sign(ctx context.Context, r *substrate.Request, answer identity.Hash, fallback bool) error {
	request := r.ID()
	if request.IsZero() || !t.spec.IsModel() {
		return nil
	}
	model := t.config.Agent.Model
	if fallback {
		model = t.config.Agent.FallbackModel
	}
	return t.vacants.Entries(ctx, vacants.LogEntry{ID: r.Vacant, Kind: logbook.KindInference, Payload: logbook.Inference{
		Caller: r.Caller, Request: request, Prompt: identity.Sum([]byte(r.Text())), Response: answer,
		Substrate: t.spec.Kind, Model: model, AgentVersion: t.version, Time: t.vacants.Now().UTC().Truncate(time.Microsecond),
	}.Payload()}, vacants.LogEntry{})
}
