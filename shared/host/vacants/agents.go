package vacants

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/loop"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// AgentKey is the key of a version of id's agent. Versions count from 1 and never
// change.
func AgentKey(id identity.ID, version int) store.Key {
	return store.Key{Partition: recordPartition + id.String(), Sort: fmt.Sprintf("agent#%08d", version)}
}

// DecodeAgent reads the document of a version of id's agent. The error is of kind
// Damaged if it is unreadable or missing.
func DecodeAgent(id identity.ID, version int, d store.Doc) (definition.Agent, error) {
	a, err := definition.Parse(d.Data)
	if d.Version == 0 {
		err = problem.New(problem.Damaged, "it is not there")
	}
	if err == nil && !bytes.Equal(a.Blob(), d.Data) {
		err = problem.New(problem.Damaged, "it is not in its canonical form")
	}
	if err != nil {
		return a, problem.Wrap(problem.Damaged, err, "version %d of the agent of vacant %s: %s", version, id.Short(), problem.Of(err).Text())
	}
	return a, nil
}

// agentCache caches versions of agents, which never change.
type agentCache = lru.Cache[store.Key, definition.Agent]

const cachedAgents = 64 // of at most 64 KiB

func newAgentCache() *agentCache {
	c, err := lru.New[store.Key, definition.Agent](cachedAgents)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return c
}

// Agent returns a version of r's agent. Version 0 is the current one, of defaults if
// r has none. NotFound is a version that there is not, and Conflict a vacant that
// answers by a plan.
func (v *Directory) Agent(ctx context.Context, r *Record, version int) (definition.Agent, error) {
	switch {
	case version < 0 || version > r.Agent:
		return definition.Agent{}, problem.New(problem.NotFound, "vacant %s has %d versions of its agent, and no version %d", r.Name, r.Agent, version)
	case version > 0:
		return v.agentVersion(ctx, r.ID, version)
	case kindOf(r.Substrate) == plan.Kind:
		return definition.Agent{}, problem.New(problem.Conflict, "vacant %s answers by a plan, not by an agent", r.Name)
	}
	return v.currentAgent(ctx, r.ID, r.Substrate, r.Agent)
}

// currentAgent is the agent of a record.
func (v *Directory) currentAgent(ctx context.Context, id identity.ID, text string, version int) (definition.Agent, error) {
	if version > 0 {
		return v.agentVersion(ctx, id, version)
	}
	spec, err := substrate.Parse(text)
	if err != nil {
		return definition.Agent{}, err
	}
	a, _ := definition.Of(spec)
	return a, nil
}

func (v *Directory) agentVersion(ctx context.Context, id identity.ID, version int) (definition.Agent, error) {
	key := AgentKey(id, version)
	if a, ok := v.agents.Get(key); ok {
		return a, nil
	}
	d, err := v.Store.Doc(ctx, key)
	if err != nil {
		return definition.Agent{}, store.Problem(err)
	}
	a, err := DecodeAgent(id, version, d)
	if err == nil {
		v.agents.Add(key, a)
	}
	return a, err
}

// ForgetAgents drops what this process remembers of agents' versions: in a store that
// came back from a backup, a version may be another one.
func (v *Directory) ForgetAgents() { v.agents.Purge() }

// checkAgent makes the checks of a that need no store.
func (v *Directory) checkAgent(a *definition.Agent) error {
	if err := a.Check(); err != nil {
		return err
	}
	spec, err := a.Spec()
	if err != nil {
		return err
	}
	if spec.Kind == plan.Kind {
		return problem.Invalid("provider", "a substrate that is no plan", clip(spec.Kind))
	}
	if _, err = v.Substrates.Open(spec); err != nil {
		return err
	}
	if len(a.MCPServers) > 0 && v.Servers == nil && v.Thinker == nil {
		return problem.Invalid("mcp_servers", "none, as this host reaches no MCP servers", "some")
	}
	if other, ok := a.Fallback(); ok {
		_, err = v.Substrates.Open(other)
	}
	return err
}

// substrateText is the substrate of an agent, which was checked, or else text.
func (v *Directory) substrateText(text string, a *definition.Agent) (string, error) {
	if a == nil {
		return text, nil
	}
	if text != "" {
		return "", problem.Invalid("substrate", "none beside an agent, which has its own", clip(text))
	}
	if err := v.checkAgent(a); err != nil {
		return "", err
	}
	return textOf(a)
}

// nextAgent is the version of r's agent that c makes; nil if it makes none.
func (v *Directory) nextAgent(ctx context.Context, r *Record, c *Changes) (*definition.Agent, error) {
	var next definition.Agent
	switch {
	case c.Agent != nil:
		var err error
		if next, err = v.resolved(ctx, c.By, r, *c.Agent); err != nil {
			return nil, err
		}
	case c.Substrate != nil && *c.Substrate != r.Substrate && r.Agent > 0:
		spec, err := substrate.Parse(*c.Substrate)
		if err != nil {
			return nil, err
		}
		var ok bool
		if next, ok = definition.Of(spec); !ok {
			return nil, nil // a plan
		}
	default:
		return nil, nil
	}
	if r.Agent == 0 {
		return &next, nil
	}
	now, err := v.agentVersion(ctx, r.ID, r.Agent)
	if err != nil {
		return nil, err
	}
	if text, err := textOf(&next); err != nil || text == r.Substrate && bytes.Equal(now.Blob(), next.Blob()) {
		return nil, err
	}
	return &next, nil
}

// resolved replaces the names of a's vacants by ids, for an agent of self, of which
// id, tenant and parent are set. by must know the vacants, or they are public, and
// self may ask each of them.
func (v *Directory) resolved(ctx context.Context, by Asker, self *Record, a definition.Agent) (definition.Agent, error) {
	a.Vacants = slices.Clone(a.Vacants)
	for i, what := range a.Vacants {
		field := fmt.Sprintf("vacants[%d]", i)
		r, err := v.toolOf(ctx, by, self, what)
		switch {
		case err != nil:
			e := problem.Within(problem.Of(err).Kind, field, err)
			e.Field = field
			return a, e
		case r.ID == self.ID:
			return a, problem.Invalid(field, "another vacant", "the agent's own")
		case slices.Contains(a.Vacants[:i], r.ID.String()):
			return a, problem.Invalid(field, "each vacant once", clip(what))
		}
		a.Vacants[i] = r.ID.String()
	}
	return a, a.Check()
}

// toolOf returns the vacant that is to be a tool of self's agent.
func (v *Directory) toolOf(ctx context.Context, by Asker, self *Record, what string) (Record, error) {
	r, err := v.Find(ctx, by, what)
	if tenant, ok := by.OfTenant(); ok && problem.Is(err, problem.NotFound) {
		return v.foreignTool(ctx, tenant, self, what)
	}
	if err == nil && r.IsDeleted() {
		err = deleted(&r)
	}
	if err != nil || r.ID == self.ID {
		return r, err
	}
	may, err := v.mayAsk(ctx, self, &r)
	if err == nil && !may {
		err = problem.New(problem.Malformed, "the agent may not ask %s: it asks those of its own tenant and public ones, and of closed children its own and its siblings", r.Name)
	}
	return r, err
}

// foreignTool is toolOf for a tenant's request and a vacant that is not the tenant's:
// one that self may not ask now is as if it did not exist.
func (v *Directory) foreignTool(ctx context.Context, tenant string, self *Record, what string) (Record, error) {
	r, err := v.exactly(ctx, Operator(), what)
	missing := problem.Is(err, problem.NotFound) || problem.Is(err, problem.Malformed)
	if err == nil {
		var may bool
		may, err = v.mayAsk(ctx, self, &r)
		missing = err == nil && !(may && r.State.CanBeCalled())
	}
	if missing {
		return Record{}, problem.New(problem.NotFound, "expected a vacant of %s, or a public one of this host, got %s", tenant, clip(what))
	}
	return r, err
}

// Askable returns the record of a vacant that the agent of asker may ask now; ok is
// false for one that cannot be called, or not by asker.
func (v *Directory) Askable(ctx context.Context, asker, id identity.ID) (r Record, ok bool, err error) {
	self, ok, err := v.Show(ctx, asker)
	if err != nil || !ok {
		return Record{}, false, err
	}
	r, ok, err = v.Show(ctx, id)
	if err == nil && ok && r.State.CanBeCalled() {
		ok, err = v.mayAsk(ctx, &self, &r)
		return r, ok, err
	}
	return Record{}, false, err
}

// mayAsk reports whether the agent of self may ask r: its parent and siblings, and of
// vacants that admit others those of its tenant and public ones. The vacants of the
// operator may ask those of all tenants.
func (v *Directory) mayAsk(ctx context.Context, self, r *Record) (bool, error) {
	if r.Parent != nil && (*r.Parent == self.ID || self.Parent != nil && *self.Parent == *r.Parent) {
		return true, nil
	}
	admits := call.Vacant{Parent: r.Parent, Closed: r.Closed, Reach: r.Reach}
	switch {
	case admits.TreeOnly():
		return false, nil
	case self.Tenant == "", self.Tenant == r.Tenant, self.Parent != nil && *self.Parent == r.ID:
		return true, nil
	case v.Registry == nil:
		return false, nil
	}
	g, ok, err := v.Registry.Get(ctx, r.ID)
	return ok && g.Listed(), err
}

// textOf is the substrate of an agent in the form in which records have it.
func textOf(a *definition.Agent) (string, error) {
	spec, err := a.Spec()
	return spec.String(), err
}

// openAgent opens r's plan or agent, and reports whether the agent has a memory. calls is
// nil for a check of the agent, which offers no tools.
func (v *Directory) openAgent(ctx context.Context, r *Record, calls *call.Host) (s substrate.Substrate, memory bool, err error) {
	spec, s, err := v.openSubstrate(r.Substrate, calls)
	switch {
	case err != nil:
		return nil, false, err
	case spec.Kind == plan.Kind:
		// By is of the record. A plan is read after it, and may be a later one of the tenant's.
		return chosen{s, chooser(r.Tenant, outbound.Tenant)}, false, nil
	case r.Agent == 0 && !spec.IsModel():
		return chosen{s, r.By}, false, nil
	}
	a, err := v.currentAgent(ctx, r.ID, r.Substrate, r.Agent)
	if err != nil {
		return nil, false, err
	}
	t, err := v.openVersion(r, r.Agent, &a)
	if err != nil {
		return nil, false, err
	}
	t.calls = calls
	for _, what := range a.Vacants {
		asked, err := identity.ParseID(what)
		if err != nil {
			return nil, false, problem.Wrap(problem.Damaged, err, "the agent of vacant %s may ask nobody's id", r.ID.Short())
		}
		t.asked = append(t.asked, asked)
	}
	return t, a.Memory, nil
}

// chosen is a substrate whose URL by chose.
type chosen struct {
	substrate.Substrate
	by outbound.Chooser
}

// Infer tells the substrate who chose its URL.
func (c chosen) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	r.By = c.by
	return c.Substrate.Infer(ctx, r)
}

// openVersion opens a version of r's agent. r.By set only the current one.
func (v *Directory) openVersion(r *Record, version int, a *definition.Agent) (*agentSubstrate, error) {
	spec, err := a.Spec()
	if err != nil {
		return nil, err
	}
	by := r.By
	if version != r.Agent {
		by = chooser(r.Tenant, outbound.Tenant)
	}
	t := &agentSubstrate{vacants: v, version: version, tenant: r.Tenant, by: by, spec: spec, config: loop.Config{Agent: *a, Once: !spec.IsModel(), Wait: v.Wait}}
	if t.config.Model, err = v.Substrates.Open(spec); err != nil {
		return nil, err
	}
	if other, ok := a.Fallback(); ok {
		if t.config.Fallback, err = v.Substrates.Open(other); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// checkTokens limits the answer to a check of a paid model.
const checkTokens = 64

// agentSubstrate is an agent of a vacant of this host.
type agentSubstrate struct {
	vacants *Directory
	calls   *call.Host
	config  loop.Config
	asked   []identity.ID
	version int
	tenant  string
	by      outbound.Chooser
	spec    substrate.Spec
}

// Infer lets the agent answer, with the tools that it has at this moment.
func (t *agentSubstrate) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		ctx, tools, done, err := t.tools(ctx, r.Vacant)
		if err != nil {
			yield(nil, err)
			return
		}
		defer done()
		r.By = t.by
		c := t.config
		c.Tools = tools
		if t.elsewhere() {
			c.Model, c.Fallback = t.remoteModels(r.Vacant)
		} else if err := t.prepare(ctx, &c, r.Vacant, t.calls == nil, 0); err != nil {
			yield(nil, err)
			return
		}
		t.signed(ctx, &r, loop.New(c).Infer(ctx, r))(yield)
	}
}

// prepare sets what a call needs of the host: the secret and the budgets. spent is what
// the call has cost before. A check of a paid model gets a short answer.
func (t *agentSubstrate) prepare(ctx context.Context, c *loop.Config, vacant identity.ID, check bool, spent money.Amount) (err error) {
	if check && c.Agent.Costs(t.tenant) {
		c.Agent.MaxTokens = checkTokens
	}
	if err := t.vacants.checkFunction(t.tenant, &c.Agent); err != nil {
		return problem.Within(problem.SubstrateMisconfigured, "the agent", err)
	}
	if c.Secret, err = t.vacants.secret(ctx, t.tenant, &c.Agent); err != nil {
		return err
	}
	c.Spending, err = t.vacants.beginSpending(ctx, vacant, t.tenant, &c.Agent, spent)
	return err
}

// tools are what the agent may use for a call by the returned context. done ends what
// was opened for them.
func (t *agentSubstrate) tools(ctx context.Context, vacant identity.ID) (_ context.Context, all []loop.Tool, done func(), err error) {
	done = func() {}
	if t.calls == nil {
		return ctx, nil, done, nil
	}
	if len(t.asked) > 0 && t.vacants.VacantTools != nil {
		if ctx, all, err = t.vacants.VacantTools(ctx, t.vacants, t.calls, vacant, t.asked); err != nil {
			return ctx, nil, nil, err
		}
	}
	if servers := t.config.Agent.MCPServers; len(servers) > 0 {
		if t.vacants.Thinker != nil {
			more, err := t.remoteTools(ctx, vacant)
			return ctx, append(all, more...), done, err
		}
		if t.vacants.Servers == nil {
			return ctx, nil, nil, problem.New(problem.SubstrateMisconfigured, "this host reaches no MCP servers")
		}
		var more []loop.Tool
		if more, done, err = t.vacants.Servers(ctx, vacant, t.by, servers); err != nil {
			return ctx, nil, nil, err
		}
		all = append(all, more...)
	}
	return ctx, all, done, nil
}

// signed tells the version of the agent with what it used, and signs into its vacant's
// logbook that a model has answered a call before that answer ends: it is signed after
// that.
func (t *agentSubstrate) signed(ctx context.Context, r *substrate.Request, events iter.Seq2[substrate.Event, error]) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		var answer strings.Builder // the reader stops at substrate.MaxText
		fallback := false
		for e, err := range events {
			switch is := e.(type) {
			case substrate.Usage:
				fallback = is.Fallback
				if !t.spec.IsModel() {
					if is.Unreported > 0 {
						continue // it says nothing of what it uses
					}
					is.Turns = 0
				}
				is.Agent = t.version
				e = is
			case substrate.Text:
				answer.WriteString(string(is))
			case substrate.Done:
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

// sign signs the entry of a model's answer, unless the host itself asks or what
// answers is no model.
func (t *agentSubstrate) sign(ctx context.Context, r *substrate.Request, answer identity.Hash, fallback bool) error {
	request := r.ID()
	if request.IsZero() || !t.spec.IsModel() {
		return nil
	}
	model := t.config.Agent.Model
	if fallback {
		model = t.config.Agent.FallbackModel
	}
	return t.vacants.Entries(ctx, LogEntry{ID: r.Vacant, Kind: logbook.KindInference, Payload: logbook.Inference{
		Caller: r.Caller, Request: request, Prompt: identity.Sum([]byte(r.Text())), Response: answer,
		Substrate: t.spec.Kind, Model: model, Agent: t.version, Time: t.vacants.now(),
	}.Payload()}, LogEntry{})
}
