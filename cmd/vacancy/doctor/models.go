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
	Agents         []ModelAgent
	BedrockModels  []string // Bedrock models that the stage may use
	MockAllowed    bool
	ContextUnknown bool
	Truncated      bool // there are more vacants than were checked
	Err            error
}

type ModelAgent struct {
	Name, Tenant  string
	MissingSecret string // name of the agent's secret if the secret is missing
	PriceProblem  string // reason why the table of models has no price for the agent
	BedrockModels []string
	IsMock        bool
}

// maxModelAgents limits the agents that are checked, because each check sends a request.
const maxModelAgents = 200

// ReadModels reads the agents of a stage's vacants. It does not set the facts from the CDK context.
func ReadModels(ctx context.Context, c *admin.Client) (m Models) {
	cache := hostCache{secrets: map[string][]string{}}
	for v, err := range c.AllVacants(ctx, false) {
		if err != nil {
			m.Err = err
			return m
		}
		spec, err := substrate.Parse(v.Substrate)
		if err != nil || !spec.IsModel() && !(v.AgentVersion > 0 && spec.TakesSecret()) {
			continue
		}
		if m.Truncated = len(m.Agents) == maxModelAgents; m.Truncated {
			return m
		}
		agent, err := readModelAgent(ctx, c, &v, &cache)
		if err != nil {
			m.Err = err
			return m
		}
		m.Agents = append(m.Agents, agent)
	}
	return m
}

type hostCache struct {
	secrets map[string][]string
	prices  *models.Table
}

func readModelAgent(ctx context.Context, c *admin.Client, v *admin.Vacant, cache *hostCache) (agent ModelAgent, err error) {
	agent = ModelAgent{Name: v.Name, Tenant: v.Tenant}
	stored, err := admin.GetAgent.Call(ctx, c, admin.AgentRequest{VacantRef: admin.VacantRef{Vacant: v.ID.String()}})
	if err != nil {
		return agent, err
	}
	a, err := definition.Parse(stored.Agent)
	if err != nil {
		return agent, err
	}
	spec, err := a.Spec()
	if err != nil {
		return agent, err
	}
	fallback, _ := a.Fallback()
	for _, s := range []substrate.Spec{spec, fallback} {
		if s.Kind == substrate.KindBedrock {
			agent.BedrockModels = append(agent.BedrockModels, s.Argument)
		}
	}
	agent.IsMock = spec.Kind == substrate.KindMock
	if a.UsesPriceTable(v.Tenant) {
		if cache.prices == nil {
			t, err := admin.GetModels.Call(ctx, c, op.None{})
			if err != nil {
				return agent, err
			}
			cache.prices = &t
		}
		if _, _, err := a.Prices(v.Tenant, cache.prices); err != nil {
			agent.PriceProblem = problem.AsError(err).Text()
		}
	}
	name := a.SecretName()
	if name == "" {
		return agent, nil
	}
	if _, isCached := cache.secrets[v.Tenant]; !isCached {
		secrets, err := admin.AgentSecrets.List.Call(ctx, c, admin.TenantRef{Tenant: v.Tenant})
		if err != nil {
			return agent, err
		}
		cache.secrets[v.Tenant] = []string{}
		for _, s := range secrets.Secrets {
			cache.secrets[v.Tenant] = append(cache.secrets[v.Tenant], s.Name)
		}
	}
	if !slices.Contains(cache.secrets[v.Tenant], name) {
		agent.MissingSecret = name
	}
	return agent, nil
}

func (f Facts) checkModels() Check {
	m := f.Models
	switch {
	case !f.HostAnswers.HasOperatorAccess():
		return skip("needs the operator key")
	case m.Err != nil:
		return fail(f.logsCommand("admin"), "the agents cannot be read: %s", m.Err)
	}
	for _, a := range m.Agents {
		if a.MissingSecret != "" {
			fix := "vacancy secret set " + a.MissingSecret + " --host aws --stage " + f.Stage
			if a.Tenant != "" {
				fix += " --tenant " + a.Tenant
			}
			return fail(fix, "vacant %s has no secret %s: its calls fail", a.Name, a.MissingSecret)
		}
		if a.PriceProblem != "" {
			return fail("vacancy models set FILE --host aws --stage "+f.Stage, "vacant %s: its calls fail: %s", a.Name, a.PriceProblem)
		}
		for _, id := range a.BedrockModels {
			if !m.ContextUnknown && !slices.Contains(m.BedrockModels, id) {
				modelIDs := strings.Join(slices.Sorted(slices.Values(append(slices.Clone(m.BedrockModels), id))), ",")
				return fail(f.deployCommand()+" --context bedrockModels="+modelIDs, "vacant %s uses model %s at Bedrock, which the stage may not use: its calls fail", a.Name, id)
			}
		}
	}
	if i := slices.IndexFunc(m.Agents, func(a ModelAgent) bool { return a.IsMock }); i >= 0 && (m.MockAllowed || m.ContextUnknown) {
		return warn("vacancy update "+m.Agents[i].Name+" substrate=KIND:MODEL --host aws --stage "+f.Stage, "vacant %s is a mock: its callers get a script's answers", m.Agents[i].Name)
	}
	if m.MockAllowed {
		return warn(f.deployCommand()+" --context mock=false", "this stage allows mock agents, which are only for trials")
	}
	return pass("%s", m.formatCount())
}

func (m *Models) formatCount() string {
	switch {
	case m.Truncated:
		return fmt.Sprintf("the first %d agents with a model or a secret have what they need", len(m.Agents))
	case len(m.Agents) == 0:
		return "no vacant has a model or a secret"
	}
	return fmt.Sprintf("%d agents with a model or a secret have what they need", len(m.Agents))
}
