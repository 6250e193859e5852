package a2a_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// A follower of a task that waits for a message stays until the task has ended.
func TestAFollowerStaysWithATaskThatWaits(t *testing.T) {
	for method, dialect := range map[string]string{"SubscribeToTask": "1.0", "tasks/resubscribe": "0.3"} {
		w := newWorld(t)
		w.create("sut", "conformance")
		first := w.sends("sut", "tck-input-required-1", "one", "")
		id := at(t, first.body, "result", "task", "id")
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.http.URL+"/v/sut", strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"id":%q}}`, method, id)))
		must(t, err)
		q.Header.Set("Content-Type", "application/json")
		r, err := http.DefaultClient.Do(q)
		must(t, err)
		defer r.Body.Close()
		lines := bufio.NewScanner(r.Body)
		event := func() string {
			for lines.Scan() {
				if s, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
					return s
				}
			}
			return ""
		}
		if s := strings.ToLower(event()); !strings.Contains(s, "input") {
			t.Fatalf("%s: it begins with %s", dialect, s)
		}
		w.sends("sut", "m", "two", fmt.Sprintf(`,"taskId":%q`, id))
		last := ""
		for s := event(); s != ""; s = event() {
			last = s
		}
		if !strings.Contains(strings.ToLower(last), "completed") {
			t.Errorf("%s: it ends with %s", dialect, last)
		}
	}
}

// Clients read the refusal of a stream from the stream.
func TestARefusalOfAStreamIsItsOnlyEvent(t *testing.T) {
	w := newWorld(t)
	for method, params := range map[string]string{
		"message/stream":    `{"message":{"messageId":"m","taskId":"x","role":"user","parts":[{"kind":"text","text":"a"}]}}`,
		"tasks/resubscribe": `{"id":"x"}`, "SubscribeToTask": `{"id":"x"}`,
		"SendStreamingMessage": `{"message":{"taskId":"x","role":"ROLE_USER","parts":[{"text":"a"}]}}`,
	} {
		got := w.do("POST", "/v/echo", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))
		all := frames(got.body)
		if got.status != 200 || got.header.Get("Content-Type") != "text/event-stream" || len(all) != 1 || at(t, strings.TrimSpace(all[0]), "error", "code") != "-32001" {
			t.Errorf("%s: %d %s %s", method, got.status, got.header.Get("Content-Type"), got.body)
		}
	}
}

// The kit that tests agents reads the refusal of a stream as JSON.
func TestTheAgentUnderTestRefusesAStreamInJSON(t *testing.T) {
	w := newWorld(t)
	w.create("sut", "conformance")
	for _, method := range []string{"tasks/resubscribe", "SubscribeToTask"} {
		got := w.rpc("/v/sut", method, `{"id":"x"}`)
		if got.status != 200 || got.header.Get("Content-Type") != "application/json" || at(t, got.body, "error", "code") != "-32001" || !strings.HasPrefix(at(t, got.body, "error", "message"), "task not found: ") {
			t.Errorf("%s: %d %v %s", method, got.status, got.header, got.body)
		}
	}
}

// A client reads the error in the form of its binding, wherever it occurs. Whether there is a vacant makes
// no difference.
func TestAnUnknownVacantIsToldInTheFormOfTheBinding(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct{ method, path, status string }{
		{"POST", "/message:send", "NOT_FOUND"}, {"POST", "/message:stream", "NOT_FOUND"}, {"GET", "/tasks", "NOT_FOUND"}, {"GET", "/tasks/x", "NOT_FOUND"}, {"POST", "/tenant/tasks/x:cancel", "NOT_FOUND"},
		{"PUT", "/tasks", "NOT_FOUND"}, {"GET", "/extendedAgentCard", "NOT_FOUND"}, {"GET", "/tasks/x/pushNotificationConfigs/y", "NOT_FOUND"}, {"GET", "/tea", ""}, {"GET", "", ""},
	} {
		got := w.do(tt.method, "/v/nobody"+tt.path, "")
		if got.status != 404 || at(t, got.body, "code") != "not_found" || at(t, got.body, "error", "status") != tt.status || tt.status != "" && at(t, got.body, "error", "message") != at(t, got.body, "detail") {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, got.status, got.body)
		}
	}
	if got := w.rpc("/v/nobody", "GetTask", `{"id":"x"}`); got.status != 404 || at(t, got.body, "error", "code") != "-32000" || at(t, got.body, "jsonrpc") != "2.0" || at(t, got.body, "detail") == "" {
		t.Errorf("by JSON-RPC: %d %s", got.status, got.body)
	}
	for path, want := range map[string][]any{"": {"error", "data", 0, "reason"}, "/message:send": {"error", "details", 0, "reason"}} {
		got := w.do("POST", "/v/echo"+path, "hi", "Content-Type: text/plain")
		if got.status != 415 || at(t, got.body, want...) != "CONTENT_TYPE_NOT_SUPPORTED" || path == "" && at(t, got.body, "error", "code") != "-32005" {
			t.Errorf("a text to %q: %d %s", path, got.status, got.body)
		}
	}
}

// Errors of HTTP have what A2A clients read beside what ours read.
func TestErrorsOfHTTPHaveTheMemberOfTheirBinding(t *testing.T) {
	w := newWorld(t)
	w.rpc("/v/echo", "SendMessage", message("hi", "")) // creates the keys
	w.store.down.Store(true)
	for name, got := range map[string]answer{
		"stream":     w.rpc("/v/echo", "SendStreamingMessage", message("hi", "")),
		"background": w.rpc("/v/echo", "SendMessage", strings.TrimSuffix(message("hi", ""), "}")+`,"configuration":{"returnImmediately":true}}`),
	} {
		if got.status != 503 || at(t, got.body, "code") != "unavailable" || got.header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	rpc := w.rpc("/v/echo", "SendMessage", message("hi", ""))
	if rpc.status != 503 || rpc.header.Get("Retry-After") == "" || at(t, rpc.body, "code") != problem.Unavailable.String() || at(t, rpc.body, "jsonrpc") != "2.0" || at(t, rpc.body, "id") != "1" ||
		at(t, rpc.body, "error", "code") != "-32000" || at(t, rpc.body, "error", "message") != at(t, rpc.body, "detail") || at(t, rpc.body, "error", "data", 0, "reason") != "UNAVAILABLE" {
		t.Errorf("by JSON-RPC: %d %s", rpc.status, rpc.body)
	}
	rest := w.do("POST", "/v/echo/message:send", message("hi", ""))
	if rest.status != 503 || at(t, rest.body, "code") != problem.Unavailable.String() || at(t, rest.body, "error", "code") != "503" ||
		at(t, rest.body, "error", "status") != "UNAVAILABLE" || at(t, rest.body, "error", "message") != at(t, rest.body, "detail") || at(t, rest.body, "error", "details", 0, "reason") != "UNAVAILABLE" {
		t.Errorf("by REST: %d %s", rest.status, rest.body)
	}
	wrong := w.do("DELETE", "/v/echo/message:send", "")
	if wrong.status != 405 || at(t, wrong.body, "error", "status") != "UNIMPLEMENTED" {
		t.Errorf("a method that is not allowed: %d %s", wrong.status, wrong.body)
	}
	key := w.rpc("/v/echo", "GetTask", `{"id":"x"}`, "Authorization: Bearer nobody")
	if key.status != 401 || at(t, key.body, "error", "code") != "-32000" {
		t.Errorf("a key that is nobody's: %d %s", key.status, key.body)
	}
}

// Only a valid request without an id is a notification.
func TestAnInvalidRequestWithoutAnIDIsAnswered(t *testing.T) {
	w := newWorld(t)
	for body, code := range map[string]string{
		`{"method":"SendMessage"}`:             "-32600",
		`{"message":"hi"}`:                     "-32600",
		`[]`:                                   "-32600",
		`{"jsonrpc":"2.0","method":"Nothing"}`: "-32601",
		`{"jsonrpc":"2.0","method":"SendMessage","params":{}}`:         "-32602",
		`{"jsonrpc":"2.0","method":"message/stream","params":{"x":1}}`: "-32602",
	} {
		got := w.do("POST", "/v/echo", body)
		text := got.body
		if all := frames(text); len(all) == 1 {
			text = strings.TrimSpace(all[0])
		}
		if got.status != 200 || at(t, text, "error", "code") != code || !strings.Contains(text, `"id":null`) {
			t.Errorf("%s: %d %s, want code %s", body, got.status, got.body, code)
		}
	}
	for _, request := range []string{`"GetTask","params":{"id":"x"}`, `"SendMessage","params":` + message("hi", "")} {
		if got := w.do("POST", "/v/echo", `{"jsonrpc":"2.0","method":`+request+`}`); got.status != 204 || got.body != "" {
			t.Errorf("the notification %s: %d %s", request, got.status, got.body)
		}
	}
}

// The vacant accepts every choice that the specification leaves to clients, and keeps
// every rule that the specification has for agents.
func TestDetailsOfTheWire(t *testing.T) {
	w := newWorld(t)
	w.create("sut", "conformance")
	if got := w.do("POST", "/v/echo", `{"jsonrpc":"2.0","id":1.0,"method":"SendMessage","params":`+message("hi", "")+`}`); !strings.Contains(got.body, `"id":1.0,"result"`) {
		t.Errorf("an id with a fraction of zero: %s", got.body)
	}
	if got := w.rpc("/v/sut", "SendMessage", `{"message":{"messageId":"tck-complete-task-1","role":"ROLE_USER","parts":[{"data":null}]}}`); at(t, got.body, "error") != "" {
		t.Errorf("data that is null: %s", got.body)
	}
	if got := w.rpc("/v/echo", "SendMessage", strings.TrimSuffix(message("hi", ""), "}")+`,"configuration":{"acceptedOutputModes":["Text/Plain; charset=utf-8"]}}`); at(t, got.body, "error") != "" {
		t.Errorf("a mode in other letters: %s", got.body)
	}
	waiting := w.sends("sut", "tck-input-required-1", "one", "")
	conversation := at(t, waiting.body, "result", "task", "contextId")
	for artifacts, want := range map[bool]bool{true: true, false: false} {
		got := w.rpc("/v/sut", "ListTasks", fmt.Sprintf(`{"contextId":%q,"includeArtifacts":%t}`, conversation, artifacts))
		if at(t, got.body, "result", "totalSize") != "1" || strings.Contains(got.body, `"artifacts":[]`) != want {
			t.Errorf("with artifacts %t: %s", artifacts, got.body)
		}
	}
	for _, tt := range []struct{ accept, body, want string }{
		{"", "", "application/a2a+json"}, {"application/json", "", "application/json"}, {"text/html, application/json;q=0.9, application/a2a+json", "", "application/a2a+json"},
		{"*/*", "application/json", "application/json"}, {"*/*", "application/a2a+json", "application/a2a+json"},
	} {
		headers := []string{"Accept: " + tt.accept}
		method, path, body := "GET", "/v/echo/tasks", ""
		if tt.body != "" {
			method, path, body = "POST", "/v/echo/message:send", message("hi", "")
			headers = append(headers, "Content-Type: "+tt.body)
		}
		if got := w.do(method, path, body, headers...); got.status != 200 || got.header.Get("Content-Type") != tt.want {
			t.Errorf("%+v: %d of %s", tt, got.status, got.header.Get("Content-Type"))
		}
	}
	one, other := w.do("GET", "/v/sut", "", "A2A-Version: 1.0"), w.do("GET", "/v/sut?A2A-Version=1.0", "")
	if one.body != other.body {
		t.Errorf("the card by the version in a header is\n%s\nand in the query\n%s", one.body, other.body)
	}
}
