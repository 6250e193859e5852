package teamapi_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/tests/memhost"
)

const accepts = "Accept: application/json, text/event-stream"

// rpc calls a method of the host's MCP server.
func (h *teamHost) rpc(method, params string) memhost.Answer {
	h.Helper()
	return h.Do("POST", "/mcp", h.key, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, accepts)
}

// result decodes the result of an answer of MCP.
func result[T any](h *teamHost, a memhost.Answer) T {
	h.Helper()
	var reply struct{ Result *T }
	if err := json.Unmarshal([]byte(a.Body), &reply); err != nil || reply.Result == nil {
		h.Fatalf("%d %s has no result", a.Status, a.Body)
	}
	return *reply.Result
}

func TestTheToolsHaveTheTitlesAndHintsOfVaultspec(t *testing.T) {
	h := openTeam(t)
	type tool struct {
		Name, Title string
		InputSchema struct{ Required []string }
		Annotations struct{ ReadOnlyHint, DestructiveHint, IdempotentHint, OpenWorldHint bool }
	}
	listed := map[string]tool{}
	for _, l := range result[struct{ Tools []tool }](h, h.rpc("tools/list", `{}`)).Tools {
		listed[l.Name] = l
	}
	for name, want := range map[string]struct {
		title                                   string
		readOnly, destructive, idempotent, open bool
		required                                []string
	}{
		"list_agents":     {"List Available Agents", true, false, true, false, nil},
		"dispatch_agent":  {"Dispatch Sub-Agent", false, false, false, false, []string{"agent", "task"}},
		"get_task_status": {"Get Task Status", true, false, true, false, []string{"task_id"}},
		"cancel_task":     {"Cancel Task", false, true, true, false, []string{"task_id"}},
		"get_locks":       {"Get Active Locks", true, false, true, false, nil},
		"answer_task":     {"Answer Task", false, false, false, false, []string{"task_id", "text"}},
	} {
		got, a := listed[name], listed[name].Annotations
		if got.Title != want.title || a.ReadOnlyHint != want.readOnly || a.DestructiveHint != want.destructive || a.IdempotentHint != want.idempotent || a.OpenWorldHint != want.open ||
			!slices.Equal(got.InputSchema.Required, want.required) {
			t.Errorf("%s = %+v, want %+v", name, got, want)
		}
	}
	h.key = h.keyOf(h.acme, billing.KeyOptions{})
	if a := h.rpc("tools/list", `{}`); !strings.Contains(a.Body, `"dispatch_agent"`) || strings.Contains(a.Body, `"ask_agent"`) {
		t.Errorf("the tools of a key without call = %s", a.Body)
	}
	h.key = h.Key(h.acme, billing.KeyOptions{})
	if a := h.rpc("tools/list", `{}`); strings.Contains(a.Body, `"dispatch_agent"`) {
		t.Errorf("the tools of a key without agents = %s", a.Body)
	}
}

func TestTheResultsOfTheTools(t *testing.T) {
	h := openTeam(t)
	const hint = "Read the resource agents://{name} for the settings of an agent."
	want := "{\n  \"agents\": [\n    {\n      \"name\": \"writer\",\n      \"tier\": \"UNKNOWN\",\n      \"description\": \"writes\"\n    }\n  ],\n  \"hint\": \"" + hint + "\"\n}"
	if text, isError := h.tool("list_agents", `{"unknown":1}`); isError || text != want {
		t.Errorf("list_agents = %s, want %s", text, want)
	}
	called := func(tool, arguments string) map[string]any {
		t.Helper()
		reply := result[struct {
			Content           []struct{ Text string }
			StructuredContent map[string]any
		}](h, h.rpc("tools/call", `{"name":"`+tool+`","arguments":`+arguments+`}`))
		var text map[string]any
		h.Must(json.Unmarshal([]byte(reply.Content[0].Text), &text))
		if fmt.Sprint(text) != fmt.Sprint(reply.StructuredContent) {
			t.Errorf("%s has the text %v, and the content %v", tool, text, reply.StructuredContent)
		}
		return text
	}
	for task, check := range map[string]func(s map[string]any) bool{
		"green": func(s map[string]any) bool {
			r, ok := s["result"].(map[string]any)
			return ok && s["status"] == "completed" && r["taskId"] == s["taskId"] && r["status"] == "completed" && r["agent"] == "writer" && r["model_used"] == "(default)" &&
				r["duration_seconds"] == 60.0 && r["summary"] == "it is green, see src/a.go" && r["response"] == r["summary"] && fmt.Sprint(r["artifacts"]) == "[src/a.go]" && s["error"] == nil
		},
		"fail":  func(s map[string]any) bool { return s["status"] == "failed" && s["error"] != nil && s["result"] == nil },
		"paint": func(s map[string]any) bool { return s["status"] == "input_required" && s["question"] == "which color?" },
	} {
		started := called("dispatch_agent", `{"agent":"writer","task":"`+task+`","model":null,"budget":null,"unknown":true}`)
		id, _ := started["taskId"].(string)
		if fmt.Sprint(started) != fmt.Sprint(map[string]any{"status": "working", "agent": "writer", "taskId": id, "model": nil, "mode": "read-write"}) {
			t.Errorf("dispatch_agent = %v", started)
		}
		status := `{"task_id":"` + id + `"}`
		if s := called("get_task_status", status); fmt.Sprint(s) != fmt.Sprint(map[string]any{"status": "pending", "agent": "writer", "taskId": id, "model": nil, "mode": "read-write"}) {
			t.Errorf("before its turn, get_task_status = %v", s)
		}
		h.Clock.Advance(time.Minute)
		stop := h.Work()
		for state := any("pending"); state == "pending" || state == "working"; {
			state = h.Do("GET", "/v1/tasks/"+id+"?wait=20", h.key, "").JSON["status"]
		}
		stop()
		s := called("get_task_status", status)
		if s["taskId"] != id || s["agent"] != "writer" || s["mode"] != "read-write" || !check(s) {
			t.Errorf("get_task_status of %q = %v", task, s)
		}
	}
}

func TestTheListOfAgentsMayBeEmpty(t *testing.T) {
	h := openTeam(t)
	h.key = h.keyOf(h.Account("nobody", 0), billing.KeyOptions{})
	text, isError := h.tool("list_agents", `{}`)
	if want := "{\n  \"agents\": [],\n  \"hint\": \"Read the resource agents://{name} for the settings of an agent.\"\n}"; isError || text != want {
		t.Errorf("list_agents = %s, want %s", text, want)
	}
	if text, _ := h.tool("get_locks", `{}`); text != "{\n  \"locks\": [],\n  \"count\": 0\n}" {
		t.Errorf("get_locks = %s", text)
	}
}

func TestAnAgentIsAResourceWithDollars(t *testing.T) {
	h := openTeam(t)
	agent := model("")
	budget := 1_500_000 * money.Amount(1)
	agent.Description, agent.Price, agent.Budget, agent.MaxTurns = "paints <walls>", &models.Price{InputPrice: 1, OutputPrice: 1}, &budget, 3
	h.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "painter", Capability: "paints", Tenant: "acme", Agent: agent})
	type resources struct {
		Resources []struct{ URI, Name, MimeType string }
	}
	var uris []string
	for _, r := range result[resources](h, h.rpc("resources/list", `{}`)).Resources {
		uris = append(uris, r.URI)
	}
	slices.Sort(uris)
	if want := []string{"agents://painter", "agents://writer"}; !slices.Equal(uris, want) {
		t.Errorf("resources/list = %q, want %q", uris, want)
	}
	read := result[struct {
		Contents []struct{ URI, Text, MimeType string }
	}](h, h.rpc("resources/read", `{"uri":"agents://painter"}`))
	if len(read.Contents) != 1 || read.Contents[0].MimeType != "application/json" {
		t.Fatalf("resources/read = %+v", read)
	}
	var got map[string]any
	h.Must(json.Unmarshal([]byte(read.Contents[0].Text), &got))
	for member, want := range map[string]any{
		"name": "painter", "description": "paints <walls>", "tier": "UNKNOWN", "default_model": "one", "default_mode": "read-write", "max_turns": 3.0, "budget": 1.5,
	} {
		if got[member] != want {
			t.Errorf("%s = %v, want %v", member, got[member], want)
		}
	}
	if tools, ok := got["tools"].([]any); !ok || len(tools) != 0 {
		t.Errorf("tools = %v", got["tools"])
	}
	if !strings.Contains(read.Contents[0].Text, "<walls>") {
		t.Errorf("the text has escapes: %s", read.Contents[0].Text)
	}
	if a := h.Do("GET", "/v1/agents/painter", h.key, ""); a.JSON["budget"] != 1_500_000.0 {
		t.Errorf("by the API = %s", a.Body)
	}
	for _, uri := range []string{"agents://nobody", "agents://", "agents://%zz"} {
		if a := h.rpc("resources/read", `{"uri":"`+uri+`"}`); !strings.Contains(a.Body, `"error"`) {
			t.Errorf("%s = %d %s", uri, a.Status, a.Body)
		}
	}
	h.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "late", Capability: "comes", Substrate: "asker", Tenant: "acme"})
	if a := h.rpc("resources/list", `{}`); !strings.Contains(a.Body, `"agents://late"`) {
		t.Errorf("after another agent came, resources/list = %s", a.Body)
	}
}

// get_locks and the API show the locks of an account only to its keys.
func TestGetLocksShowsTheLocksOfAnAccount(t *testing.T) {
	h := openTeam(t)
	h.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "model", Capability: "works", Tenant: "acme", Agent: model(definition.ReadOnly)})
	id := h.dispatch(`{"agent":"model","task":"green"}`)
	var got struct {
		Count int
		Locks []struct {
			TaskID, Agent, Workspace, Mode string
			Paths                          []string
			Acquired                       int64 `json:"acquired_at"`
		}
	}
	text, _ := h.tool("get_locks", `{"unknown":1}`)
	h.Must(json.Unmarshal([]byte(text), &got))
	if l := got.Locks; got.Count != 1 || len(l) != 1 || l[0].TaskID != id || l[0].Agent != "model" || l[0].Workspace != "main" || l[0].Mode != "exclusive" ||
		!slices.Equal(l[0].Paths, []string{".vault/"}) || l[0].Acquired != h.Clock.NowFunc(0)().Unix() {
		t.Errorf("get_locks = %s", text)
	}
	if a := h.Do("PUT", "/v1/tasks/locks", h.key, `{"workspace":"main","policy":"queue"}`); a.Status != 200 {
		t.Errorf("PUT = %d %s", a.Status, a.Body)
	}
	own := h.Do("GET", "/v1/tasks/locks", h.key, "").Body
	if !strings.Contains(own, id) || !strings.Contains(own, `"policies":{"main":"queue"}`) {
		t.Errorf("the locks of the account = %s", own)
	}
	h.key = h.keyOf(h.Account("other", 0), billing.KeyOptions{})
	if text, _ := h.tool("get_locks", `{}`); strings.Contains(text, id) {
		t.Errorf("another account sees %s", text)
	}
	if a := h.Do("GET", "/v1/tasks/locks", h.key, ""); a.Status != 200 || strings.Contains(a.Body, id) || strings.Contains(a.Body, "queue") {
		t.Errorf("another account sees %s", a.Body)
	}
	if a := h.operate("GET", "/v1/admin/tasks/locks", ""); a.Status != 200 || strings.Contains(a.Body, id) {
		t.Errorf("the operator sees %s", a.Body)
	}
	h.key = h.Key(h.acme, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeCall}})
	if a := h.Do("GET", "/v1/tasks/locks", h.key, ""); a.Status != 403 {
		t.Errorf("a key without agents = %d %s", a.Status, a.Body)
	}
}

// A key that may read a task by the tool may read its whole response, too.
func TestALongResponseIsCutInTheToolsOnly(t *testing.T) {
	h := openTeam(t)
	h.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "own", Capability: "works", Substrate: "asker"})
	h.Work()
	h.key = h.keyOf(h.acme, billing.KeyOptions{}) // without the scope call
	id := h.dispatch(`{"agent":"writer","task":"much"}`)
	whole := strings.Repeat("é", much)
	read := func(a memhost.Answer, path string) {
		t.Helper()
		r, _ := a.JSON["result"].(map[string]any)
		if r["response"] != whole || r["response_path"] != path || r["summary"] != strings.Repeat("é", 500)+"..." {
			t.Errorf("the response = %d %.300s", a.Status, a.Body)
		}
	}
	h.until(id, "completed")
	read(h.Do("GET", "/v1/tasks/"+id, h.key, ""), "/v1/tasks/"+id)
	called := result[struct {
		Content           []struct{ Text string }
		StructuredContent struct {
			Result struct {
				Response string `json:"response"`
				Path     string `json:"response_path"`
			}
		}
	}](h, h.rpc("tools/call", `{"name":"get_task_status","arguments":{"task_id":"`+id+`"}}`))
	r := called.StructuredContent.Result
	if len(r.Response) > 64<<10 || len(r.Response) < 64<<10-1 || !strings.HasPrefix(whole, r.Response) || len(called.Content[0].Text) > 66<<10 {
		t.Errorf("get_task_status has %d bytes of response, and %d of text", len(r.Response), len(called.Content[0].Text))
	}
	read(h.Do("GET", r.Path, h.key, ""), r.Path)
	if a := h.Do("GET", "/v1/tasks", h.key, ""); a.Status != 200 || len(a.Body) > 4<<10 || !strings.Contains(a.Body, id) {
		t.Errorf("the list has %d bytes", len(a.Body))
	}
	short := h.dispatch(`{"agent":"writer","task":"green"}`)
	h.until(short, "completed")
	if text, _ := h.tool("get_task_status", `{"task_id":"`+short+`"}`); strings.Contains(text, "response_path") {
		t.Errorf("a short response has a path: %s", text)
	}
	operators := h.operate("POST", "/v1/admin/tasks", `{"agent":"own","task":"much"}`).JSON["taskId"].(string)
	read(h.operate("GET", "/v1/admin/tasks/"+operators+"?wait=20", ""), "/v1/admin/tasks/"+operators)
}

func TestATaskAndItsMessagesAreNotInTheMemoryOfAnother(t *testing.T) {
	h := openTeam(t)
	agent := model("")
	agent.Memory = true
	h.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "mind", Capability: "remembers", Tenant: "acme", Agent: agent})
	h.Work()
	h.until(h.dispatch(`{"agent":"mind","task":"a secret"}`), "completed")
	id := h.dispatch(`{"agent":"mind","task":"paint"}`)
	h.until(id, "input_required")
	if a := h.Do("POST", "/v1/tasks/"+id+"/answer", h.key, `{"text":"recall"}`); a.Status != 200 {
		t.Fatalf("answer = %d %s", a.Status, a.Body)
	}
	if got := h.until(id, "completed")["result"].(map[string]any)["response"]; got != "paint;which color?;recall;" {
		t.Errorf("it remembers %v", got)
	}
}

func TestOnlyTheOwnerOfAnAgentSeesItsSteps(t *testing.T) {
	h := openTeam(t)
	theirs := h.publish(vacants.CreateSpec{Name: "theirs", Substrate: "asker"}).ID.String()
	h.Work()
	for _, tt := range []struct {
		agent, query string
		want         int
	}{{"writer", "?steps=true", 1}, {"writer", "", 0}, {theirs, "?steps=true", 0}} {
		id := h.dispatch(`{"agent":"` + tt.agent + `","task":"think"}`)
		h.until(id, "completed")
		a := h.Do("GET", "/v1/tasks/"+id+tt.query, h.key, "")
		if a.Status != 200 || strings.Count(a.Body, `"thought":"a secret"`) != tt.want {
			t.Errorf("%s%s = %d %s, want %d steps", tt.agent, tt.query, a.Status, a.Body, tt.want)
		}
	}
}

func TestACanceledTaskStopsItsAgent(t *testing.T) {
	h := openTeam(t)
	h.Work()
	began := time.Now()
	id := h.dispatch(`{"agent":"writer","task":"sleep"}`)
	if took := time.Since(began); took > time.Second {
		t.Errorf("the dispatch took %s", took)
	}
	for h.status(id)["status"] != "working" {
		time.Sleep(10 * time.Millisecond)
	}
	for range 2 { // the second changes nothing
		if text, isError := h.tool("cancel_task", `{"task_id":"`+id+`"}`); isError || text != "{\n  \"status\": \"cancelled\",\n  \"taskId\": \""+id+"\",\n  \"agent\": \"writer\"\n}" {
			t.Errorf("cancel_task = %s", text)
		}
	}
	select {
	case <-h.stopped:
	case <-time.After(20 * time.Second):
		t.Error("the agent was not stopped")
	}
	if s := h.status(id); s["status"] != "cancelled" || s["result"] != nil || s["error"] != nil {
		t.Errorf("status = %v", s)
	}
}

func TestStatesOfATask(t *testing.T) {
	h := openTeam(t)
	h.Work()
	act := map[string]func(id string) memhost.Answer{
		"cancel": func(id string) memhost.Answer { return h.Do("POST", "/v1/tasks/"+id+"/cancel", h.key, "") },
		"answer": func(id string) memhost.Answer {
			return h.Do("POST", "/v1/tasks/"+id+"/answer", h.key, `{"text":"blue"}`)
		},
	}
	for _, tt := range []struct{ task, state, action, want string }{
		{"paint", "input_required", "answer", "completed"},
		{"paint", "input_required", "cancel", "cancelled"},
		{"green", "completed", "cancel", "Task already completed."},
		{"green", "completed", "answer", "Task 'ID' does not wait for an answer."},
		{"fail", "failed", "cancel", "Task already completed."},
		{"fail", "failed", "answer", "Task 'ID' does not wait for an answer."},
	} {
		id := h.dispatch(fmt.Sprintf(`{"agent":"writer","task":%q}`, tt.task))
		before := h.until(id, tt.state)
		if hasError := before["error"] != nil; hasError != (tt.state == "failed") {
			t.Errorf("%s: the status is %v", tt.state, before)
		}
		a := act[tt.action](id)
		if a.Status == 200 {
			h.until(id, tt.want)
		} else if a.Status != 409 || a.JSON["detail"] != strings.ReplaceAll(tt.want, "ID", id) {
			t.Errorf("%s of a task that is %s = %d %s, want %s", tt.action, tt.state, a.Status, a.Body, tt.want)
		}
	}
}

// The second host stands for another instance, and for the first one after a restart.
func TestATaskIsInTheStore(t *testing.T) {
	h := openTeam(t)
	id, other := h.dispatch(`{"agent":"writer","task":"paint"}`), h.dispatch(`{"agent":"writer","task":"green"}`)
	second := *h
	second.Host = openHost(t, h.stopped, func(c *serve.Config) { c.Store, c.Now = h.Store, h.Clock.NowFunc(0) })
	if s := second.status(id); s["status"] != "pending" {
		t.Errorf("on the other instance: %v", s)
	}
	if a := second.Do("POST", "/v1/tasks/"+other+"/cancel", h.key, ""); a.Status != 200 || a.JSON["status"] != "cancelled" {
		t.Errorf("cancel on the other instance = %d %s", a.Status, a.Body)
	}
	stop := second.Work()
	h.until(id, "input_required")
	stop() // a queue in the store wakes the workers of its own process only
	if a := h.Do("POST", "/v1/tasks/"+id+"/answer", h.key, `{"text":"blue"}`); a.Status != 200 {
		t.Errorf("answer = %d %s", a.Status, a.Body)
	}
	second.Work()
	second.until(id, "completed")
	if s := h.status(other); s["status"] != "cancelled" {
		t.Errorf("the canceled task on the first instance: %v", s)
	}
}
