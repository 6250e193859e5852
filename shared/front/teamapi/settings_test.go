package teamapi_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/loop"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// model is an agent with a model, in a mode.
func model(mode definition.Mode) *definition.Agent {
	return &definition.Agent{Provider: substrate.KindMock, Model: "one", Mode: mode}
}

func TestTheModeOfATaskIsItsArgumentsOrItsOwners(t *testing.T) {
	h := openTeam(t)
	const refused = "mode: only the owner of the agent may choose read-write"
	for _, file := range []definition.Mode{"", definition.ReadOnly, definition.ReadWrite} {
		own := h.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "own" + string(file), Capability: "works", Tenant: "acme", Agent: model(file)})
		theirs := h.publish(vacants.CreateSpec{Name: "theirs" + string(file), Agent: model(file)})
		for _, argument := range []definition.Mode{"", definition.ReadOnly, definition.ReadWrite} {
			ownMode, theirMode, warnings := argument, any(nil), any(nil)
			if ownMode == "" {
				ownMode = file
			}
			if ownMode == "" {
				ownMode = definition.ReadWrite
			}
			switch argument {
			case definition.ReadOnly:
				theirMode = "read-only"
			case definition.ReadWrite:
				warnings = []any{refused}
			}
			for _, tt := range []struct {
				agent          string
				mode, warnings any
			}{{own.Name, string(ownMode), nil}, {theirs.ID.String(), theirMode, warnings}} {
				a := h.Do("POST", "/v1/tasks", h.key, fmt.Sprintf(`{"agent":%q,"task":"x","mode":%q}`, tt.agent, argument))
				if a.Status != 201 || a.JSON["mode"] != tt.mode || fmt.Sprint(a.JSON["warnings"]) != fmt.Sprint(tt.warnings) {
					t.Errorf("mode %q at %s, whose file says %q = %d %s, want %v with %v", argument, tt.agent, file, a.Status, a.Body, tt.mode, tt.warnings)
				}
				if s := h.status(a.JSON["taskId"].(string)); s["mode"] != tt.mode || fmt.Sprint(s["warnings"]) != fmt.Sprint(tt.warnings) {
					t.Errorf("the status of mode %q at %s, whose file says %q = %v", argument, tt.agent, file, s)
				}
				h.cancel(a) // and its lock
			}
		}
	}
}

func TestASettingThatATaskCannotHaveIsAWarning(t *testing.T) {
	h := openTeam(t)
	h.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "model", Capability: "works", Tenant: "acme", Agent: model("")})
	limited := model(definition.ReadOnly)
	budget := money.Amount(1000)
	limited.Price, limited.Budget, limited.Warnings = &models.Price{InputPrice: 1, OutputPrice: 1}, &budget, []string{"color: not supported"}
	h.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "limited", Capability: "works", Tenant: "acme", Agent: limited})
	theirs := model(definition.ReadOnly)
	theirs.MaxTurns, theirs.Warnings = 2, []string{"a secret"}
	stranger := h.publish(vacants.CreateSpec{Name: "theirs", Agent: theirs}).ID.String()
	program := h.publish(vacants.CreateSpec{Name: "program", Substrate: "asker"}).ID.String()
	h.Vacants.Resources.Servers = func(context.Context, identity.ID, outbound.URLChooser, []definition.Server) (o loop.Offer, done func(), err error) {
		return o, func() {}, nil
	}
	const noGate = "mode: the host cannot limit the tools of this agent to reading"
	for _, tt := range []struct {
		agent, members string
		want           []string
	}{
		{"writer", ``, nil},
		{"writer", `,"mode":"read-write"`, nil},
		{"writer", `,"mode":"read-only"`, []string{noGate}},
		{"writer", `,"max_turns":3`, []string{"max_turns: the agent has no model whose turns the host counts"}},
		{"writer", `,"budget":0`, []string{"budget: the agent has no model and no price, so the host cannot limit its cost"}},
		{"writer", `,"model":"two","effort":"low","output_format":"json"`, []string{"model: the agent has no model", "effort: the agent has no model", "output_format: the agent has no model"}},
		{"model", `,"mode":"read-only","max_turns":64,"budget":0,"model":"two","effort":"low","output_format":"json"`, nil},
		{"model", `,"max_turns":65`, []string{"max_turns: the limit is 64, got 65"}},
		{"model", `,"effort":"much","output_format":"xml"`, []string{`effort: expected one of low, medium, high, got "much"`, `output_format: expected one of text, json, got "xml"`}},
		{"model", `,"mcp_servers":[{"name":"a","url":"https://a.example/mcp"}]`, nil},
		{"model", `,"mcp_servers":[{"name":"a b","url":"https://a.example/mcp"}]`, []string{`mcp_servers[0].name: expected 1 to 32 of a-z A-Z 0-9 _ -, each once, got "a b"`}},
		{"writer", `,"mcp_servers":[{"name":"a","url":"https://a.example/mcp"}]`, []string{"mcp_servers: the agent has no model"}},
		{stranger, `,"mcp_servers":[{"name":"a","url":"file:///etc"}]`, []string{"mcp_servers: only the owner of the agent may add servers"}},
		{"limited", `,"budget":1000`, []string{"color: not supported"}},
		{"limited", `,"budget":1001`, []string{"color: not supported", "budget: the agent's file limits each turn to $0.001"}},
		{stranger, ``, nil},
		{stranger, `,"mode":"read-only","budget":0`, nil},
		{stranger, `,"max_turns":1`, []string{"max_turns: the agent's own limit applies if it is lower"}},
		{stranger, `,"max_turns":9`, []string{"max_turns: the agent's own limit applies if it is lower"}},
		{stranger, `,"model":"two","effort":"low","output_format":"json"`, []string{
			"model: only the owner of the agent may change it", "effort: only the owner of the agent may change it", "output_format: only the owner of the agent may change it",
		}},
		{program, `,"mode":"read-only"`, []string{noGate}},
	} {
		a := h.Do("POST", "/v1/tasks", h.key, fmt.Sprintf(`{"agent":%q,"task":"x"%s}`, tt.agent, tt.members))
		warnings, _ := a.JSON["warnings"].([]any)
		if a.Status != 201 || fmt.Sprintf("%q", warnings) != fmt.Sprintf("%q", tt.want) {
			t.Errorf("%s%s = %d %s, want the warnings %q", tt.agent, tt.members, a.Status, a.Body, tt.want)
		}
		h.cancel(a) // and its lock
	}
}

// The model is the effective one for the owner of the agent, and private for others.
func TestTheModelOfATask(t *testing.T) {
	h := openTeam(t)
	h.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "model", Capability: "works", Tenant: "acme", Agent: model("")})
	theirs := h.publish(vacants.CreateSpec{Name: "theirs", Agent: model("")}).ID.String()
	h.Work()
	for _, tt := range []struct {
		agent, model string
		want         any
		used         string
	}{{"model", "", "one", "one"}, {"model", "two", "two", "two"}, {theirs, "", nil, "(default)"}, {theirs, "two", nil, "(default)"}, {"writer", "", nil, "(default)"}} {
		a := h.Do("POST", "/v1/tasks", h.key, fmt.Sprintf(`{"agent":%q,"task":"green","model":%q}`, tt.agent, tt.model))
		if model, there := a.JSON["model"]; !there || model != tt.want {
			t.Errorf("model %q at %s = %d %s, want %v", tt.model, tt.agent, a.Status, a.Body, tt.want)
			continue
		}
		s := h.until(a.JSON["taskId"].(string), "completed")
		if used := s["result"].(map[string]any)["model_used"]; s["model"] != tt.want || used != tt.used {
			t.Errorf("model %q at %s: the status is %v, want %v and %s", tt.model, tt.agent, s, tt.want, tt.used)
		}
	}
}

func TestABrokenAgentBreaksNoList(t *testing.T) {
	h := openTeam(t)
	broken := h.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "broken", Capability: "breaks", Tenant: "acme", Agent: model("")})
	d, err := h.Store.Doc(t.Context(), vacants.AgentKey(broken.ID, 1))
	h.Must(err)
	h.Must(h.Store.Commit(t.Context(), store.Delete{Key: d.Key, IfVersion: d.Version}))
	h.Vacants.ForgetAgents()
	if a := h.Do("GET", "/v1/agents", h.key, ""); a.Status != 200 || !strings.Contains(a.Body, `"writer"`) || strings.Contains(a.Body, `"broken"`) {
		t.Errorf("the list = %d %s", a.Status, a.Body)
	}
	if text, isError := h.tool("list_agents", `{}`); isError || !strings.Contains(text, `"writer"`) || strings.Contains(text, `"broken"`) {
		t.Errorf("list_agents = %s", text)
	}
	if a := h.rpc("resources/list", `{}`); !strings.Contains(a.Body, `"agents://writer"`) || strings.Contains(a.Body, `"agents://broken"`) {
		t.Errorf("resources/list = %s", a.Body)
	}
}

func TestAFinishedTaskCanBeReadForTheLifetimeOfItsAccount(t *testing.T) {
	h := openTeam(t)
	h.Work()
	for _, lifetime := range []time.Duration{0, time.Minute, 24 * time.Hour} {
		if lifetime == 0 {
			lifetime = time.Hour
		} else {
			_, err := h.Billing.SetTaskLifetime(t.Context(), h.acme.ID, int64(lifetime/time.Second))
			h.Must(err)
		}
		id, waiting := h.dispatch(`{"agent":"writer","task":"green"}`), h.dispatch(`{"agent":"writer","task":"paint"}`)
		h.until(id, "completed")
		h.until(waiting, "input_required")
		h.Clock.Advance(lifetime - time.Second)
		h.status(id)
		h.Clock.Advance(time.Second)
		expired, missing := "Task '"+id+"' not found or expired.", "Task '"+id+"' not found."
		for _, r := range []struct{ method, path, body, want string }{{"GET", "", "", expired}, {"POST", "/answer", `{"text":"x"}`, expired}, {"POST", "/cancel", "", missing}} {
			if a := h.Do(r.method, "/v1/tasks/"+id+r.path, h.key, r.body); a.Status != 404 || a.JSON["detail"] != r.want {
				t.Errorf("after %s: %s %s = %d %s, want %s", lifetime, r.method, r.path, a.Status, a.Body, r.want)
			}
		}
		for _, r := range []struct{ tool, arguments, want string }{
			{"get_task_status", `{"task_id":"` + id + `"}`, expired}, {"answer_task", `{"task_id":"` + id + `","text":"x"}`, expired}, {"cancel_task", `{"task_id":"` + id + `"}`, missing},
		} {
			if text, isError := h.tool(r.tool, r.arguments); !isError || text != r.want {
				t.Errorf("after %s: %s = %s, want %s", lifetime, r.tool, text, r.want)
			}
		}
		if a := h.Do("GET", "/v1/tasks", h.key, ""); strings.Contains(a.Body, id) {
			t.Errorf("after %s, the list has the task: %s", lifetime, a.Body)
		}
		if lifetime <= time.Hour { // the task fails at its deadline, after six hours
			if s := h.status(waiting); s["status"] != "input_required" {
				t.Errorf("after %s, the task that waits is %v", lifetime, s)
			}
		}
	}
}

func TestTheLifetimeOfAnAccountIsNotTheOperators(t *testing.T) {
	h := openTeam(t)
	_, err := h.Billing.SetTaskLifetime(t.Context(), h.acme.ID, 60)
	h.Must(err)
	h.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "own", Capability: "works", Substrate: "asker"})
	h.Work()
	id := h.operate("POST", "/v1/admin/tasks", `{"agent":"own","task":"green"}`).JSON["taskId"].(string)
	if a := h.operate("GET", "/v1/admin/tasks/"+id+"?wait=20", ""); a.JSON["status"] != "completed" {
		t.Fatalf("the operator's task = %d %s", a.Status, a.Body)
	}
	mine := h.Do("POST", "/v1/tasks", h.keyOf(h.acme, billing.KeyOptions{}), `{"agent":"writer","task":"green"}`).JSON["taskId"].(string)
	h.until(mine, "completed")
	h.Clock.Advance(time.Minute)
	if a := h.operate("GET", "/v1/admin/tasks/"+id, ""); a.Status != 200 {
		t.Errorf("the operator's task = %d %s", a.Status, a.Body)
	}
	if a := h.Do("GET", "/v1/tasks/"+mine, h.key, ""); a.Status != 404 {
		t.Errorf("the account's task = %d %s", a.Status, a.Body)
	}
}
