package teamapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/tests/memhost"
)

// The words of B10 are fixed, and so is the order of its checks.
func TestEachRefusalHasItsWords(t *testing.T) {
	h := openTeam(t)
	priced := h.publish(vacants.CreateSpec{Name: "priced", Substrate: "asker"})
	_, err := h.Vacants.SetPrice(t.Context(), priced.ID, price.Price{Flat: 5000})
	h.Must(err)
	off := vacants.KeylessOff
	signed := h.publish(vacants.CreateSpec{Name: "signed", Substrate: "asker"})
	_, err = h.Vacants.Update(t.Context(), signed.ID, vacants.Changes{Asker: vacants.OperatorAsker(), KeylessAccess: &off})
	h.Must(err)
	hidden := h.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "hidden", Capability: "hides", Substrate: "asker", Tenant: "other"})
	asleep := h.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "asleep", Capability: "sleeps", Substrate: "asker", Tenant: "acme"})
	_, err = h.Vacants.Pause(t.Context(), asleep.ID)
	h.Must(err)
	own := h.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "paid", Capability: "costs", Substrate: "asker"})
	_, err = h.Vacants.SetPrice(t.Context(), own.ID, price.Price{Flat: 5000})
	h.Must(err)
	h.Clock.Advance(2 * time.Second) // records are cached for a second
	id := h.dispatch(`{"agent":"writer","task":"green"}`, "Idempotency-Key: k")
	test := h.keyOf(h.acme, billing.KeyOptions{Test: true})
	dispatch := func(members string) string { return `{"agent":"writer","task":"green",` + members + `}` }
	const operator = "the operator"
	for _, tt := range []struct {
		key, method, path, body, header string
		status                          int
		want                            string
	}{
		{h.key, "POST", "/v1/tasks", `{"agent":"nobody","task":"x","max_turns":0,"budget":-1,"mode":"y"}`, "", 404, "Agent 'nobody' not found."},
		{h.key, "POST", "/v1/tasks", dispatch(`"max_turns":0,"budget":-1,"mode":"y"`), "", 400, "max_turns must be positive, got 0"},
		{h.key, "POST", "/v1/tasks", dispatch(`"max_turns":-3`), "", 400, "max_turns must be positive, got -3"},
		{h.key, "POST", "/v1/tasks", dispatch(`"budget":-1000000,"mode":"y"`), "", 400, "budget must be non-negative, got -1"},
		{h.key, "POST", "/v1/tasks", dispatch(`"mode":"y"`), "", 400, "Invalid mode 'y'. Use 'read-write' or 'read-only'."},
		{h.key, "POST", "/v1/tasks", `{"agent":"writer","task":" "}`, "", 400, "task: expected a text, got none"},
		{h.key, "POST", "/v1/tasks", `{"agent":"writer","task":"` + strings.Repeat("x", 200<<10+1) + `"}`, "", 413, "task: expected at most 204800 bytes, got 204801"},
		{h.key, "POST", "/v1/tasks", `{"agent":"writer","task":"` + strings.Repeat(`\"`, 150<<10) + `"}`, "", 413,
			fmt.Sprintf("task: expected at most %d bytes in JSON, which escapes quotes and control characters, got %d", canon.DefaultLimits().Bytes-1024, 300<<10+2)},
		{h.key, "POST", "/v1/tasks", `{"agent":"asleep","task":"x"}`, "", 423, "agent asleep is HIBERNATING, and accepts no tasks"},
		{h.key, "POST", "/v1/tasks", `{"agent":"` + hidden.ID.String() + `","task":"x"}`, "", 404, "Agent '" + hidden.ID.String() + "' not found."},
		{h.key, "POST", "/v1/tasks", `{"agent":"priced","task":"x"}`, "", 404, "Agent 'priced' not found."},
		{h.key, "POST", "/v1/tasks", `{"agent":"` + signed.ID.String() + `","task":"x"}`, "", 403, "agent " + signed.ID.Short() + " answers only signed calls"},
		{h.key, "POST", "/v1/tasks", `{"agent":"` + priced.ID.String() + `","task":"x"}`, "", 400, "budget: expected at least the price of a call, $0.005, got none"},
		{h.key, "POST", "/v1/tasks", `{"agent":"` + priced.ID.String() + `","task":"x","budget":4999}`, "", 400, "budget: expected at least the price of a call, $0.005, got $0.004999"},
		{test, "POST", "/v1/tasks", `{"agent":"` + priced.ID.String() + `","task":"x","budget":5000}`, "", 403, "a test key can dispatch tasks only to agents of its own tenant, acme"},
		{operator, "POST", "/v1/admin/tasks", `{"agent":"paid","task":"x"}`, "", 402, "agent paid has the price …"},
		{operator, "POST", "/v1/admin/tasks", `{"agent":"writer","task":"x"}`, "", 404, "Agent 'writer' not found."},
		{h.key, "POST", "/v1/tasks", dispatch(`"mode":"read-only"`), "Idempotency-Key: k", 409, "idempotency-key: expected a new key, or the same request again, got another request"},
		{h.key, "POST", "/v1/tasks", dispatch(`"mode":""`), "Idempotency-Key: " + strings.Repeat("k", envelope.MaxIDBytes+1), 400, "idempotency-key: expected 1 to 512 bytes without control characters, got …"},
		{h.key, "GET", "/v1/tasks/" + id + "?wait=21", "", "", 400, "wait: expected 0 to 20 seconds, got 21"},
		{h.key, "GET", "/v1/tasks?state=done", "", "", 400, "state: expected pending, working, input_required, completed, cancelled or failed, got done"},
		{h.key, "GET", "/v1/tasks?cursor=*", "", "", 400, "cursor: expected next of an earlier answer, got *"},
		{h.key, "GET", "/v1/tasks/x", "", "", 404, "Task 'x' not found or expired."},
		{h.key, "POST", "/v1/tasks/x/cancel", "", "", 404, "Task 'x' not found."},
		{h.key, "POST", "/v1/tasks/x/answer", `{"text":"y"}`, "", 404, "Task 'x' not found or expired."},
		{h.key, "POST", "/v1/tasks/" + id + "/answer", `{"text":"y"}`, "", 409, "Task '" + id + "' does not wait for an answer."},
		{h.key, "POST", "/v1/tasks/" + id + "/answer", `{"text":" "}`, "", 400, "text: expected a text, got none"},
		{h.key, "GET", "/v1/agents/nobody", "", "", 404, "Agent 'nobody' not found."},
		{h.key, "GET", "/v1/agents/" + priced.ID.String(), "", "", 404, "Agent '" + priced.ID.String() + "' not found."},
		{h.Key(h.acme, billing.KeyOptions{}), "GET", "/v1/tasks", "", "", 403, "the key lacks the scope agents"},
		{h.Key(h.acme, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeAgents}}), "GET", "/v1/tasks/" + id, "", "", 403, "the key lacks the scope read"},
		{"", "GET", "/v1/agents", "", "", 401, "a key of an account is required: …"},
	} {
		var headers []string
		if tt.header != "" {
			headers = append(headers, tt.header)
		}
		answer := h.operate
		if tt.key != operator {
			answer = func(method, path, body string) memhost.Answer { return h.Do(method, path, tt.key, body, headers...) }
		}
		got := answer(tt.method, tt.path, tt.body)
		detail, _ := got.JSON["detail"].(string)
		start, isStart := strings.CutSuffix(tt.want, "…")
		if got.Status != tt.status || detail != tt.want && !(isStart && strings.HasPrefix(detail, start)) {
			t.Errorf("%s %s %.100s = %d %s, want %d %s", tt.method, tt.path, tt.body, got.Status, got.Body, tt.status, tt.want)
		}
	}
}

func TestTheWordsOfTheToolsHaveNoHints(t *testing.T) {
	h := openTeam(t)
	_, err := h.Vacants.Pause(t.Context(), h.writer.ID)
	h.Must(err)
	h.Clock.Advance(2 * time.Second) // records are cached for a second
	for _, tt := range []struct{ tool, arguments, want string }{
		{"dispatch_agent", `{"agent":"nobody","task":"x","max_turns":0}`, "Agent 'nobody' not found."},
		{"dispatch_agent", `{"agent":"writer","task":"x","max_turns":0,"budget":-1}`, "max_turns must be positive, got 0"},
		{"dispatch_agent", `{"agent":"writer","task":"x","budget":-1,"mode":"y"}`, "budget must be non-negative, got -1"},
		{"dispatch_agent", `{"agent":"writer","task":"x","budget":-0.5}`, "budget must be non-negative, got -0.5"},
		{"dispatch_agent", `{"agent":"writer","task":"x","budget":"y"}`, `budget: expected a number of dollars, for example 0.5, got "y"`},
		{"dispatch_agent", `{"agent":"writer","task":"x","mode":"y"}`, "Invalid mode 'y'. Use 'read-write' or 'read-only'."},
		{"dispatch_agent", `{"agent":"writer","task":"x"}`, "agent writer is HIBERNATING, and accepts no tasks"},
		{"get_task_status", `{"task_id":"x"}`, "Task 'x' not found or expired."},
		{"answer_task", `{"task_id":"x","text":"y"}`, "Task 'x' not found or expired."},
		{"cancel_task", `{"task_id":"x"}`, "Task 'x' not found."},
	} {
		if text, isError := h.tool(tt.tool, tt.arguments); !isError || text != tt.want {
			t.Errorf("%s %s = %q, want %q", tt.tool, tt.arguments, text, tt.want)
		}
	}
}

func TestATaskBelongsToItsOwnerAlone(t *testing.T) {
	h := openTeam(t)
	live, test := h.key, h.keyOf(h.acme, billing.KeyOptions{Test: true})
	id := h.dispatch(`{"agent":"writer","task":"green"}`)
	h.key = test
	testID := h.dispatch(`{"agent":"writer","task":"green"}`)
	const operator = "the operator"
	for whose, tt := range map[string]struct{ key, id string }{
		"another account": {h.keyOf(h.Account("other", money.Dollar), billing.KeyOptions{}), id},
		"a test key":      {test, id},
		"a live key":      {live, testID},
		"the operator":    {operator, id},
	} {
		h.key = tt.key
		expired, missing := "Task '"+tt.id+"' not found or expired.", "Task '"+tt.id+"' not found."
		for _, r := range []struct{ method, path, body, want string }{
			{"GET", "/tasks/" + tt.id, "", expired}, {"GET", "/tasks/" + tt.id + "?wait=1", "", expired},
			{"POST", "/tasks/" + tt.id + "/answer", `{"text":"x"}`, expired}, {"POST", "/tasks/" + tt.id + "/cancel", "", missing},
		} {
			got := h.operate(r.method, "/v1/admin"+r.path, r.body)
			if tt.key != operator {
				got = h.Do(r.method, "/v1"+r.path, tt.key, r.body)
			}
			if got.Status != 404 || got.JSON["detail"] != r.want {
				t.Errorf("%s: %s %s = %d %s, want %s", whose, r.method, r.path, got.Status, got.Body, r.want)
			}
		}
		if tt.key == operator {
			if got := h.operate("GET", "/v1/admin/tasks", ""); got.Status != 200 || strings.Contains(got.Body, tt.id) {
				t.Errorf("the operator's list = %d %s", got.Status, got.Body)
			}
			continue
		}
		for _, r := range []struct{ tool, arguments, want string }{
			{"get_task_status", `{"task_id":"` + tt.id + `"}`, expired}, {"answer_task", `{"task_id":"` + tt.id + `","text":"x"}`, expired}, {"cancel_task", `{"task_id":"` + tt.id + `"}`, missing},
		} {
			if text, isError := h.tool(r.tool, r.arguments); !isError || text != r.want {
				t.Errorf("%s: %s = %s, want %s", whose, r.tool, text, r.want)
			}
		}
		if got := h.Do("GET", "/v1/tasks", tt.key, ""); got.Status != 200 || strings.Contains(got.Body, tt.id) {
			t.Errorf("%s: the list = %d %s", whose, got.Status, got.Body)
		}
		callers := h.Key(h.acme, billing.KeyOptions{Test: tt.key == test})
		if whose == "another account" {
			continue
		}
		if got := h.Do("GET", "/v/writer/tasks/"+tt.id, callers, "", "A2A-Version: 1.0"); got.Status != 404 {
			t.Errorf("%s: by A2A = %d %s", whose, got.Status, got.Body)
		}
	}
}

func TestARepeatedDispatchIsOneTask(t *testing.T) {
	h := openTeam(t)
	_, err := h.Vacants.SetPrice(t.Context(), h.writer.ID, price.Price{Flat: 2000})
	h.Must(err)
	other := h.Account("other", money.Dollar)
	h.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "author", Capability: "writes", Substrate: "asker", Tenant: "other"})
	const body, key = `{"agent":"writer","task":"green"}`, "Idempotency-Key: k"
	id := h.dispatch(body, key)
	if again := h.dispatch(body, key); again != id {
		t.Errorf("the same request is task %s, want %s", again, id)
	}
	if a := h.Do("POST", "/mcp", h.key, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"dispatch_agent","arguments":`+body+`,"_meta":{"io.github.vacancy-host/idempotency-key":"k"}}}`, accepts); !strings.Contains(a.Body, id) {
		t.Errorf("the same request by a tool = %d %s", a.Status, a.Body)
	}
	theirs := h.Do("POST", "/v1/tasks", h.keyOf(other, billing.KeyOptions{}), `{"agent":"author","task":"green"}`, key)
	if theirs.Status != 201 || theirs.JSON["taskId"] == id {
		t.Errorf("the key of another account = %d %s", theirs.Status, theirs.Body)
	}
	h.Work()
	h.until(id, "completed")
	_, err = h.Vacants.Pause(t.Context(), h.writer.ID)
	h.Must(err)
	h.Clock.Advance(2 * time.Second)
	if again := h.dispatch(body, key); again != id {
		t.Errorf("after its end, and while the agent sleeps, the same request is task %s, want %s", again, id)
	}
	if a := h.Do("GET", "/v1/tasks", h.key, ""); strings.Count(a.Body, `"status"`) != 2 { // of the task and of its result
		t.Errorf("the list = %s", a.Body)
	}
	if got := h.Balance(h.acme); got != money.Dollar-2000 {
		t.Errorf("balance = %s", got)
	}
}

func TestARepeatedAnswerIsOneTurn(t *testing.T) {
	h := openTeam(t)
	h.Work()
	id := h.dispatch(`{"agent":"writer","task":"paint"}`)
	h.until(id, "input_required")
	for range 2 {
		if a := h.Do("POST", "/v1/tasks/"+id+"/answer", h.key, `{"text":"blue"}`, "Idempotency-Key: one"); a.Status != 200 {
			t.Fatalf("answer = %d %s", a.Status, a.Body)
		}
		if s := h.until(id, "completed"); !strings.Contains(fmt.Sprint(s["result"]), "it is blue") {
			t.Errorf("result = %v", s)
		}
	}
	const other = "idempotency-key: expected a new key, or the same request again, got another request"
	if a := h.Do("POST", "/v1/tasks/"+id+"/answer", h.key, `{"text":"red"}`, "Idempotency-Key: one"); a.Status != 409 || a.JSON["detail"] != other {
		t.Errorf("another answer with the key = %d %s", a.Status, a.Body)
	}
}
