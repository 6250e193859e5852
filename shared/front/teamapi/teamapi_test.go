package teamapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/tests/memhost"
)

// asker asks for a color, and answers with the text that it is sent then.
type asker struct{}

func (asker) Infer(_ context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		if r.Text() == "paint" && !yield(substrate.Asks{}, nil) {
			return
		}
		text := map[bool]string{true: "which color?", false: "it is " + r.Text() + ", see src/a.go"}[r.Text() == "paint"]
		if yield(substrate.Text(text), nil) {
			yield(substrate.Stop, nil)
		}
	}
}

// teamHost is a host with the tenant acme, who has the agent writer, and an account with the key of acme.
type teamHost struct {
	*memhost.Host
	acme   billing.Account
	writer vacants.Record
	key    string
}

func openTeam(t testing.TB) *teamHost {
	h := &teamHost{Host: memhost.Open(t, func(c *serve.Config) {
		c.Substrates = substrate.Kinds{"asker": func(string) (substrate.Substrate, error) { return asker{}, nil }}
	})}
	h.Serve()
	h.acme = h.Account("acme", money.Dollar)
	h.writer = h.Create(vacants.Spec{By: vacants.Operator(), Name: "writer", Capability: "writes", Substrate: "asker", Tenant: "acme"})
	h.key = h.Key(h.acme, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeCall, billing.ScopeAgents}})
	return h
}

// dispatch gives an agent a task, and returns its id.
func (h *teamHost) dispatch(body string, headers ...string) string {
	h.Helper()
	a := h.Do("POST", "/v1/tasks", h.key, body, headers...)
	if a.Status != 201 {
		h.Fatalf("POST /v1/tasks %s = %d %s", body, a.Status, a.Body)
	}
	return a.JSON["taskId"].(string)
}

// status returns the status of a task.
func (h *teamHost) status(id string) map[string]any {
	h.Helper()
	a := h.Do("GET", "/v1/tasks/"+id, h.key, "")
	if a.Status != 200 {
		h.Fatalf("GET /v1/tasks/%s = %d %s", id, a.Status, a.Body)
	}
	return a.JSON
}

// until waits until a task has a status.
func (h *teamHost) until(id, want string) map[string]any {
	h.Helper()
	for {
		a := h.Do("GET", "/v1/tasks/"+id+"?wait=20", h.key, "")
		if a.JSON["status"] == want {
			return a.JSON
		}
		if s := a.JSON["status"]; s != "pending" && s != "working" {
			h.Fatalf("task %s is %s, want %s", id, a.Body, want)
		}
	}
}

func TestATaskRunsAfterItsDispatch(t *testing.T) {
	h := openTeam(t)
	id := h.dispatch(`{"agent":"writer","task":"green"}`)
	if s := h.status(id); s["status"] != "pending" || s["agent"] != "writer" || s["mode"] != "read-write" {
		t.Errorf("before its turn: %v", s)
	}
	h.Work()
	s := h.until(id, "completed")
	result := s["result"].(map[string]any)
	if result["response"] != "it is green, see src/a.go" || fmt.Sprint(result["artifacts"]) != "[src/a.go]" || result["model_used"] != "(default)" {
		t.Errorf("result = %v", result)
	}
	if a := h.Do("GET", "/v/writer/tasks/"+id, h.key, "", "A2A-Version: 1.0"); a.Status != 200 || !strings.Contains(a.Body, "it is green") {
		t.Errorf("by A2A = %d %s", a.Status, a.Body)
	}
	if a := h.Do("POST", "/v1/tasks/"+id+"/cancel", h.key, ""); a.Status != 409 || a.JSON["detail"] != "Task already completed." {
		t.Errorf("cancel of a completed task = %d %s", a.Status, a.Body)
	}
	if a := h.Do("GET", "/v1/tasks", h.key, ""); !strings.Contains(a.Body, id) {
		t.Errorf("list = %s", a.Body)
	}
	h.Clock.Advance(time.Hour - time.Second)
	h.status(id)
	h.Clock.Advance(time.Second)
	if a := h.Do("GET", "/v1/tasks/"+id, h.key, ""); a.Status != 404 || a.JSON["detail"] != "Task '"+id+"' not found or expired." {
		t.Errorf("after its lifetime = %d %s", a.Status, a.Body)
	}
	if a := h.Do("GET", "/v1/tasks", h.key, ""); strings.Contains(a.Body, id) {
		t.Errorf("the list still has it: %s", a.Body)
	}
}

func TestATaskBelongsToItsOwnerAlone(t *testing.T) {
	h := openTeam(t)
	id := h.dispatch(`{"agent":"writer","task":"green"}`)
	agents := []billing.Scope{billing.ScopeAgents, billing.ScopeCall}
	other := h.Account("other", 0)
	for whose, key := range map[string]string{
		"another account": h.Key(other, billing.KeyOptions{Scopes: agents}), "a test key of the account": h.Key(h.acme, billing.KeyOptions{Scopes: agents, Test: true}),
	} {
		for _, request := range []string{"GET /v1/tasks/" + id, "POST /v1/tasks/" + id + "/cancel", "POST /v1/tasks/" + id + "/answer"} {
			method, path, _ := strings.Cut(request, " ")
			body := map[bool]string{true: `{"text":"x"}`}[strings.HasSuffix(path, "answer")]
			if a := h.Do(method, path, key, body); a.Status != 404 {
				t.Errorf("%s of %s = %d %s", request, whose, a.Status, a.Body)
			}
		}
		if a := h.Do("GET", "/v1/tasks", key, ""); strings.Contains(a.Body, id) {
			t.Errorf("%s lists it: %s", whose, a.Body)
		}
	}
	if a := h.Do("GET", "/v1/tasks", h.Key(h.acme, billing.KeyOptions{}), ""); a.Status != 403 {
		t.Errorf("a key without the scope agents = %d %s", a.Status, a.Body)
	}
	if a := h.Do("POST", "/v1/tasks", h.Key(other, billing.KeyOptions{Scopes: agents}), `{"agent":"writer","task":"x"}`); a.Status != 404 || a.JSON["detail"] != "Agent 'writer' not found." {
		t.Errorf("an agent of another tenant = %d %s", a.Status, a.Body)
	}
}

func TestATaskWaitsForAnAnswer(t *testing.T) {
	h := openTeam(t)
	h.Work()
	id := h.dispatch(`{"agent":"writer","task":"paint"}`)
	if s := h.until(id, "input_required"); s["question"] != "which color?" {
		t.Errorf("question = %v", s)
	}
	for range 2 { // the second is the same answer
		if a := h.Do("POST", "/v1/tasks/"+id+"/answer", h.key, `{"text":"blue"}`, "Idempotency-Key: one"); a.Status != 200 {
			t.Fatalf("answer = %d %s", a.Status, a.Body)
		}
		if s := h.until(id, "completed"); !strings.Contains(fmt.Sprint(s["result"]), "it is blue") {
			t.Errorf("result = %v", s)
		}
	}
	if a := h.Do("POST", "/v1/tasks/"+id+"/answer", h.key, `{"text":"red"}`); a.Status != 409 {
		t.Errorf("an answer to a completed task = %d %s", a.Status, a.Body)
	}
}

func TestAWaitingTaskHoldsNoMoney(t *testing.T) {
	h := openTeam(t)
	_, err := h.Vacants.SetPrice(t.Context(), h.writer.ID, price.Price{Flat: 2000})
	h.Must(err)
	id := h.dispatch(`{"agent":"writer","task":"green"}`, "Idempotency-Key: k")
	if again := h.dispatch(`{"agent":"writer","task":"green"}`, "Idempotency-Key: k"); again != id {
		t.Errorf("the same key is task %s, want %s", again, id)
	}
	if got := h.Balance(h.acme); got != money.Dollar {
		t.Errorf("balance while the task waits = %s", got)
	}
	h.Clock.Advance(20 * time.Minute)
	h.Work()
	h.until(id, "completed")
	if got := h.Balance(h.acme); got != money.Dollar-2000 {
		t.Errorf("balance afterwards = %s", got)
	}
	h.WantWhole(h.Store)
}

func TestAWaitingTaskFails(t *testing.T) {
	for what, tt := range map[string]struct {
		change func(h *teamHost)
		says   string
	}{
		"at its deadline": {func(h *teamHost) { h.Clock.Advance(task.RunTime + time.Second) }, "did not end within 6h0m0s"},
		"with its key": {func(h *teamHost) {
			keys, err := h.Billing.Keys(h.Context(), h.acme.ID)
			h.Must(err)
			_, err = h.Billing.RevokeKey(h.Context(), nil, h.acme.ID, keys[0].ID)
			h.Must(err)
			h.key = h.Key(h.acme, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeAgents}})
		}, "was revoked"},
		"without money": {func(h *teamHost) {
			_, err := h.Vacants.SetPrice(h.Context(), h.writer.ID, price.Price{Flat: 2 * money.Dollar})
			h.Must(err)
		}, "2"},
	} {
		t.Run(what, func(t *testing.T) {
			h := openTeam(t)
			id := h.dispatch(`{"agent":"writer","task":"green"}`)
			tt.change(h)
			h.Work()
			if s := h.until(id, "failed"); !strings.Contains(fmt.Sprint(s["error"]), tt.says) {
				t.Errorf("error = %v, want %s", s, tt.says)
			}
			if got := h.Balance(h.acme); got != money.Dollar {
				t.Errorf("balance = %s", got)
			}
		})
	}
}

func TestUnfinishedTasksAreLimited(t *testing.T) {
	h := openTeam(t)
	for _, name := range []string{"second", "third"} {
		h.Create(vacants.Spec{By: vacants.Operator(), Name: name, Capability: "works", Substrate: "asker", Tenant: "acme"})
	}
	var first string
	count := 0
	for _, agent := range []struct {
		name string
		n    int
	}{{"writer", 40}, {"second", 40}, {"third", 20}} {
		for range agent.n {
			id := h.dispatch(fmt.Sprintf(`{"agent":%q,"task":"x%d"}`, agent.name, count))
			if count++; first == "" {
				first = id
			}
		}
		refused := h.Do("POST", "/v1/tasks", h.key, fmt.Sprintf(`{"agent":%q,"task":"more"}`, agent.name))
		if want := map[bool]string{true: "100 unfinished tasks", false: "40 unfinished tasks at this agent"}[count == 100]; refused.Status != 429 || !strings.Contains(refused.Body, want) {
			t.Errorf("task %d = %d %s, want %s", count+1, refused.Status, refused.Body, want)
		}
	}
	if a := h.Do("POST", "/v1/tasks/"+first+"/cancel", h.key, ""); a.Status != 200 || a.JSON["status"] != "cancelled" {
		t.Errorf("cancel = %d %s", a.Status, a.Body)
	}
	h.dispatch(`{"agent":"writer","task":"after"}`)
	// Tasks that have passed their deadlines make room without being read.
	h.Clock.Advance(task.RunTime + time.Second)
	h.dispatch(`{"agent":"writer","task":"later"}`)
}

func TestTheModeOfATask(t *testing.T) {
	h := openTeam(t)
	for _, tt := range []struct{ argument, want string }{{"", "read-write"}, {"read-only", "read-only"}, {"read-write", "read-write"}} {
		a := h.Do("POST", "/v1/tasks", h.key, fmt.Sprintf(`{"agent":"writer","task":"x","mode":%q}`, tt.argument))
		if a.JSON["mode"] != tt.want {
			t.Errorf("mode %q = %s, want %s", tt.argument, a.Body, tt.want)
		}
	}
	for body, want := range map[string]string{
		`"mode":"x"`: "Invalid mode 'x'. Use 'read-write' or 'read-only'.", `"max_turns":0`: "max_turns must be positive, got 0", `"budget":-1000000`: "budget must be non-negative, got -1",
	} {
		if a := h.Do("POST", "/v1/tasks", h.key, `{"agent":"writer","task":"x",`+body+`}`); a.Status != 400 || a.JSON["detail"] != want {
			t.Errorf("%s = %d %s, want %s", body, a.Status, a.Body, want)
		}
	}
}

// tool calls a tool of the host's MCP server, and returns its text.
func (h *teamHost) tool(name, arguments string) (text string, isError bool) {
	h.Helper()
	a := h.Do("POST", "/mcp", h.key, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`","arguments":`+arguments+`}}`, "Accept: application/json, text/event-stream")
	var reply struct {
		Result struct {
			Content []struct{ Text string }
			IsError bool
		}
	}
	h.Must(json.Unmarshal([]byte(a.Body), &reply))
	if len(reply.Result.Content) == 0 {
		h.Fatalf("%s %s = %d %s", name, arguments, a.Status, a.Body)
	}
	return reply.Result.Content[0].Text, reply.Result.IsError
}

func TestTheToolsOfATeam(t *testing.T) {
	h := openTeam(t)
	list := h.Do("POST", "/mcp", h.key, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Accept: application/json, text/event-stream")
	for _, name := range []string{"list_agents", "dispatch_agent", "get_task_status", "cancel_task", "answer_task", "get_locks"} {
		if !strings.Contains(list.Body, `"`+name+`"`) {
			t.Errorf("tools/list lacks %s: %s", name, list.Body)
		}
	}
	if guest := h.Do("POST", "/mcp", "", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Accept: application/json, text/event-stream"); strings.Contains(guest.Body, "dispatch_agent") {
		t.Errorf("a guest lists %s", guest.Body)
	}
	for _, tt := range []struct{ tool, arguments, want string }{
		{"dispatch_agent", `{"agent":"nobody","task":"x","max_turns":0}`, "Agent 'nobody' not found."},
		{"dispatch_agent", `{"agent":"writer","task":"x","max_turns":0,"budget":-1}`, "max_turns must be positive, got 0"},
		{"dispatch_agent", `{"agent":"writer","task":"x","budget":-1,"mode":"y"}`, "budget must be non-negative, got -1"},
		{"dispatch_agent", `{"agent":"writer","task":"x","mode":"y"}`, "Invalid mode 'y'. Use 'read-write' or 'read-only'."},
		{"get_task_status", `{"task_id":"x"}`, "Task 'x' not found or expired."},
		{"cancel_task", `{"task_id":"x"}`, "Task 'x' not found."},
	} {
		if text, isError := h.tool(tt.tool, tt.arguments); !isError || text != tt.want {
			t.Errorf("%s %s = %q, want %q", tt.tool, tt.arguments, text, tt.want)
		}
	}
	if text, _ := h.tool("list_agents", `{"unknown":1}`); !strings.Contains(text, `"name": "writer"`) || !strings.Contains(text, `"tier": "UNKNOWN"`) {
		t.Errorf("list_agents = %s", text)
	}
	if text, _ := h.tool("get_locks", `{}`); !strings.Contains(text, `"count": 0`) {
		t.Errorf("get_locks = %s", text)
	}
	text, _ := h.tool("dispatch_agent", `{"agent":"writer","task":"red","model":null}`)
	var started struct{ TaskID, Status string }
	h.Must(json.Unmarshal([]byte(text), &started))
	if started.Status != "working" {
		t.Errorf("dispatch_agent = %s", text)
	}
	for range 2 {
		if text, isError := h.tool("cancel_task", fmt.Sprintf(`{"task_id":%q}`, started.TaskID)); isError || !strings.Contains(text, `"status": "cancelled"`) {
			t.Errorf("cancel_task = %s", text)
		}
	}
	resources := h.Do("POST", "/mcp", h.key, `{"jsonrpc":"2.0","id":1,"method":"resources/list"}`, "Accept: application/json, text/event-stream")
	if !strings.Contains(resources.Body, `"agents://writer"`) {
		t.Errorf("resources/list = %s", resources.Body)
	}
	read := h.Do("POST", "/mcp", h.key, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"agents://writer"}}`, "Accept: application/json, text/event-stream")
	if !strings.Contains(read.Body, `default_mode`) {
		t.Errorf("resources/read = %s", read.Body)
	}
}
