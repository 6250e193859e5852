package answer_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/answer"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mock"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/think"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/tests/memhost"
)

// teamHost is a host on which the tenant acme dispatches tasks with a key of its account.
type teamHost struct {
	*memhost.Host
	acme billing.Account
	key  string
	gate func()      // called by vacants of the substrate gate
	away atomic.Bool // the storage of files does not answer
}

// openTeam opens a host. If isParted is set, another process asks its models.
func openTeam(t testing.TB, isParted bool) *teamHost {
	h := &teamHost{}
	models := func(c *serve.Config) {
		blobs := c.Blobs
		c.Blobs = func() (blob.Blobs, error) {
			if h.away.Load() {
				return nil, blob.ErrUnavailable
			}
			return blobs()
		}
		c.Models = func(*outbound.Client) substrate.Kinds { return mock.Kinds() }
		c.Substrates = substrate.Kinds{"gate": func(string) (substrate.Substrate, error) {
			return substrate.Func(func(context.Context, substrate.Request) (string, error) { h.gate(); return "open", nil }), nil
		}}
	}
	h.Host = memhost.Open(t, models)
	if isParted {
		back := h.Host
		h.Host = memhost.Open(t, models, func(c *serve.Config) {
			c.Store, c.Now, c.Models, c.ThinkerKinds = back.Store, back.Clock.NowFunc(0), nil, []string{substrate.KindMock}
			c.ThinkService = think.NewClient(func(caller context.Context, request []byte) ([]byte, error) {
				ctx, cancel := context.WithCancel(context.Background()) // another process has none of the caller's values
				defer cancel()
				defer context.AfterFunc(caller, cancel)()
				return io.ReadAll(think.Serve(ctx, back.Answers.ThinkService(), request, func(context.Context, think.Report) {}))
			})
		})
		h.Store, h.Clock = back.Store, back.Clock
	}
	h.Serve()
	h.acme = h.Account("acme", money.Dollar)
	h.key = h.Key(h.acme, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeAgents, billing.ScopeRead}})
	return h
}

// agent creates an agent of acme whose model plays turns of a script. A token of the model costs a micro-dollar.
func (h *teamHost) agent(name string, turns []string, others ...vacants.Record) vacants.Record {
	h.Helper()
	a := script(turns, others)
	return h.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: name, Capability: "helps", Tenant: "acme", Agent: &a})
}

func script(turns []string, others []vacants.Record) definition.Agent {
	a := definition.Agent{
		Provider: substrate.KindMock, System: "```mock\n" + strings.Join(turns, "\n---\n") + "\n```", MaxTokens: 100,
		Price: &models.Price{InputPrice: money.Dollar, OutputPrice: money.Dollar},
	}
	for _, one := range others {
		a.Vacants = append(a.Vacants, one.ID.String())
	}
	return a
}

// asks returns a turn in which a model asks vacants.
func asks(names ...string) string {
	var lines []string
	for _, name := range names {
		lines = append(lines, `call: vacant__`+name+` {"message":"{input}"}`)
	}
	return strings.Join(lines, "\n")
}

// shop creates a published vacant of another tenant with a price.
func (h *teamHost) shop(flat money.Amount) vacants.Record {
	h.Helper()
	r := h.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "shop", Capability: "sells", Tenant: "other", Substrate: "echo"})
	_, err := h.Vacants.SetPrice(h.Context(), r.ID, price.Price{Flat: flat})
	h.Must(err)
	_, _, err = h.Vacants.Publish(h.Context(), r.ID, vacants.PublishOptions{})
	h.Must(err)
	return r
}

// dispatch gives an agent a task, and returns its id.
func (h *teamHost) dispatch(key, body string) string {
	h.Helper()
	a := h.Do("POST", "/v1/tasks", key, body)
	if a.Status != 201 {
		h.Fatalf("POST /v1/tasks %s = %d %s", body, a.Status, a.Body)
	}
	return a.JSON["taskId"].(string)
}

// run gives an agent a task, and returns the task at its end with its last text.
func (h *teamHost) run(body string) (d task.DispatchedTask, text string) {
	h.Helper()
	id, owner := h.dispatch(h.key, body), (&call.Payer{Account: h.acme.ID}).Owner()
	for !d.Task.Status.State.IsTerminal() {
		time.Sleep(10 * time.Millisecond)
		var err error
		d, err = h.Agents.Tasks.FindDispatched(h.Context(), owner, id)
		h.Must(err)
	}
	for _, p := range d.Task.Status.Message.Parts {
		text += p.Text
	}
	return d, text
}

// rows returns the number of calls of a pair.
func (h *teamHost) rows(from, to vacants.Record) uint64 {
	h.Helper()
	tip, err := h.Store.Tip(h.Context(), call.Pair{Caller: from.ID, Vacant: to.ID}.Requests())
	h.Must(err)
	return tip.Position
}

// A task spends at most its budget for its model, for the models of its agents and for calls, whichever process asks the
// models, and it counts each micro-dollar once.
func TestATaskSpendsAtMostItsBudget(t *testing.T) {
	const costs = 100 + 50 + 40 + 10 + 2000 + 30 + 20
	for _, isParted := range []bool{false, true} {
		for _, budget := range []money.Amount{0, 1000, 1500, 2000, 2500, 3000, 3500, 4000, 10_000} {
			t.Run(fmt.Sprint(isParted, int64(budget)), func(t *testing.T) {
				h := openTeam(t, isParted)
				shop := h.shop(2000)
				helper := h.agent("helper", []string{"usage: 40 10\ntext: helped"})
				h.agent("lead", []string{asks("helper", "shop") + "\nusage: 100 50", "usage: 30 20\ntext: {result}"}, helper, shop)
				h.Work()
				d, text := h.run(fmt.Sprintf(`{"agent":"lead","task":"go","budget":%d}`, int64(budget)))
				asked, err := h.Vacants.Resources.Budgets.Budget(t.Context(), "acme")
				h.Must(err)
				paid := money.Dollar - h.Balance(h.acme)
				if d.Cost > budget || d.Cost != asked.Spent+paid {
					t.Errorf("%s of %s is spent, %s for models and %s for calls; %s", d.Cost, budget, asked.Spent, paid, text)
				}
				if budget == 10_000 && (d.Cost != costs || !strings.HasPrefix(text, "helpedecho")) {
					t.Errorf("%s is spent, want %s; the answer is %q", d.Cost, money.Amount(costs), text)
				}
				h.WantWhole(h.Store)
			})
		}
	}
}

// A vacant that waits for an answer is not asked: the model that asks it is told, and nothing is charged for it.
func TestAgentsDoNotAskInACircle(t *testing.T) {
	h := openTeam(t, false)
	editor := h.agent("editor", []string{"text: later"})
	writer := h.agent("writer", []string{asks("editor"), "text: {result}"}, editor)
	a := script([]string{asks("writer"), "text: {result}"}, []vacants.Record{writer})
	_, err := h.Vacants.Update(t.Context(), editor.ID, vacants.Changes{Asker: vacants.OperatorAsker(), Agent: &a})
	h.Must(err)
	_, err = h.Vacants.SetPrice(t.Context(), writer.ID, price.Price{Flat: 2000})
	h.Must(err)
	h.Work()
	if d, text := h.run(`{"agent":"writer","task":"go"}`); d.Task.Status.State != task.Completed || !strings.Contains(text, "writer: it is waiting for this answer") {
		t.Errorf("the task is %s: %s", d.Task.Status.State, text)
	}
	if asked, again := h.rows(writer, editor), h.rows(editor, writer); asked != 1 || again != 0 {
		t.Errorf("the editor was asked %d times and the writer %d times, want 1 and 0", asked, again)
	}
	if got := h.Balance(h.acme); got != money.Dollar-2000 {
		t.Errorf("balance = %s, want one charge", got)
	}
}

// The fifth of agents that ask each other answers without asking.
func TestAgentsAskFourDeep(t *testing.T) {
	h := openTeam(t, false)
	all := []vacants.Record{h.agent("agent-6", []string{"text: asked"})}
	for n := 5; n > 0; n-- {
		next := all[len(all)-1]
		all = append(all, h.agent(fmt.Sprintf("agent-%d", n), []string{asks(next.Name), "text: {result}"}, next))
	}
	h.Work()
	if d, text := h.run(`{"agent":"agent-1","task":"go"}`); d.Task.Status.State != task.Completed || !strings.Contains(text, "expected at most 4") {
		t.Errorf("the task is %s: %s", d.Task.Status.State, text)
	}
	if asked, above := h.rows(all[2], all[1]), h.rows(all[1], all[0]); asked != 1 || above != 0 {
		t.Errorf("the fifth was asked %d times and the sixth %d times, want 1 and 0", asked, above)
	}
}

// The key and the account of a task are checked before each call of its agents.
func TestATaskPaysOnlyWhileItsKeyMay(t *testing.T) {
	for what, tt := range map[string]struct {
		change func(h *teamHost) error
		says   string
		paid   money.Amount
	}{
		"nothing": {func(*teamHost) error { return nil }, "go", 2000},
		"the key is revoked": {func(h *teamHost) error {
			keys, err := h.Billing.Keys(h.Context(), h.acme.ID)
			h.Must(err)
			_, err = h.Billing.RevokeKey(h.Context(), nil, h.acme.ID, keys[0].ID)
			return err
		}, "was revoked", 0},
		"the account is suspended": {func(h *teamHost) error {
			_, err := h.Billing.SetSuspended(h.Context(), h.acme.ID, true, "")
			return err
		}, "suspended", 0},
		"the account has a cap": {func(h *teamHost) error {
			_, err := h.Billing.SetDailyCap(h.Context(), h.acme.ID, 1999)
			return err
		}, "the cap of", 0},
	} {
		t.Run(what, func(t *testing.T) {
			h := openTeam(t, false)
			h.gate = func() { h.Must(tt.change(h)) }
			gate := h.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "gate", Capability: "opens", Tenant: "acme", Substrate: "gate"})
			h.agent("lead", []string{asks("gate"), asks("shop"), "text: {result}"}, gate, h.shop(2000))
			h.Work()
			if d, text := h.run(`{"agent":"lead","task":"go"}`); d.Task.Status.State != task.Completed || !strings.Contains(text, tt.says) {
				t.Errorf("the task is %s: %s, want %s", d.Task.Status.State, text, tt.says)
			}
			if got := h.Balance(h.acme); got != money.Dollar-tt.paid {
				t.Errorf("balance = %s", got)
			}
		})
	}
}

// The owner of an agent overrides its settings. Everybody else only narrows its mode and its turns.
func TestTheSettingsOfATaskAreApplied(t *testing.T) {
	h := openTeam(t, false)
	own, other := h.key, h.Key(h.Account("other", money.Dollar), billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeAgents, billing.ScopeRead}})
	apply := func(r *vacants.Record, of definition.Agent, isOwn bool, arguments map[string]any) definition.Agent {
		t.Helper()
		key, account := own, h.acme
		if !isOwn {
			key = other
			var err error
			account, err = h.Billing.FindAccount(t.Context(), "other")
			h.Must(err)
		}
		arguments["agent"], arguments["task"] = r.ID.String(), "x"
		body, err := json.Marshal(arguments)
		h.Must(err)
		id := h.dispatch(key, string(body))
		ctx, stop := task.WatchTurn(t.Context(), h.Store, r.ID.String()+"#"+(&call.Payer{Account: account.ID}).Owner().String()+"#"+id)
		defer stop()
		answer.ApplySettings(ctx, r, &of)
		if a := h.Do("POST", "/v1/tasks/"+id+"/cancel", key, ""); a.Status != 200 {
			t.Fatalf("cancel = %d %s", a.Status, a.Body)
		}
		return of
	}
	for _, file := range []definition.Mode{"", definition.ReadOnly, definition.ReadWrite} {
		a := script([]string{"text: x"}, nil)
		a.Mode, a.MaxTurns, a.Effort, a.OutputFormat = file, 5, substrate.Effort("low"), definition.Text
		a.Budget = new(money.Amount(500))
		r := h.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "agent" + strings.TrimPrefix(string(file), "read"), Capability: "works", Tenant: "acme", Agent: &a})
		_, _, err := h.Vacants.Publish(t.Context(), r.ID, vacants.PublishOptions{})
		h.Must(err)
		for _, isOwn := range []bool{true, false} {
			for _, argument := range []definition.Mode{"", definition.ReadOnly, definition.ReadWrite} {
				want := cmp.Or(file, definition.ReadOnly)
				switch {
				case isOwn:
					want = cmp.Or(argument, file, definition.ReadWrite)
				case argument == definition.ReadOnly:
					want = argument
				}
				got := apply(&r, a, isOwn, map[string]any{"mode": argument})
				if cmp.Or(got.Mode, definition.ReadOnly) != want {
					t.Errorf("file %q, own %t, argument %q: mode %s, want %s", file, isOwn, argument, got.Mode, want)
				}
			}
			for turns, want := range map[int][2]int{0: {5, 5}, 3: {3, 3}, 9: {9, 5}} { // of the owner, and of others
				arguments := map[string]any{}
				if turns > 0 {
					arguments["max_turns"] = turns
				}
				if got := apply(&r, a, isOwn, arguments).MaxTurns; got != want[map[bool]int{false: 1}[isOwn]] {
					t.Errorf("file %q, own %t, %d turns: %d", file, isOwn, turns, got)
				}
			}
			for field, tt := range map[string]struct {
				to  string
				got func(*definition.Agent) string
			}{
				"model":         {"better", func(a *definition.Agent) string { return a.Model }},
				"effort":        {"high", func(a *definition.Agent) string { return string(a.Effort) }},
				"output_format": {"json", func(a *definition.Agent) string { return string(a.OutputFormat) }},
			} {
				for _, argument := range []string{"", tt.to} {
					want := tt.got(&a)
					if isOwn {
						want = cmp.Or(argument, want)
					}
					got := apply(&r, a, isOwn, map[string]any{field: argument})
					if tt.got(&got) != want {
						t.Errorf("file %q, own %t, %s %q: %q, want %q", file, isOwn, field, argument, tt.got(&got), want)
					}
				}
			}
			// The budget of the file limits each turn, and the walk limits the task.
			if got := apply(&r, a, isOwn, map[string]any{"budget": 100}); *got.Budget != 500 {
				t.Errorf("file %q, own %t: the budget of a turn is %s", file, isOwn, *got.Budget)
			}
		}
	}
}
