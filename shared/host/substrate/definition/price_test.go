package definition_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Who pays, whose vacant it is, what the agent states and whether the table has the model
// decide what a turn costs.
func TestWhatTheOperatorPaysIsPricedByTheTableInTheVacantsOfTenants(t *testing.T) {
	const in, out, cached = 2 * money.Dollar, 8 * money.Dollar, money.Dollar / 2
	row := models.Price{InputPrice: in, OutputPrice: out, CachedPrice: cached}
	table := models.Table{Version: 7}
	for _, provider := range []string{substrate.KindAnthropic, substrate.KindBedrock, substrate.KindOllama, substrate.KindOpenAI} {
		table.Models = append(table.Models, models.Model{Provider: provider, Name: "amazon.known-v1:0", Price: row})
	}
	const url = "https://models.example/v1"
	for payer, is := range map[string]struct {
		agent    definition.Agent
		operator bool
	}{
		"AWS":                           {definition.Agent{Provider: substrate.KindBedrock}, true},
		"a provider's secret":           {definition.Agent{Provider: substrate.KindAnthropic}, true},
		"a provider's secret elsewhere": {definition.Agent{Provider: substrate.KindAnthropic, BaseURL: url}, true},
		"a named secret":                {definition.Agent{Provider: substrate.KindOpenAI, BaseURL: url, Secret: "ours"}, true},
		"nobody, at a URL":              {definition.Agent{Provider: substrate.KindOpenAI, BaseURL: url}, false},
		"nobody, on this machine":       {definition.Agent{Provider: substrate.KindOllama}, false},
	} {
		for stated, p := range map[string]*models.Price{
			"no price":              nil,
			"nothing":               {},
			"less":                  {InputPrice: 1, OutputPrice: 1, CachedPrice: 1},
			"more":                  {InputPrice: 2 * in, OutputPrice: 2 * out, CachedPrice: 2 * cached},
			"less for cached input": {InputPrice: in, OutputPrice: out},
			"more for input":        {InputPrice: 2 * in},
		} {
			for _, model := range []string{"amazon.known-v1:0", "amazon.other-v1:0"} {
				for _, fallback := range []string{"", "amazon.known-v1:0", "amazon.other-v1:0"} {
					for _, tenant := range []string{"", "acme"} {
						t.Run(fmt.Sprintf("%s pays, %s stated, %s+%s of %q", payer, stated, model, fallback, tenant), func(t *testing.T) {
							a := is.agent
							a.Model, a.FallbackModel, a.Price = model, fallback, p
							if err := a.Check(); err != nil {
								t.Fatal(err)
							}
							// The rule in the test's own words.
							want := models.Price{}
							if p != nil {
								want = *p
							}
							byTable := is.operator && (tenant != "" || p == nil)
							unknown := byTable && strings.Contains(model+fallback, "other")
							if byTable {
								want = models.Price{InputPrice: max(want.InputPrice, in), OutputPrice: max(want.OutputPrice, out), CachedPrice: max(want.CachedPrice, cached)}
							}
							if got := a.HasCost(tenant); got != (want != models.Price{}) {
								t.Errorf("Costs() = %v for %s", got, want)
							}
							got, other, err := a.Prices(tenant, &table)
							switch {
							case unknown:
								field := map[bool]string{true: "model", false: "fallback_model"}[strings.Contains(model, "other")]
								if tenant == "" {
									field = "price"
								}
								e := problem.AsError(err)
								if !problem.Is(err, problem.Malformed) || e.Field != field || !strings.Contains(e.Text(), "amazon.other-v1:0") || !strings.Contains(e.Text(), "vacancy models set FILE") {
									t.Errorf("Prices() = %v, want the model that has no price in the field %s", err, field)
								}
							case err != nil || got != want || fallback != "" && other != want:
								t.Errorf("Prices() = %s, %s, %v; want %s", got, other, err, want)
							}
						})
					}
				}
			}
		}
	}
}

// The settings of a tenant's agent say what counts, also if the agent says that it is free.
func TestSettingsOfATenantsAgentNameTheTable(t *testing.T) {
	a, err := definition.Parse([]byte(`{"model":"claude-opus-4-6","price":{"input":0,"output":0}}`))
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(a.Settings("acme"))
	for _, want := range []string{"{price the host's table of models, at least $0/$0/$0 set}", "{daily_budget $1 default}", "{max_tokens 8192 default}"} {
		if !strings.Contains(got, want) {
			t.Errorf("Settings(acme) = %s, want %s among them", got, want)
		}
	}
	if got := fmt.Sprint(a.Settings("")); strings.Contains(got, "price") || strings.Contains(got, "daily_budget") {
		t.Errorf("Settings() of the operator's free agent = %s", got)
	}
}
