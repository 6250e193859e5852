package answer_test

import (
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/think"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// asked asks a vacant as the pipeline does: whether it is ready, and then to answer.
func asked(t *testing.T, v *vacants.Directory, r *vacants.Record) error {
	t.Helper()
	held, _, err := answering(v).Vacant(t.Context(), r.ID, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := held.Ready(t.Context()); err != nil {
		return err
	}
	_, err = held.Behaviour(t.Context(), new(call.Host), envelope.Envelope{To: r.ID, Payload: envelope.Message{Parts: []string{"hi"}}})
	return err
}

func TestACallIsPaidByTheHostsTable(t *testing.T) {
	v, told := paid(t)
	keep(t, v, "", "anthropic", "key")
	agent := claude()
	// A turn reserves (1 KiB + the question) x $5 + 8192 x $25 = $0.21 at most, and
	// costs $0.0075.
	agent.DailyBudget = new(22 * money.Dollar / 100)
	r, err := v.Create(t.Context(), vacants.CreateSpec{Name: "sage", Capability: "knows", Agent: agent})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for err = asked(t, v, &r); err == nil && n < 100; err = asked(t, v, &r) {
		n++
	}
	// It says less and less, and ends when too little is left for a short answer.
	if !problem.Is(err, problem.BudgetSpent) || n != 29 || len(*told) != n {
		t.Errorf("after %d calls, of which %d were sent: %v; want budget_spent after 29", n, len(*told), err)
	}
	b, err := v.Resources.Budgets.Budget(t.Context(), "")
	if err != nil || b.Spent != money.Amount(n)*7500 {
		t.Errorf("%s is spent, %v; want %s", b.Spent, err, money.Amount(n)*7500)
	}
	// More of it, and a cheaper model, go on.
	cheaper := &definition.Agent{Provider: substrate.KindAnthropic, Model: "claude-haiku-4-5", DailyBudget: agent.DailyBudget}
	if _, err := v.Update(t.Context(), r.ID, vacants.Changes{Agent: cheaper}); err != nil {
		t.Fatal(err)
	}
	if err := asked(t, v, &r); err != nil {
		t.Errorf("a cheaper model's call = %v", err)
	}
}

// A check of an agent costs money too, and little: the model may say 64 tokens.
func TestACheckIsPaidAndShort(t *testing.T) {
	v, told := paid(t)
	keep(t, v, "", "anthropic", "key")
	r, err := v.Create(t.Context(), vacants.CreateSpec{Name: "sage", Capability: "knows", Agent: claude()})
	if err != nil {
		t.Fatal(err)
	}
	if err := answering(v).CheckAgent(t.Context(), r.ID); err != nil || len(*told) != 1 {
		t.Fatalf("CheckAgent() = %v, %d requests", err, len(*told))
	}
	// What the model says it used is more than was reserved, and not believed.
	if b, err := v.Resources.Budgets.Budget(t.Context(), ""); err != nil || b.Spent < 5*1024+25*64 || b.Spent >= 7500 {
		t.Errorf("%s is spent, %v; want what a question and 64 tokens cost", b.Spent, err)
	}
}

func TestWhatCostsAnUnknownPriceIsRefused(t *testing.T) {
	v, told := paid(t)
	keep(t, v, "", "openai", "key")
	agent := &definition.Agent{Provider: substrate.KindOpenAI, Model: "gpt-99"}
	_, err := v.Create(t.Context(), vacants.CreateSpec{Name: "sage", Capability: "knows", Agent: agent})
	if p := problem.AsError(err); !problem.Is(err, problem.Malformed) || p.Field != "price" || !strings.Contains(p.Text(), "openai:gpt-99") {
		t.Errorf("Create() = %v, want malformed of price", err)
	}
	table, err := models.Parse([]byte(`{"models":[{"provider":"openai","model":"gpt-99","input":1000000,"output":2000000}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Resources.Models.Set(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	r, err := v.Create(t.Context(), vacants.CreateSpec{Name: "sage", Capability: "knows", Agent: agent})
	if err != nil {
		t.Fatal(err)
	}
	if err := asked(t, v, &r); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Resources.Models.Set(t.Context(), models.BuiltinTable()); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "a call whose price is gone", asked(t, v, &r), problem.SubstrateMisconfigured)
	agent.Price = &models.Price{InputPrice: money.Dollar, OutputPrice: money.Dollar}
	if _, err := v.Update(t.Context(), r.ID, vacants.Changes{Agent: agent}); err != nil {
		t.Fatal(err)
	}
	if err := asked(t, v, &r); err != nil || len(*told) != 2 {
		t.Errorf("a call by its agent's price = %v; %d were sent", err, len(*told))
	}
	v.Resources.Budgets = nil
	if _, err := v.Update(t.Context(), r.ID, vacants.Changes{Agent: claude()}); !problem.Is(err, problem.Malformed) {
		t.Errorf("Update() of a host without budgets = %v, want malformed", err)
	}
}

func TestABudgetOfNothingSendsNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		set  func(*definition.Agent)
		want problem.Kind
	}{
		"of a call": {func(a *definition.Agent) { a.Budget = new(money.Amount(0)) }, problem.BudgetExceeded},
		"of a day":  {func(a *definition.Agent) { a.DailyBudget = new(money.Amount(0)) }, problem.BudgetSpent},
	} {
		v, told := paid(t)
		keep(t, v, "", "anthropic", "key")
		agent := claude()
		tt.set(agent)
		r, err := v.Create(t.Context(), vacants.CreateSpec{Name: "sage", Capability: "knows", Agent: agent})
		if err != nil {
			t.Fatal(err)
		}
		if err := asked(t, v, &r); !problem.Is(err, tt.want) || len(*told) > 0 {
			t.Errorf("%s: %v, %q was sent", name, err, *told)
		}
	}
}

// free returns agents that the operator pays and that state a price of nothing.
func free() map[string]*definition.Agent {
	return map[string]*definition.Agent{
		"Bedrock":  {Provider: substrate.KindBedrock, Model: "amazon.nova-pro-v1:0", Price: &models.Price{}},
		"a secret": {Provider: substrate.KindAnthropic, Model: "claude-opus-4-6", Price: &models.Price{}},
		"a secret at a server": {
			Provider: substrate.KindOpenAI, BaseURL: "https://models.example/v1", Model: "gpt-4.1", Secret: "ours",
			Price: &models.Price{InputPrice: 1, OutputPrice: 1}, FallbackModel: "gpt-4.1-mini",
		},
	}
}

// However an agent gets into a vacant of a tenant, its price of nothing spends the budgets
// by the host's table, in this process and in the function that asks models. The same agent
// of the operator's is free.
func TestATenantsPriceDoesNotFreeWhatTheOperatorPays(t *testing.T) {
	for whose, agent := range free() {
		for _, tenant := range []string{"", "acme"} {
			v, told := paid(t)
			keep(t, v, tenant, "anthropic", "key")
			keep(t, v, tenant, "ours", "key", "models.example")
			created, err := v.Create(t.Context(), vacants.CreateSpec{Name: "created", Capability: "knows", Tenant: tenant, Agent: agent})
			if err != nil {
				t.Fatal(err)
			}
			updated, err := v.Create(t.Context(), vacants.CreateSpec{Name: "updated", Capability: "knows", Tenant: tenant, Substrate: "echo"})
			if err != nil {
				t.Fatal(err)
			}
			if updated, err = v.Update(t.Context(), updated.ID, vacants.Changes{Agent: agent}); err != nil {
				t.Fatal(err)
			}
			all := []vacants.Record{created, updated}
			for _, s := range []vacants.SpawnSpec{
				{Parent: created.ID, Path: "D2", Name: "inherits"},
				{Parent: updated.ID, Path: "D3", Name: "has-its-own", Capability: "knows more", Agent: agent},
			} {
				child, _, err := v.Spawn(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, child)
			}
			spent := money.Amount(0)
			counts := func(what string) {
				t.Helper()
				b, err := v.Resources.Budgets.Budget(t.Context(), tenant)
				if err != nil {
					t.Fatal(err)
				}
				if more := b.Spent - spent; (more > 100) != (tenant != "") {
					t.Errorf("%s of %q by %s: %s is spent", what, tenant, whose, more)
				}
				spent = b.Spent
			}
			for _, r := range all {
				if err := asked(t, v, &r); err != nil {
					t.Fatal(err)
				}
				counts(r.Name)
				if err := answering(v).CheckAgent(t.Context(), r.ID); err != nil {
					t.Fatal(err)
				}
				counts("a check of " + r.Name)
				turn := think.Turn{Agent: think.AgentVersion{Vacant: r.ID, Version: r.AgentVersion}, Request: substrate.NewTextRequest(r.ID, r.ID, "hi")}
				if _, err := substrate.ReadAnswer(answering(v).ThinkService().RunTurn(t.Context(), turn)); err != nil {
					t.Fatal(err)
				}
				counts("a turn elsewhere of " + r.Name)
			}
			if len(*told) != 3*len(all) {
				t.Errorf("%d turns were sent, want %d", len(*told), 3*len(all))
			}
			if tenant == "" {
				continue
			}
			if _, err := v.Resources.Budgets.SetBudget(t.Context(), tenant, 0); err != nil {
				t.Fatal(err)
			}
			for _, r := range all {
				if err := asked(t, v, &r); !problem.Is(err, problem.BudgetSpent) {
					t.Errorf("a call of %s by %s without a budget = %v", r.Name, whose, err)
				}
			}
		}
	}
}

// A model of a tenant's that the operator pays needs a row of the table when the agent is
// stored, and when it is called: the row may be gone since.
func TestATenantsModelWithoutARowIsRefused(t *testing.T) {
	const want = "expected a model in the host's table of models, because the operator pays for it; the operator can add a model with vacancy models set FILE, got "
	v, told := paid(t)
	keep(t, v, "acme", "openai", "key")
	keep(t, v, "", "openai", "key")
	agent := &definition.Agent{Provider: substrate.KindOpenAI, Model: "gpt-99", Price: &models.Price{InputPrice: money.Dollar, OutputPrice: money.Dollar}}
	refused := func(what, field, model string, err error) {
		t.Helper()
		if p := problem.AsError(err); !problem.Is(err, problem.Malformed) || p.Field != field || p.Text() != field+": "+want+model {
			t.Errorf("%s = %v, want the field %s", what, err, field)
		}
	}
	_, err := v.Create(t.Context(), vacants.CreateSpec{Name: "sage", Capability: "knows", Tenant: "acme", Agent: agent})
	refused("Create()", "model", "openai:gpt-99", err)
	_, err = v.Create(t.Context(), vacants.CreateSpec{Name: "sage", Capability: "knows", Tenant: "acme", Substrate: "bedrock:amazon.unknown-v1:0"})
	refused("Create(a substrate)", "model", "bedrock:amazon.unknown-v1:0", err)
	r, err := v.Create(t.Context(), vacants.CreateSpec{Name: "sage", Capability: "knows", Tenant: "acme", Substrate: "openai:gpt-5"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = v.Update(t.Context(), r.ID, vacants.Changes{Agent: agent})
	refused("Update()", "model", "openai:gpt-99", err)
	_, err = v.Update(t.Context(), r.ID, vacants.Changes{Substrate: new("openai:gpt-99")})
	refused("Update(a substrate)", "model", "openai:gpt-99", err)
	_, err = v.Update(t.Context(), r.ID, vacants.Changes{Agent: &definition.Agent{Provider: substrate.KindOpenAI, Model: "gpt-5", FallbackModel: "gpt-99"}})
	refused("Update(a fallback)", "fallback_model", "openai:gpt-99", err)
	_, _, err = v.Spawn(t.Context(), vacants.SpawnSpec{Parent: r.ID, Path: "D2", Name: "pupil", Agent: agent})
	refused("Spawn()", "model", "openai:gpt-99", err)
	own, err := v.Create(t.Context(), vacants.CreateSpec{Name: "ours", Capability: "knows", Agent: agent})
	if err != nil {
		t.Errorf("Create(the operator's) = %v", err)
	}

	table, err := models.Parse([]byte(`{"models":[{"provider":"openai","model":"gpt-99","input":1000000,"output":2000000}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range []error{asked(t, v, &r), asked(t, v, &own)} {
		if err != nil {
			t.Errorf("call %d = %v", i, err)
		}
	}
	sent := len(*told)
	if _, err := v.Resources.Models.Set(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	err = asked(t, v, &r)
	wantKind(t, "a call without a row", err, problem.SubstrateMisconfigured)
	if !strings.Contains(err.Error(), "model: "+want+"openai:gpt-5") {
		t.Errorf("a call without a row = %v, want what is missing", err)
	}
	if len(*told) != sent {
		t.Errorf("%d turns were sent without a price", len(*told)-sent)
	}
	if _, _, err = v.Spawn(t.Context(), vacants.SpawnSpec{Parent: r.ID, Path: "D2", Name: "pupil"}); problem.AsError(err).Field != "model" {
		t.Errorf("Spawn() of a parent without a row = %v, want the field model", err)
	}
	if _, err = v.Update(t.Context(), r.ID, vacants.Changes{Agent: agent}); err != nil {
		t.Errorf("Update() to the model of the table = %v", err)
	}
}
