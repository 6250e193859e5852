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

const maxCachedAgents = 64 // each at most 64 KiB

// Agent returns a version of r's agent. Version 0 is the current version or, if r has no agent, the
// default agent.
func (v *Directory) Agent(ctx context.Context, r *Record, version int) (definition.Agent, error) {
	switch {
	case version < 0 || version > r.AgentVersion:
		return definition.Agent{}, problem.New(problem.NotFound, "the agent of vacant %s has %d versions, but no version %d", r.Name, r.AgentVersion, version)
	case version > 0:
		return v.agentVersion(ctx, r.ID, version)
	case substrateKind(r.Substrate) == plan.Kind:
		return definition.Agent{}, problem.New(problem.Conflict, "vacant %s answers with a plan, not with an agent", r.Name)
	case r.AgentVersion > 0:
		return v.agentVersion(ctx, r.ID, r.AgentVersion)
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

func (v *Directory) resolveSubstrateText(text string, a *definition.Agent) (string, error) {
	if a == nil {
		return text, nil
	}
	if text != "" {
		return "", problem.Invalid("substrate", "no substrate, because the agent specifies one", quoteTruncated(text))
	}
	if err := v.Resources.CheckAgent(a); err != nil {
		return "", err
	}
	return formatSubstrate(a)
}

func (v *Directory) nextAgent(ctx context.Context, r *Record, c *Changes) (*definition.Agent, error) {
	var next definition.Agent
	switch {
	case c.Agent != nil:
		var err error
		if next, err = v.resolveVacants(ctx, c.Asker, r, *c.Agent); err != nil {
			return nil, err
		}
	case c.Substrate != nil && *c.Substrate != r.Substrate && r.AgentVersion > 0:
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
	if r.AgentVersion == 0 {
		return &next, nil
	}
	current, err := v.agentVersion(ctx, r.ID, r.AgentVersion)
	if err != nil {
		return nil, err
	}
	if text, err := formatSubstrate(&next); err != nil || text == r.Substrate && bytes.Equal(current.Blob(), next.Blob()) {
		return nil, err
	}
	return &next, nil
}

// resolveVacants replaces the names in a.Vacants with ids. self is the vacant that gets the agent.
// Only its ID, Tenant and Parent are used.
func (v *Directory) resolveVacants(ctx context.Context, asker Asker, self *Record, a definition.Agent) (definition.Agent, error) {
	a.Vacants = slices.Clone(a.Vacants)
	for i, nameOrID := range a.Vacants {
		field := fmt.Sprintf("vacants[%d]", i)
		r, err := v.findAgentVacant(ctx, asker, self, nameOrID)
		switch {
		case err != nil:
			fieldErr := problem.WithPlace(problem.AsError(err).Kind, field, err)
			fieldErr.Field = field
			return a, fieldErr
		case r.ID == self.ID:
			return a, problem.Invalid(field, "another vacant", "the agent's own")
		case slices.Contains(a.Vacants[:i], r.ID.String()):
			return a, problem.Invalid(field, "each vacant once", quoteTruncated(nameOrID))
		}
		a.Vacants[i] = r.ID.String()
	}
	return a, a.Check()
}

func (v *Directory) findAgentVacant(ctx context.Context, asker Asker, self *Record, query string) (Record, error) {
	r, err := v.Find(ctx, asker, query)
	if tenant, ok := asker.AsTenant(); ok && problem.Is(err, problem.NotFound) {
		return v.findForeignVacant(ctx, tenant, self, query)
	}
	if err == nil && r.IsDeleted() {
		err = deletedError(&r)
	}
	if err != nil || r.ID == self.ID {
		return r, err
	}
	isAllowed, err := v.mayAsk(ctx, self, &r)
	if err == nil && !isAllowed {
		err = problem.New(problem.Malformed, "the agent may not ask %s: it may ask public vacants, vacants of its own tenant, and, if they are closed, only its own children and its siblings", r.Name)
	}
	return r, err
}

func (v *Directory) findForeignVacant(ctx context.Context, tenant string, self *Record, query string) (Record, error) {
	// The error must not reveal a vacant of another tenant that self may not ask.
	r, err := v.findExact(ctx, OperatorAsker(), query)
	isMissing := problem.Is(err, problem.NotFound) || problem.Is(err, problem.Malformed)
	if err == nil {
		var isAllowed bool
		isAllowed, err = v.mayAsk(ctx, self, &r)
		isMissing = err == nil && !(isAllowed && r.State.CanBeCalled())
	}
	if isMissing {
		return Record{}, problem.New(problem.NotFound, "expected a vacant of %s, or a public vacant of this host, got %s", tenant, quoteTruncated(query))
	}
	return r, err
}

// FindAskable returns id's record. If the asking agent may not ask id now, ok is false.
func (v *Directory) FindAskable(ctx context.Context, askingVacant, id identity.ID) (r Record, ok bool, err error) {
	self, ok, err := v.FindCached(ctx, askingVacant)
	if err != nil || !ok {
		return Record{}, false, err
	}
	r, ok, err = v.FindCached(ctx, id)
	if err == nil && ok && r.State.CanBeCalled() {
		ok, err = v.mayAsk(ctx, &self, &r)
		return r, ok, err
	}
	return Record{}, false, err
}

func (v *Directory) mayAsk(ctx context.Context, self, r *Record) (bool, error) {
	if r.Parent != nil && (*r.Parent == self.ID || self.Parent != nil && *self.Parent == *r.Parent) {
		return true, nil
	}
	target := call.Vacant{Parent: r.Parent, IsClosedChild: r.Closed, Reachability: r.Reachability}
	switch {
	case target.IsTreeOnly():
		return false, nil
	case self.Tenant == "", self.Tenant == r.Tenant, self.Parent != nil && *self.Parent == r.ID:
		return true, nil
	case v.Registry == nil:
		return false, nil
	}
	registration, ok, err := v.Registry.Get(ctx, r.ID)
	return ok && registration.IsListed(), err
}

func formatSubstrate(a *definition.Agent) (string, error) {
	spec, err := a.Spec()
	return spec.String(), err
}
