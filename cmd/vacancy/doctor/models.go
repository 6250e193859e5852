package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Models describes the agents of a stage that need a secret or a permission.
type Models struct {
	Agents []ModelAgent
	// Facts from the stage's CDK context.
	Granted []string // Bedrock models that the stage may use
	Mock    bool     // the stage offers the substrate mock
	Unknown bool     // the CDK context is unknown
	More    bool     // there are more vacants than were checked
	Err     error
}

type ModelAgent struct {
	Name, Tenant string
	Missing      string   // missing secret that the agent names
	Unpriced     string   // reason why the table of models has no price for the agent
	Bedrock      []string // Bedrock models
	Mock         bool
}

// maxModelAgents limits the agents that are checked, because each takes a request.
const maxModelAgents = 200

// LookModels reads the agents of a stage's vacants. The caller must set the facts from the CDK
// context.
func LookModels(ctx context.Context, c *admin.Client) (m Models) {
	cache := knownToHost{secrets: map[string][]string{}}
	for v, err := range c.All(ctx, false) {
		if err != nil {
			m.Err = err
			return m
		}
		spec, err := substrate.Parse(v.Substrate)
		if err != nil || !spec.IsModel() && !(v.Agent > 0 && spec.TakesSecret()) {
			continue
		}
		if m.More = len(m.Agents) == maxModelAgents; m.More {
			return m
		}
		agent, err := look(ctx, c, &v, &cache)
		if err != nil {
			m.Err = err
			return m
		}
		m.Agents = append(m.Agents, agent)
	}
	return m
}

// knownToHost caches the names of secrets by tenant, and the table of models.
type knownToHost struct {
	secrets map[string][]string
	table   *models.Table
}

func look(ctx context.Context, c *admin.Client, v *admin.Vacant, cache *knownToHost) (agent ModelAgent, err error) {
	agent = ModelAgent{Name: v.Name, Tenant: v.Tenant}
	got, err := admin.GetAgent.Call(ctx, c, admin.AgentVersion{VacantRequest: admin.VacantRequest{Vacant: v.ID.String()}})
	if err != nil {
		return agent, err
	}
	a, err := definition.Parse(got.Agent)
	if err != nil {
		return agent, err
	}
	spec, err := a.Spec()
	if err != nil {
		return agent, err
	}
	other, _ := a.Fallback()
	for _, s := range []substrate.Spec{spec, other} {
		if s.Kind == substrate.KindBedrock {
			agent.Bedrock = append(agent.Bedrock, s.Argument)
		}
	}
	agent.Mock = spec.Kind == substrate.KindMock
	if a.UsesTable(v.Tenant) {
		if cache.table == nil {
			t, err := admin.GetModels.Call(ctx, c, op.None{})
			if err != nil {
				return agent, err
			}
			cache.table = &t
		}
		if _, _, err := a.Prices(v.Tenant, cache.table); err != nil {
			agent.Unpriced = problem.AsError(err).Text()
		}
	}
	name := a.SecretName()
	if name == "" {
		return agent, nil
	}
	if _, read := cache.secrets[v.Tenant]; !read {
		secrets, err := admin.AgentSecrets.List.Call(ctx, c, admin.OfTenant{Tenant: v.Tenant})
		if err != nil {
			return agent, err
		}
		cache.secrets[v.Tenant] = []string{}
		for _, s := range secrets.Secrets {
			cache.secrets[v.Tenant] = append(cache.secrets[v.Tenant], s.Name)
		}
	}
	if !slices.Contains(cache.secrets[v.Tenant], name) {
		agent.Missing = name
	}
	return agent, nil
}

func (f Facts) models() Check {
	m := f.Models
	switch {
	case !f.Visit.HasOperatorAccess():
		return skip("needs the operator key")
	case m.Err != nil:
		return fail(f.logs("admin"), "the agents cannot be read: %s", m.Err)
	}
	for _, a := range m.Agents {
		if a.Missing != "" {
			fix := "vacancy secret set " + a.Missing + " --host aws --stage " + f.Stage
			if a.Tenant != "" {
				fix += " --tenant " + a.Tenant
			}
			return fail(fix, "vacant %s has no secret %s: its calls fail", a.Name, a.Missing)
		}
		if a.Unpriced != "" {
			return fail("vacancy models set FILE --host aws --stage "+f.Stage, "vacant %s: its calls fail: %s", a.Name, a.Unpriced)
		}
		for _, id := range a.Bedrock {
			if !m.Unknown && !slices.Contains(m.Granted, id) {
				modelIDs := strings.Join(slices.Sorted(slices.Values(append(slices.Clone(m.Granted), id))), ",")
				return fail(f.deploy()+" --context bedrockModels="+modelIDs, "vacant %s answers by %s at Bedrock, which the stage may not ask: its calls fail", a.Name, id)
			}
		}
	}
	if i := slices.IndexFunc(m.Agents, func(a ModelAgent) bool { return a.Mock }); i >= 0 && (m.Mock || m.Unknown) {
		return warn("vacancy update "+m.Agents[i].Name+" substrate=KIND:MODEL --host aws --stage "+f.Stage, "vacant %s is a mock: its callers get a script's answers", m.Agents[i].Name)
	}
	if m.Mock {
		return warn(f.deploy()+" --context mock=false", "agents of this stage may be mocks, which are for trials")
	}
	return ok("%s", m.formatCount())
}

func (m *Models) formatCount() string {
	switch {
	case m.More:
		return fmt.Sprintf("the first %d agents with a model or a secret have what they need", len(m.Agents))
	case len(m.Agents) == 0:
		return "no vacant has a model or a secret"
	}
	return fmt.Sprintf("%d agents with a model or a secret have what they need", len(m.Agents))
}
