package vacants

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func AgentKey(id identity.ID, version int) store.Key {
	return AgentDocs.Key(id.String(), fmt.Sprintf("%08d", version))
}

// agentCache caches versions of agents, which never change.
type agentCache = lru.Cache[store.Key, definition.Agent]

const cachedAgents = 64 // each at most 64 KiB

// Agent returns a version of r's agent. Version 0 is the current version, or the default agent if r
// has no agent. If the version does not exist, the error is NotFound. If version is 0 and the
// vacant answers with a plan, the error is Conflict.
func (v *Directory) Agent(ctx context.Context, r *Record, version int) (definition.Agent, error) {
	switch {
	case version < 0 || version > r.Agent:
		return definition.Agent{}, problem.New(problem.NotFound, "the agent of vacant %s has %d versions, but no version %d", r.Name, r.Agent, version)
	case version > 0:
		return v.agentVersion(ctx, r.ID, version)
	case kindOf(r.Substrate) == plan.Kind:
		return definition.Agent{}, problem.New(problem.Conflict, "vacant %s answers with a plan, not with an agent", r.Name)
	case r.Agent > 0:
		return v.agentVersion(ctx, r.ID, r.Agent)
	}
	spec, err := substrate.Parse(r.Substrate)
	if err != nil {
		return definition.Agent{}, err
	}
	a, _ := definition.DefaultAgent(spec)
	return a, nil
}

func (v *Directory) agentVersion(ctx context.Context, id identity.ID, version int) (definition.Agent, error) {
	key := AgentKey(id, version)
	if a, ok := v.agents.Get(key); ok {
		return a, nil
	}
	a, _, err := AgentDocs.Require(ctx, v.Store, key)
	if err == nil {
		v.agents.Add(key, a)
	}
	return a, store.AsProblem(err)
}

// ForgetAgents clears this process's cache of agents. After a restore from a backup, a version may
// have different content.
func (v *Directory) ForgetAgents() { v.agents.Purge() }

func (v *Directory) substrateText(text string, a *definition.Agent) (string, error) {
	if a == nil {
		return text, nil
	}
	if text != "" {
		return "", problem.Invalid("substrate", "no substrate together with an agent, which has its own", clip(text))
	}
	if err := v.Resources.CheckAgent(a); err != nil {
		return "", err
	}
	return textOf(a)
}

func (v *Directory) nextAgent(ctx context.Context, r *Record, c *Changes) (*definition.Agent, error) {
	var next definition.Agent
	switch {
	case c.Agent != nil:
		var err error
		if next, err = v.resolveVacants(ctx, c.By, r, *c.Agent); err != nil {
			return nil, err
		}
	case c.Substrate != nil && *c.Substrate != r.Substrate && r.Agent > 0:
		spec, err := substrate.Parse(*c.Substrate)
		if err != nil {
			return nil, err
		}
		var ok bool
		if next, ok = definition.DefaultAgent(spec); !ok {
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

// resolveVacants replaces the names in a.Vacants with ids. a is the agent of self, whose ID, Tenant
// and Parent must be set. The Asker must know each of these vacants unless it is public, and self
// must be allowed to ask each of them.
func (v *Directory) resolveVacants(ctx context.Context, by Asker, self *Record, a definition.Agent) (definition.Agent, error) {
	a.Vacants = slices.Clone(a.Vacants)
	for i, what := range a.Vacants {
		field := fmt.Sprintf("vacants[%d]", i)
		r, err := v.toolOf(ctx, by, self, what)
		switch {
		case err != nil:
			e := problem.WithPlace(problem.AsError(err).Kind, field, err)
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

func (v *Directory) toolOf(ctx context.Context, by Asker, self *Record, what string) (Record, error) {
	r, err := v.Find(ctx, by, what)
	if tenant, ok := by.OfTenant(); ok && problem.Is(err, problem.NotFound) {
		return v.foreignTool(ctx, tenant, self, what)
	}
	if err == nil && r.IsDeleted() {
		err = deletedError(&r)
	}
	if err != nil || r.ID == self.ID {
		return r, err
	}
	may, err := v.mayAsk(ctx, self, &r)
	if err == nil && !may {
		err = problem.New(problem.Malformed, "the agent may not ask %s: it may ask public vacants, vacants of its own tenant, and, if they are closed, only its own children and its siblings", r.Name)
	}
	return r, err
}

func (v *Directory) foreignTool(ctx context.Context, tenant string, self *Record, what string) (Record, error) {
	// The error must not reveal whether a vacant of another tenant exists, unless self may ask it
	// now.
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

// Askable returns the record of a vacant that the agent of asker may ask now. If the vacant cannot
// be called or asker may not ask it, ok is false.
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

// mayAsk reports whether the agent of self may ask r, which is always true for children and siblings of
// self. If r admits other callers, the agent may also ask r if r is public, belongs to the same tenant or
// is the parent of self. Vacants of the operator may ask the vacants of all tenants.
func (v *Directory) mayAsk(ctx context.Context, self, r *Record) (bool, error) {
	if r.Parent != nil && (*r.Parent == self.ID || self.Parent != nil && *self.Parent == *r.Parent) {
		return true, nil
	}
	admits := call.Vacant{Parent: r.Parent, IsClosed: r.Closed, Reach: r.Reach}
	switch {
	case admits.TreeOnly():
		return false, nil
	case self.Tenant == "", self.Tenant == r.Tenant, self.Parent != nil && *self.Parent == r.ID:
		return true, nil
	case v.Registry == nil:
		return false, nil
	}
	g, ok, err := v.Registry.Get(ctx, r.ID)
	return ok && g.IsListed(), err
}

func textOf(a *definition.Agent) (string, error) {
	spec, err := a.Spec()
	return spec.String(), err
}
