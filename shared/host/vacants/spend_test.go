package vacants_test

import (
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/billing/money"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// asked asks a vacant as the pipeline does: whether it is ready, and then to answer.
func asked(t *testing.T, v *vacants.Directory, r *vacants.Record) error {
	t.Helper()
	held, _, err := v.Vacant(t.Context(), r.ID, true)
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
	r, err := v.Create(t.Context(), vacants.Spec{Name: "sage", Capability: "knows", Agent: agent})
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
	b, err := v.Spend.Budget(t.Context(), "")
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
	r, err := v.Create(t.Context(), vacants.Spec{Name: "sage", Capability: "knows", Agent: claude()})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.CheckAgent(t.Context(), r.ID); err != nil || len(*told) != 1 {
		t.Fatalf("CheckAgent() = %v, %d requests", err, len(*told))
	}
	// What the model says it used is more than was reserved, and not believed.
	if b, err := v.Spend.Budget(t.Context(), ""); err != nil || b.Spent < 5*1024+25*64 || b.Spent >= 7500 {
		t.Errorf("%s is spent, %v; want what a question and 64 tokens cost", b.Spent, err)
	}
}

func TestWhatCostsAnUnknownPriceIsRefused(t *testing.T) {
	v, told := paid(t)
	keep(t, v, "", "openai", "key")
	agent := &definition.Agent{Provider: substrate.KindOpenAI, Model: "gpt-99"}
	_, err := v.Create(t.Context(), vacants.Spec{Name: "sage", Capability: "knows", Agent: agent})
	if p := problem.Of(err); !problem.Is(err, problem.Malformed) || p.Field != "price" || !strings.Contains(p.Text(), "openai:gpt-99") {
		t.Errorf("Create() = %v, want malformed of price", err)
	}
	table, err := models.Parse([]byte(`{"models":[{"provider":"openai","model":"gpt-99","input":1000000,"output":2000000}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Models.Set(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	r, err := v.Create(t.Context(), vacants.Spec{Name: "sage", Capability: "knows", Agent: agent})
	if err != nil {
		t.Fatal(err)
	}
	if err := asked(t, v, &r); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Models.Set(t.Context(), models.Known()); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "a call whose price is gone", asked(t, v, &r), problem.SubstrateMisconfigured)
	agent.Price = &models.Price{In: money.Dollar, Out: money.Dollar}
	if _, err := v.Update(t.Context(), r.ID, vacants.Changes{Agent: agent}); err != nil {
		t.Fatal(err)
	}
	if err := asked(t, v, &r); err != nil || len(*told) != 2 {
		t.Errorf("a call by its agent's price = %v; %d were sent", err, len(*told))
	}
	v.Spend = nil
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
		r, err := v.Create(t.Context(), vacants.Spec{Name: "sage", Capability: "knows", Agent: agent})
		if err != nil {
			t.Fatal(err)
		}
		if err := asked(t, v, &r); !problem.Is(err, tt.want) || len(*told) > 0 {
			t.Errorf("%s: %v, %q was sent", name, err, *told)
		}
	}
}
