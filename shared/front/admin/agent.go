package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Agent is a version of a vacant's agent. Version is 0 if the agent was never set.
type Agent struct {
	Vacant   Vacant               `json:"vacant"`
	Version  int                  `json:"version"`
	Agent    json.RawMessage      `json:"agent"`
	Settings []definition.Setting `json:"settings"`
}

func (a *Agent) Validate() error { return a.Vacant.Validate() }

func (d *api) agentVersion(ctx context.Context, rec *vacants.Record, in AgentRequest) (Agent, error) {
	return d.showAgent(ctx, rec, int(in.Version))
}

func (d *api) showAgent(ctx context.Context, rec *vacants.Record, version int) (Agent, error) {
	a, err := d.Vacants.Agent(ctx, rec, version)
	if err != nil {
		return Agent{}, err
	}
	return Agent{vacantOf(rec), cmp.Or(version, rec.AgentVersion), a.Blob(), a.Settings(rec.Tenant)}, nil
}

func (d *api) setAgent(ctx context.Context, in SetAgentRequest) (Agent, error) {
	a, err := definition.Parse(in.Body)
	if err == nil {
		err = d.chooseModel(ctx, &a)
	}
	if err != nil {
		return Agent{}, err
	}
	rec, err := d.findVacant(ctx, in.Vacant)
	if err != nil {
		return Agent{}, err
	}
	c := vacants.Changes{Asker: askerOf(ctx), Agent: &a, IfAgentVersion: (*int)(in.After)}
	if rec, err = d.Vacants.Update(ctx, rec.ID, c); err != nil {
		return Agent{}, err
	}
	return d.showAgent(ctx, &rec, 0)
}

func (d *api) chooseModel(ctx context.Context, a *definition.Agent) error {
	if a == nil || a.Tier == "" {
		return nil
	}
	if d.Vacants.Resources.Models == nil {
		return problem.Invalid("tier", "a model, because this host has no table of models", string(a.Tier))
	}
	t, err := d.Vacants.Resources.Models.Current(ctx)
	if err != nil {
		return err
	}
	return a.ResolveTier(&t)
}

// NewSetAgentRequest returns a request to store agent as the next version. The host answers
// Conflict if current is no longer the current version.
func NewSetAgentRequest(current *Agent, agent []byte) SetAgentRequest {
	after := Version(current.Version)
	return SetAgentRequest{NewVacantRequest(current.Vacant.ID.String(), op.Raw[definition.Agent](agent)), &after}
}

type Version int

func (v *Version) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 10, 31)
	if err != nil {
		return problem.Invalid("version", "the number of a version", quoteTruncated(string(text)))
	}
	*v = Version(n)
	return nil
}

// Forgetting selects the conversations that an agent forgets. A nil member selects all.
type Forgetting struct {
	Caller    *identity.ID `json:"caller,omitempty"`
	ContextID *string      `json:"context_id,omitempty"`
}
