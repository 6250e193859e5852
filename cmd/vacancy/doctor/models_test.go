package doctor_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vacancy-host/vacancy/cmd/vacancy/doctor"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/think"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/tests/memhost"
)

func TestAgentsOfAHostAreLookedAt(t *testing.T) {
	host := memhost.Open(t, func(c *serve.Config) {
		c.Host.ModelBudget = money.Dollar
		c.Models = func(*outbound.Client) substrate.Kinds {
			return think.Kinds(nil, substrate.KindAnthropic, substrate.KindBedrock, substrate.KindMock)
		}
	})
	for _, name := range []string{"anthropic", "signs"} {
		_, err := host.Vacants.Resources.Secrets.Set(t.Context(), "acme", name, []string{"api.anthropic.com", "agents.example"}, []byte("canary"))
		host.Must(err)
	}
	for name, a := range map[string]definition.Agent{
		"echo":   {Provider: "echo"},
		"paid":   {Provider: "anthropic", Model: "claude-opus-4-6"},
		"plain":  {Provider: "http", BaseURL: "https://agents.example/"},
		"rock":   {Provider: "bedrock", Model: "amazon.nova-pro-v1:0", FallbackModel: "amazon.nova-lite-v1:0"},
		"signed": {Provider: "http", BaseURL: "https://agents.example/", Secret: "signs"},
		"trial":  {Provider: "mock"},
		"unsold": {Provider: "anthropic", Model: "claude-haiku-4-5", Price: &models.Price{}},
	} {
		host.Create(vacants.CreateSpec{Name: name, Capability: "answers", Tenant: "acme", Agent: &a})
	}
	host.Must(host.Vacants.Resources.Secrets.Delete(t.Context(), "acme", "signs"))
	table := models.BuiltinTable()
	table.Models = slices.DeleteFunc(table.Models, func(m models.Model) bool { return m.Name == "claude-haiku-4-5" })
	_, err := host.Vacants.Resources.Models.Set(t.Context(), table)
	host.Must(err)
	client, base := serve.InProcessClient(host.Admin())
	got := doctor.ReadModels(t.Context(), &admin.Client{HTTP: client, URL: base})
	want := doctor.Models{Agents: []doctor.ModelAgent{
		{Name: "paid", Tenant: "acme"}, {Name: "plain", Tenant: "acme"}, {Name: "rock", Tenant: "acme", BedrockModels: []string{"amazon.nova-pro-v1:0", "amazon.nova-lite-v1:0"}},
		{Name: "signed", Tenant: "acme", MissingSecret: "signs"}, {Name: "trial", Tenant: "acme", IsMock: true},
		{Name: "unsold", Tenant: "acme", PriceProblem: "model: expected a model in the host's table of models, because the operator pays for it; the operator can add a model with vacancy models set FILE, got anthropic:claude-haiku-4-5"},
	}}
	if diff := cmp.Diff(want, got, cmpopts.EquateErrors()); diff != "" {
		t.Errorf("ReadModels() (-want +got):\n%s", diff)
	}
}
