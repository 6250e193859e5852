package a2a_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/readproof"
)

// each refusal of JSON-RPC, by the request.
var refusals = []struct {
	name, body string
	code       string
	says       string
}{
	{"no JSON", `{`, "-32700", "the body does not decode"},
	{"text after JSON", `{"jsonrpc":"2.0","id":1,"method":"GetTask"} x`, "-32700", "the body does not decode"},
	{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"GetTask"}]`, "-32600", "expected one JSON-RPC request"},
	{"a number", `5`, "-32600", "expected one JSON-RPC request"},
	{"a bare message", `{"message":{"parts":[{"text":"hi"}]}}`, "-32600", "or append /message:send to this address to POST {\"message\":…}, or /text to POST plain text"},
	{"no version", `{"id":1,"method":"GetTask"}`, "-32600", `jsonrpc: expected "2.0"`},
	{"version 1.0", `{"jsonrpc":"1.0","id":1,"method":"GetTask"}`, "-32600", `jsonrpc: expected "2.0"`},
	{"a number as version", `{"jsonrpc":2.0,"id":1,"method":"GetTask"}`, "-32600", `jsonrpc: expected "2.0"`},
	{"an object as id", `{"jsonrpc":"2.0","id":{},"method":"GetTask"}`, "-32600", "expected a string or a number"},
	{"a member twice", `{"jsonrpc":"2.0","id":1,"method":"GetTask","method":"GetTask"}`, "-32600", "method: expected the key once"},
	{"no method", `{"jsonrpc":"2.0","id":1}`, "-32600", "method: expected a string"},
	{"a number as method", `{"jsonrpc":"2.0","id":1,"method":7}`, "-32601", "method: expected a string"},
	{"an unknown method", `{"jsonrpc":"2.0","id":1,"method":"tasks/gets"}`, "-32601", `"tasks/gets" does not exist`},
	{"parameters that are an array", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[]}`, "-32602", "expected an object of parameters"},
	{"no task's id", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{}}`, "-32602", "id: expected the id of a task"},
	{"no parameters", `{"jsonrpc":"2.0","id":1,"method":"SendMessage"}`, "-32602", "message: expected a message, got none"},
	{"a negative length", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x","historyLength":-1}}`, "-32602", "historyLength: expected at least 0, got -1"},
	{"an unknown task", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}`, "-32001", "task not found"},
	{"cancel an unknown task", `{"jsonrpc":"2.0","id":1,"method":"tasks/cancel","params":{"id":"x"}}`, "-32001", "task not found"},
	{"follow an unknown task", `{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"x"}}`, "-32001", "task not found"},
	{"a message for an unknown task", send(`{"message":{"taskId":"x","role":"ROLE_USER","parts":[{"text":"a"}]}}`), "-32001", "task not found"},
	{"a page of 0", `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{"pageSize":0}}`, "-32602", "pageSize: expected 1 to 100, got 0"},
	{"a page of 101", `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{"page_size":101}}`, "-32602", "pageSize: expected 1 to 100, got 101"},
	{"an unknown state", `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{"status":"working"}}`, "-32602", "status: expected a state of a task"},
	{"a time that is none", `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{"statusTimestampAfter":"yesterday"}}`, "-32602", "statusTimestampAfter"},
	{"both spellings", send(`{"message":{"messageId":"a","message_id":"b","role":"ROLE_USER","parts":[{"text":"a"}]}}`), "-32602", "messageId: expected one spelling"},
	{"a role of 0.3 in 1.0", send(`{"message":{"role":"user","parts":[{"text":"a"}]}}`), "-32602", "role: expected ROLE_USER or ROLE_AGENT"},
	{"the role of an agent", send(`{"message":{"role":"ROLE_AGENT","parts":[{"text":"a"}]}}`), "-32602", "role: expected the role of a user"},
	{"no parts", send(`{"message":{"role":"ROLE_USER","parts":[]}}`), "-32602", "parts: expected at least one part"},
	{"a part of two kinds", send(`{"message":{"role":"ROLE_USER","parts":[{"text":"a","url":"b"}]}}`), "-32602", "exactly one of text, raw, url, data"},
	{"a part of no kind", send(`{"message":{"role":"ROLE_USER","parts":[{"kind":"text"}]}}`), "-32602", "exactly one of text, raw, url, data"},
	{"a part that is a text", send(`{"message":{"role":"ROLE_USER","parts":["a"]}}`), "-32602", "parts[0]"},
	{"base64 that is none", send(`{"message":{"role":"ROLE_USER","parts":[{"raw":"%"}]}}`), "-32602", "base64"},
	{"metadata that is a text", send(`{"message":{"role":"ROLE_USER","parts":[{"text":"a"}],"metadata":"x"}}`), "-32602", "message.metadata"},
	{"too many parts", send(`{"message":{"role":"ROLE_USER","parts":[` + strings.Repeat(`{"text":"a"},`, 64) + `{"text":"a"}]}}`), "-32602", "parts: expected at most 64"},
	{"a long id", send(`{"message":{"messageId":"` + strings.Repeat("x", 513) + `","role":"ROLE_USER","parts":[{"text":"a"}]}}`), "-32602", "messageId: expected at most 512 bytes"},
	{"a file", send(`{"message":{"role":"ROLE_USER","parts":[{"raw":"YQ=="}]}}`), "-32005", "parts[0]: this agent reads text, got raw"},
	{"output of images", send(`{"message":{"role":"ROLE_USER","parts":[{"text":"a"}]},"configuration":{"acceptedOutputModes":["image/png"]}}`), "-32005", "acceptedOutputModes"},
	{"a push URL", send(`{"message":{"role":"ROLE_USER","parts":[{"text":"a"}]},"configuration":{"taskPushNotificationConfig":{"url":"http://example.com/"}}}`), "-32602", "url: expected an https URL"},
	{"an envelope that is none", send(`{"message":{"role":"ROLE_USER","parts":[{"text":"a"}],"metadata":{"urn:vacant:v1":5}}}`), "-32602", "urn:vacant:v1"},
	{"a role of 1.0 in 0.3", send03(`{"message":{"role":"ROLE_USER","parts":[{"kind":"text","text":"a"}]}}`), "-32602", "role: expected user or agent"},
	{"no id of the message in 0.3", send03(`{"message":{"role":"user","parts":[{"kind":"text","text":"a"}]}}`), "-32602", "messageId: expected an id that the client creates"},
	{"a part of 1.0 in 0.3", send03(`{"message":{"role":"user","parts":[{"text":"a"}]}}`), "-32602", "kind"},
	{"an unknown kind in 0.3", send03(`{"message":{"role":"user","parts":[{"kind":"video","text":"a"}]}}`), "-32602", "kind"},
	{"a file with two contents in 0.3", send03(`{"message":{"role":"user","parts":[{"kind":"file","file":{"bytes":"YQ==","uri":"a"}}]}}`), "-32602", "kind"},
	{"another kind of message in 0.3", send03(`{"message":{"kind":"task","role":"user","parts":[{"kind":"text","text":"a"}]}}`), "-32602", "kind: expected message"},
	{"push config", `{"jsonrpc":"2.0","id":1,"method":"tasks/pushNotificationConfig/set","params":{}}`, "-32602", "taskId: expected the id of a task"},
	{"push config of an unknown task", `{"jsonrpc":"2.0","id":1,"method":"CreateTaskPushNotificationConfig","params":{"taskId":"x","url":"http://127.0.0.1/"}}`, "-32001", "task not found"},
	{"push configs of an unknown task", `{"jsonrpc":"2.0","id":1,"method":"ListTaskPushNotificationConfigs","params":{"taskId":"x"}}`, "-32001", "task not found"},
	{"a header in a token", `{"jsonrpc":"2.0","id":1,"method":"CreateTaskPushNotificationConfig","params":{"taskId":"x","url":"http://127.0.0.1/","token":"a\r\nX-Evil: 1"}}`, "-32602", "token: expected at most 2048 printable"},
	{"a header in credentials", `{"jsonrpc":"2.0","id":1,"method":"CreateTaskPushNotificationConfig","params":{"taskId":"x","url":"http://127.0.0.1/","authentication":{"scheme":"Bearer","credentials":"a\nb"}}}`, "-32602", "authentication.credentials"},
	{"push to a private address", `{"jsonrpc":"2.0","id":1,"method":"CreateTaskPushNotificationConfig","params":{"taskId":"x","url":"https://10.0.0.1/"}}`, "-32602", "url: expected a public address"},
	{"push to the metadata of a machine", `{"jsonrpc":"2.0","id":1,"method":"CreateTaskPushNotificationConfig","params":{"taskId":"x","url":"https://169.254.169.254/latest"}}`, "-32602", "url: expected a public address"},
	{"push with a user", `{"jsonrpc":"2.0","id":1,"method":"CreateTaskPushNotificationConfig","params":{"taskId":"x","url":"https://a:b@example.com/"}}`, "-32602", "url:"},
	{"extended card", `{"jsonrpc":"2.0","id":1,"method":"agent/getAuthenticatedExtendedCard"}`, "-32007", "no extended card"},
}

func send(params string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":` + params + `}`
}

func send03(params string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"message/send","params":` + params + `}`
}

// A detail that decides nothing costs no answer, and a client finds its answer by the bytes of its id.
func TestDetailsCostNoAnswer(t *testing.T) {
	w := newWorld(t)
	const details = `"odd":"\ud800","odd":{"a":1,"a":1e999},`
	message1 := `{"message":{` + details + `"messageId":"%s","contextId":null,"role":"ROLE_USER","parts":[{"text":"a",` + details + `"metadata":null}]},"configuration":{"historyLength":1.0,"acceptedOutputModes":null},"metadata":null}`
	message03 := `{"message":{` + details + `"messageId":"%s","role":"user","parts":[{"kind":"text","text":"a"}]},"configuration":{"historyLength":1e0,"blocking":null}}`
	for i, id := range []string{"1732796400123456789", "9223372036854775808", "1.0", "1e2", "-0", `"\u00e9"`, "null"} {
		for method, message := range map[string]string{"SendMessage": message1, "SendStreamingMessage": message1, "message/send": message03, "message/stream": message03, "GetTask": `{"id":"none%s"}`} {
			got := w.do("POST", "/v/echo", `{`+details+`"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`","params":`+fmt.Sprintf(message, fmt.Sprint(method, i))+`}`)
			if !strings.Contains(got.body, `{"jsonrpc":"2.0","id":`+id+`,`) || strings.Contains(got.body, `"error"`) != (method == "GetTask") || method == "SendMessage" && strings.Count(got.body, `"messageId"`) < 1 {
				t.Errorf("%s with the id %s: %d %s", method, id, got.status, got.body)
			}
		}
	}
	if got := w.do("POST", "/v/echo/message:send", fmt.Sprintf("{"+details+message1[1:], "rest")); got.status != 200 || !strings.Contains(got.body, "TASK_STATE_COMPLETED") {
		t.Errorf("REST: %d %s", got.status, got.body)
	}
	if got := w.do("POST", "/v/echo/tasks/none:cancel", `{"odd":"\ud800","metadata":null}`); got.status != 404 {
		t.Errorf("REST with a task: %d %s", got.status, got.body)
	}
	for body, want := range map[string]string{
		`{"message":{"role":"ROLE_USER","parts":[{"text":"a"}],"metadata":{"a":"\ud800"}}}`:             "whole characters",
		`{"message":{"role":"ROLE_USER","parts":[{"text":"a"}],"metadata":{"a":1,"a":2}}}`:              "the key once",
		`{"message":{"role":"ROLE_USER","parts":[{"text":"\ud800"}]}}`:                                  "whole characters",
		`{"message":{"role":"ROLE_USER","role":"ROLE_USER","parts":[{"text":"a"}]}}`:                    "one spelling",
		`{"message":{"role":"ROLE_USER","parts":[{"text":"a"}]},"configuration":{"historyLength":1.5}}`: "expected an integer",
		"\uFEFF" + `{"message":{"role":"ROLE_USER","parts":[{"text":"a"}]}}`:                            "",
	} {
		if got := w.do("POST", "/v/echo/message:send", body); got.status != 400 || !strings.Contains(got.body, want) {
			t.Errorf("%s: %d %s, want %q", body, got.status, got.body, want)
		}
	}
}

func TestEachBadRequestIsRefusedWithItsReason(t *testing.T) {
	w := newWorld(t)
	for _, r := range refusals {
		got := w.do("POST", "/v/echo", r.body)
		got.body = refused(got.body)
		if got.status != 200 || at(t, got.body, "error", "code") != r.code || !strings.Contains(at(t, got.body, "error", "message"), r.says) {
			t.Errorf("%s: %d %s, want code %s and %q", r.name, got.status, got.body, r.code, r.says)
		}
		if at(t, got.body, "error", "data", 0, "domain") != "a2a-protocol.org" {
			t.Errorf("%s: no ErrorInfo in %s", r.name, got.body)
		}
	}
}

func TestErrorsOfHTTP(t *testing.T) {
	w := newWorld(t)
	ok := send(message("hi", ""))
	for name, tt := range map[string]struct {
		method, path, body, header string
		status                     int
	}{
		"a text":                      {"POST", "/v/echo", ok, "Content-Type: text/plain", 415},
		"an encoded body":             {"POST", "/v/echo", ok, "Content-Encoding: gzip", 415},
		"a large body":                {"POST", "/v/echo", strings.Repeat(" ", 346<<10) + ok, "", 413},
		"another method":              {"PUT", "/v/echo", ok, "", 405},
		"POST of the card":            {"POST", "/v/echo/.well-known/agent-card.json", ok, "", 405},
		"GET of a send":               {"GET", "/v/echo/message:send", "", "", 405},
		"an unknown vacant":           {"POST", "/v/nobody", ok, "", 404},
		"an unknown id":               {"GET", "/v/" + strings.Repeat("0", 63) + "1", "", "", 404},
		"an unknown path":             {"GET", "/v/echo/nothing", "", "", 404},
		"0.3 by REST":                 {"POST", "/v/echo/v1/message:sends", ok, "", 404},
		"the media type of A2A":       {"POST", "/v/echo", ok, "Content-Type: application/a2a+json; charset=utf-8", 200},
		"a wrong proof":               {"POST", "/v/echo", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}}`, "Vacancy-Caller: " + strings.Repeat("0", 63) + "1;t=1;sig=" + strings.Repeat("0", 128), 200},
		"a path with a slash":         {"POST", "/v/echo/", ok, "", 200},
		"the only open vacant":        {"POST", "/", ok, "", 200},
		"the card of the only":        {"GET", "/.well-known/agent-card.json", "", "", 200},
		"a tenant before a REST path": {"POST", "/v/echo/acme/message:send", message("hi", ""), "", 200},
	} {
		var headers []string
		if tt.header != "" {
			headers = []string{tt.header}
		}
		got := w.do(tt.method, tt.path, tt.body, headers...)
		if got.status != tt.status {
			t.Errorf("%s: %d %s, want %d", name, got.status, got.body, tt.status)
		}
		if tt.status >= 400 && (at(t, got.body, "detail") == "" || at(t, got.body, "code") == "") {
			t.Errorf("%s: %s has no detail or code", name, got.body)
		}
	}
}

func TestVersions(t *testing.T) {
	w := newWorld(t)
	for version, code := range map[string]string{"": "", "1.0": "", "1.0.7": "", "0.3": "", "0.3.0": "", "0.2": "-32009", "2.0": "-32009", "x": "-32009", "1": "-32009"} {
		got := w.rpc("/v/echo", "SendMessage", message("hi", ""), "A2A-Version: "+version)
		if at(t, got.body, "error", "code") != code {
			t.Errorf("version %q: %s, want error %q", version, got.body, code)
		}
	}
	if got := w.do("GET", "/v/echo/tasks/x?A2A-Version=9.9", ""); got.status != 400 || at(t, got.body, "error", "details", 0, "reason") != "VERSION_NOT_SUPPORTED" {
		t.Errorf("a version in the query: %d %s", got.status, got.body)
	}
	if got := w.do("GET", "/v/echo/tasks/x", "", "A2A-Version: 0.3"); got.status != 400 {
		t.Errorf("REST of 0.3: %d %s", got.status, got.body)
	}
}

func TestWhatIsNotHereLooksTheSame(t *testing.T) {
	w := newWorld(t)
	firm := w.create("firm", "echo")
	child, _, err := w.server.Vacants.Spawn(t.Context(), vacants.SpawnSpec{Parent: firm.ID, Path: "D2", Name: "child", Capability: "y"})
	must(t, err)
	gone := w.create("gone", "echo")
	_, err = w.server.Vacants.Sink(t.Context(), gone.ID)
	must(t, err)
	_, err = w.server.Vacants.Archive(t.Context(), gone.ID)
	must(t, err)
	_, err = w.server.Vacants.Delete(t.Context(), gone.ID)
	must(t, err)
	body := send(message("hi", ""))
	for _, tt := range []struct{ name, method, path string }{
		{"closed child", "POST", "child"}, {"closed child by id", "POST", child.ID.String()}, {"deleted", "POST", "gone"}, {"deleted by id", "POST", gone.ID.String()},
		{"a path of a closed child", "POST", "child/nothing"}, {"a path of a vacant", "POST", "echo/nothing"},
		{"the card of a closed child", "GET", "child/.well-known/agent-card.json"}, {"its keys", "GET", "child/.well-known/jwks.json"},
		{"its tasks", "GET", "child/tasks"}, {"a message to it", "POST", "child/message:send"}, {"another method of it", "GET", "child/message:send"},
	} {
		_, below, _ := strings.Cut(tt.path, "/")
		want := w.do(tt.method, strings.TrimSuffix("/v/nobody/"+below, "/"), body)
		name, got := tt.name, w.do(tt.method, "/v/"+tt.path, body)
		for _, h := range []interface{ Del(string) }{got.header, want.header} {
			h.Del("Date")
		}
		if got.status != 404 || got.status != want.status || got.body != want.body || fmt.Sprint(got.header) != fmt.Sprint(want.header) {
			t.Errorf("%s: %d %s %v, want %d %s %v", name, got.status, got.body, got.header, want.status, want.body, want.header)
		}
	}
}

func TestStrangersWithOneContextShareNothing(t *testing.T) {
	w := newWorld(t)
	w.mind("mind")
	for i := range 2 {
		got := w.rpc("/v/mind", "SendMessage", message("secret", `,"contextId":"chat"`))
		if said := at(t, got.body, "result", "task", "status", "message", "parts", 0, "text"); said != "secret" {
			t.Errorf("message %d with a chosen context: the agent remembers %q", i, said)
		}
		if at(t, got.body, "result", "task", "contextId") != "chat" {
			t.Errorf("message %d: %s", i, got.body)
		}
		if got := w.rpc("/v/mind", "ListTasks", `{"contextId":"chat"}`); at(t, got.body, "result", "totalSize") != "0" || at(t, got.body, "result", "tasks") != "[]" {
			t.Errorf("tasks of a chosen context are listed: %s", got.body)
		}
	}
}

func TestAContextOfTheHostIsAConversation(t *testing.T) {
	w := newWorld(t)
	w.mind("mind")
	first := w.rpc("/v/mind", "SendMessage", message("one", ""))
	conversation := at(t, first.body, "result", "task", "contextId")
	second := w.rpc("/v/mind", "SendMessage", message("two", fmt.Sprintf(`,"contextId":%q`, conversation)))
	if said := at(t, second.body, "result", "task", "artifacts", 0, "parts", 0, "text"); said != "one+two" {
		t.Errorf("the agent remembers %q of its conversation", said)
	}
	got := w.rpc("/v/mind", "ListTasks", fmt.Sprintf(`{"contextId":%q}`, conversation))
	if at(t, got.body, "result", "totalSize") != "2" || at(t, got.body, "result", "tasks", 0, "id") != at(t, second.body, "result", "task", "id") ||
		at(t, got.body, "result", "tasks", 0, "artifacts") != "" || at(t, got.body, "result", "nextPageToken") != "" {
		t.Errorf("ListTasks: %s", got.body)
	}
	if got := w.rpc("/v/mind", "ListTasks", fmt.Sprintf(`{"contextId":%q,"includeArtifacts":true,"pageSize":1}`, conversation)); at(t, got.body, "result", "tasks", 0, "artifacts", 0, "artifactId") != "response" ||
		at(t, got.body, "result", "nextPageToken") == "" || at(t, got.body, "result", "pageSize") != "1" {
		t.Errorf("ListTasks with artifacts: %s", got.body)
	} else {
		for _, method := range []string{"ListTasks", "tasks/list"} {
			next := w.rpc("/v/mind", method, fmt.Sprintf(`{"contextId":%q,"pageSize":1,"pageToken":%q}`, conversation, at(t, got.body, "result", "nextPageToken")))
			if at(t, next.body, "result", "tasks", 0, "id") != at(t, first.body, "result", "task", "id") || at(t, next.body, "result", "nextPageToken") != "" {
				t.Errorf("the next page by %s: %s", method, next.body)
			}
		}
	}
	if got := w.rpc("/v/mind", "ListTasks", `{}`); at(t, got.body, "result", "totalSize") != "0" {
		t.Errorf("all tasks of all guests: %s", got.body)
	}
	// The same context of another vacant is another conversation.
	w.mind("other")
	other := w.rpc("/v/other", "SendMessage", message("three", fmt.Sprintf(`,"contextId":%q`, conversation)))
	if said := at(t, other.body, "result", "task", "artifacts", 0, "parts", 0, "text"); said != "three" {
		t.Errorf("another vacant remembers %q", said)
	}
	if got := w.rpc("/v/other", "GetTask", fmt.Sprintf(`{"id":%q}`, at(t, first.body, "result", "task", "id"))); at(t, got.body, "error", "code") != "-32001" {
		t.Errorf("another vacant has the task: %s", got.body)
	}
}

func TestHistoryLength(t *testing.T) {
	w := newWorld(t)
	for length, want := range map[string]string{"": "m1", `,"configuration":{"historyLength":0}`: "", `,"configuration":{"history_length":5}`: "m1"} {
		params := strings.TrimSuffix(message("hi", ""), "}") + length + "}"
		stream := frames(w.rpc("/v/echo", "SendStreamingMessage", params).body)
		for how, body := range map[string]string{"an answer": w.rpc("/v/echo", "SendMessage", params).body, "a stream": strings.TrimPrefix(stream[0], "1 ")} {
			if id := at(t, body, "result", "task", "history", 0, "messageId"); id != want {
				t.Errorf("%s with %s: the history begins with %q, want %q", how, length, id, want)
			}
		}
	}
}

func TestPlainSharedIsOneOwner(t *testing.T) {
	w := newWorld(t)
	w.setPlain(w.echo, vacants.KeylessShared)
	for range 3 {
		w.rpc("/v/echo", "SendMessage", message("hi", `,"contextId":"chat"`))
	}
	w.rpc("/v/echo", "SendMessage", message("hi", ""))
	if got := w.rpc("/v/echo", "ListTasks", `{}`); at(t, got.body, "result", "totalSize") != "4" {
		t.Errorf("all: %s", got.body)
	}
	if got := w.rpc("/v/echo", "ListTasks", `{"contextId":"chat"}`); at(t, got.body, "result", "totalSize") != "3" {
		t.Errorf("of a context: %s", got.body)
	}
}

func TestAStreamIsTheLog(t *testing.T) {
	w := newWorld(t)
	got := w.rpc("/v/echo", "SendStreamingMessage", message("hi", ""))
	if ct := got.header.Get("Content-Type"); got.status != 200 || ct != "text/event-stream" {
		t.Fatalf("%d %s %s", got.status, ct, got.body)
	}
	all := frames(got.body)
	if len(all) != 4 || !strings.HasPrefix(all[0], `1 {"jsonrpc":"2.0","id":1,"result":{"task":`) || !strings.Contains(all[2], `"lastChunk":true`) || !strings.HasPrefix(all[3], `4 {"jsonrpc":"2.0","id":1,"result":{"statusUpdate":`) {
		t.Fatalf("frames:\n%s", strings.Join(all, "\n"))
	}
	id := at(t, strings.TrimPrefix(all[0], "1 "), "result", "task", "id")
	ended := fmt.Sprintf(`{"id":%q}`, id)
	if got := w.rpc("/v/echo", "SubscribeToTask", ended); at(t, got.body, "error", "code") != "-32004" {
		t.Errorf("subscribe to a task that has ended: %s", got.body)
	}
	again := frames(w.rpc("/v/echo", "SubscribeToTask", ended, "Last-Event-ID: 1").body)
	if strings.Join(again, "\n") != strings.Join(all[1:], "\n") {
		t.Errorf("after event 1:\n%s\nwant\n%s", strings.Join(again, "\n"), strings.Join(all[1:], "\n"))
	}
	for last, code := range map[string]string{"4": "-32004", "5": "-32602", "-1": "-32602", "x": "-32602"} {
		if got := w.rpc("/v/echo", "SubscribeToTask", ended, "Last-Event-ID: "+last); at(t, got.body, "error", "code") != code {
			t.Errorf("Last-Event-ID %s: %s", last, got.body)
		}
	}
	if got := w.do("POST", "/v/echo/message:stream", message("hi", "")); len(frames(got.body)) != 4 || !strings.HasPrefix(frames(got.body)[0], `1 {"task":`) {
		t.Errorf("by REST: %s", got.body)
	}
}

// A caller that proves its key reads its tasks. TestAReplayFindsNoTaskButItsOwn sends messages again, and
// TestOthersTasksAreNotFoundByAnyMethod reads as others.
func TestASignedCallerReadsItsTasks(t *testing.T) {
	w := newWorld(t)
	s := w.signer()
	first := w.rpc("/v/echo", "SendMessage", params1(s.envelope(w.echo.ID, 1, identity.Hash{}, "hi", "m1", "c1"), ""))
	id := at(t, first.body, "result", "task", "id")
	// The answer has the vacant's envelope, over the ids that the message shows.
	reply := at(t, first.body, "result", "task", "status", "message", "metadata", a2awire.Extension)
	if at(t, reply, "from_vacant_id") != w.echo.ID.String() || at(t, reply, "to_vacant_id") != s.key.ID().String() {
		t.Errorf("the answer's envelope is %q", reply)
	}
	read := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":%q}}`, id)
	if got := w.do("POST", "/v/echo", read, readproof.Header+": "+s.proof("POST", "/v/echo", read)); at(t, got.body, "result", "id") != id {
		t.Errorf("its caller reads %s", got.body)
	}
	// A proof for another body proves nothing.
	if got := w.do("POST", "/v/echo", read, readproof.Header+": "+s.proof("POST", "/v/echo", read+" ")); got.status != 401 || got.header.Get("WWW-Authenticate") == "" {
		t.Errorf("a proof of another body: %d %s", got.status, got.body)
	}
	if got := w.do("GET", "/v/echo/tasks", "", readproof.Header+": "+s.proof("GET", "/v/echo/tasks", "")); at(t, got.body, "totalSize") != "1" {
		t.Errorf("its tasks: %s", got.body)
	}
}

// proof is the header by which a caller shows who it is.
func (s signed) proof(method, target, body string) string {
	s.w.t.Helper()
	p, err := readproof.Sign(s.w.t.Context(), s.key, readproof.Request{
		Authority: strings.TrimPrefix(s.w.http.URL, "http://"), Method: method, Target: target, Body: []byte(body),
	}, time.Now())
	if err != nil {
		s.w.t.Fatal(err)
	}
	return p
}

func TestAnEnvelopeCoversTheMessageItIsIn(t *testing.T) {
	w := newWorld(t)
	s := w.signer()
	e := s.envelope(w.echo.ID, 1, identity.Hash{}, "hi", "m1", "c1")
	good := params1(e, "")
	for name, tt := range map[string]struct{ body, code string }{
		"another text":       {strings.Replace(good, `"text":"hi"`, `"text":"ho"`, 1), "401"},
		"another message id": {strings.Replace(good, `"messageId":"m1"`, `"messageId":"m2"`, 1), "401"},
		"another context":    {strings.Replace(good, `"contextId":"c1"`, `"contextId":"c2"`, 1), "401"},
		"no context":         {strings.Replace(good, `,"contextId":"c1"`, ``, 1), "401"},
		"another sequence":   {strings.Replace(good, `"sequence_no":1`, `"sequence_no":2`, 1), "401"},
		"another vacant":     {strings.Replace(good, w.echo.ID.String(), strings.Repeat("0", 63)+"1", 1), "404"},
		"a member missing":   {strings.Replace(good, `"sequence_no":1,`, ``, 1), "-32602"},
	} {
		got := w.rpc("/v/echo", "SendMessage", tt.body)
		code := fmt.Sprint(got.status)
		if got.status == 200 {
			code = at(t, got.body, "error", "code")
		}
		if code != tt.code && !(name == "another vacant" && (code == "401" || code == "421")) {
			t.Errorf("%s: %d %s, want %s", name, got.status, got.body, tt.code)
		}
	}
	if got := w.rpc("/v/echo", "SendMessage", good); at(t, got.body, "result", "task", "status", "state") != "TASK_STATE_COMPLETED" {
		t.Fatalf("the message itself: %s", got.body)
	}
	// Out of order, the refusal says what the signed path says.
	late := s.envelope(w.echo.ID, 5, identity.Hash{}, "hi", "m1", "c1")
	got := w.rpc("/v/echo", "SendMessage", params1(late, ""))
	info := at(t, got.body, "error", "data", 0)
	if at(t, got.body, "error", "code") != "-32602" || at(t, info, "reason") != "GAP" || at(t, info, "metadata", "expected_seq") != "2" ||
		at(t, info, "metadata", "chain_tip") != e.Hash().String() {
		t.Errorf("a gap: %s", got.body)
	}
	if got := w.do("POST", "/v/echo/message:send", params1(late, "")); got.status != 409 {
		t.Errorf("a gap by REST: %d %s", got.status, got.body)
	}
}

func TestSignedMessagesOf03AndOfTheSignedPathShareAChain(t *testing.T) {
	w := newWorld(t)
	s := w.signer()
	first := s.envelope(w.echo.ID, 1, identity.Hash{}, "hi", "m1", "")
	in03 := strings.NewReplacer(`"ROLE_USER"`, `"user"`, `{"text":`, `{"kind":"text","text":`).Replace(params1(first, ""))
	got := w.rpc("/v/echo", "message/send", in03)
	if at(t, got.body, "result", "status", "state") != "completed" || at(t, got.body, "result", "status", "message", "metadata", a2awire.Extension, "sequence_no") != "1" {
		t.Fatalf("0.3: %s", got.body)
	}
	second := s.envelope(w.echo.ID, 2, first.Hash(), "again", "m2", "")
	own := `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":` + strings.NewReplacer(`{"text":`, `{"type":"text","text":`).Replace(message1(second, `,"contextId":null`)) + `}}`
	// POST / takes the vacant's own form as the signed path does.
	if got := w.do("POST", "/", own); got.status != 200 || at(t, got.body, "result", "message", "metadata", a2awire.Extension, "sequence_no") != "2" {
		t.Errorf("the own form at /: %d %s", got.status, got.body)
	}
	third := s.envelope(w.echo.ID, 3, second.Hash(), "more", "m3", "")
	if got := w.rpc("/v/echo", "SendMessage", params1(third, "")); at(t, got.body, "result", "task", "status", "state") != "TASK_STATE_COMPLETED" {
		t.Errorf("1.0: %s", got.body)
	}
}

func TestExtensionsAreEchoedAndEnvelopesShownToWhoListsThem(t *testing.T) {
	w := newWorld(t)
	for header, value := range map[string]string{"A2A-Extensions": "urn:other, " + a2awire.Extension, "X-A2A-Extensions": a2awire.Extension} {
		got := w.rpc("/v/echo", "SendMessage", message("hi", ""), header+": "+value)
		if got.header.Get(header) != a2awire.Extension || at(t, got.body, "result", "task", "status", "message", "metadata", a2awire.Extension, "from_vacant_id") != w.echo.ID.String() {
			t.Errorf("%s: %v %s", header, got.header, got.body)
		}
	}
	if got := w.rpc("/v/echo", "SendMessage", message("hi", "")); got.header.Get("A2A-Extensions") != "" || at(t, got.body, "result", "task", "status", "message", "metadata") != "" {
		t.Errorf("without it: %v %s", got.header, got.body)
	}
}

func TestMetadataKeepsItsDigits(t *testing.T) {
	w := newWorld(t)
	const metadata = `{"n":9007199254740993,"f":0.10000000000000000555,"nested":{"a":[null,1e400]}}`
	more := `,"metadata":` + strings.Replace(metadata, `1e400`, `1`, 1)
	got := w.rpc("/v/echo", "SendMessage", message("hi", more))
	id := at(t, got.body, "result", "task", "id")
	read := w.rpc("/v/echo", "tasks/get", fmt.Sprintf(`{"id":%q}`, id))
	if !strings.Contains(read.body, strings.TrimPrefix(more, ",")) {
		t.Errorf("metadata came back as %s", read.body)
	}
}

func TestHarborsDialect(t *testing.T) {
	w := newWorld(t)
	const agent = "User-Agent: harbor-a2a/1.0"
	card := w.do("GET", "/.well-known/agent-card.json", "", agent)
	if at(t, card.body, "supported_interfaces", 0, "protocol_binding") != "JSONRPC" || at(t, card.body, "supportedInterfaces") != "" || at(t, card.body, "version") == "" {
		t.Errorf("its card: %s", card.body)
	}
	got := w.rpc("/v/echo", "message/send", `{"message":{"message_id":"m1","role":"ROLE_USER","parts":[{"text":"hi"}]},"tenant":"t"}`, agent, "X-Harbor-Tenant: someone")
	if at(t, got.body, "result", "task", "status", "state") != "TASK_STATE_COMPLETED" || at(t, got.body, "result", "task", "context_id") == "" {
		t.Errorf("send: %s", got.body)
	}
	if got := w.rpc("/v/echo", "tasks/get", `{"id":"x"}`, agent); at(t, got.body, "error", "code") != "1" {
		t.Errorf("not found: %s", got.body)
	}
	for method, params := range map[string]string{"tasks/resubscribe": `{"id":"x"}`, "message/stream": `{"message":{"message_id":"m","task_id":"x","role":"ROLE_USER","parts":[{"text":"a"}]}}`} {
		if got := w.rpc("/v/echo", method, params, agent); at(t, got.body, "error", "code") != "1" {
			t.Errorf("%s of a task that is not there: %s", method, got.body)
		}
	}
	stream := frames(w.rpc("/v/echo", "message/stream", `{"message":{"message_id":"m1","role":"ROLE_USER","parts":[{"text":"hi"}]}}`, agent).body)
	if len(stream) != 4 || !strings.HasPrefix(stream[3], `4 {"status_update":{"task_id":`) {
		t.Errorf("stream:\n%s", strings.Join(stream, "\n"))
	}
}

func TestCardsAreCached(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/v/echo", "/v/echo/", "/v/" + w.echo.ID.String(), "/v/echo/.well-known/agent-card.json", "/v/echo/.well-known/agent.json", "/.well-known/agent-card.json"} {
		got := w.do("GET", path, "")
		etag, modified := got.header.Get("ETag"), got.header.Get("Last-Modified")
		if got.status != 200 || at(t, got.body, "name") != "echo" || etag == "" || modified == "" ||
			got.header.Get("Cache-Control") != "public, max-age=60" || got.header.Get("Vary") != "A2A-Version, User-Agent" {
			t.Errorf("%s: %d %v %s", path, got.status, got.header, got.body)
		}
		for _, condition := range []string{"If-None-Match: " + etag, "If-Modified-Since: " + modified} {
			if got := w.do("GET", path, "", condition); got.status != 304 || got.body != "" {
				t.Errorf("%s with %s: %d", path, condition, got.status)
			}
		}
	}
	pure := w.do("GET", "/v/echo", "", "A2A-Version: 1.0")
	for _, member := range []string{"url", "protocolVersion", "preferredTransport", "additionalInterfaces"} {
		if at(t, pure.body, member) != "" {
			t.Errorf("the card of 1.0 alone has %s", member)
		}
	}
	name := "renamed"
	_, err := w.server.Vacants.Update(t.Context(), w.echo.ID, vacants.Changes{Name: &name})
	must(t, err)
	if got := w.do("GET", "/v/"+w.echo.ID.String(), ""); at(t, got.body, "name") != name {
		t.Errorf("after a change: %s", got.body)
	}
}

// What a signed caller's task is to others: not found, by any method of any dialect,
// in the bytes that name a task which nobody has.
func TestOthersTasksAreNotFoundByAnyMethod(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	owner, other := w.signer(), w.signer()
	sent := w.rpc("/v/echo", "SendMessage", params1(owner.envelope(w.echo.ID, 1, identity.Hash{}, "hi", "m1", "c1"), ""))
	id := at(t, sent.body, "result", "task", "id")
	if id == "" {
		t.Fatalf("the owner's message: %s", sent.body)
	}
	nobodys := strings.Repeat("0", len(id))
	rpc := func(method, params string) [3]string {
		return [3]string{"POST", "/v/echo", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)}
	}
	hook := r.URL + "/hook"
	requests := [][3]string{
		rpc("GetTask", `{"id":"ID"}`), rpc("CancelTask", `{"id":"ID"}`), rpc("SubscribeToTask", `{"id":"ID"}`),
		rpc("CreateTaskPushNotificationConfig", `{"taskId":"ID","url":"`+hook+`"}`), rpc("GetTaskPushNotificationConfig", `{"taskId":"ID","id":"c"}`),
		rpc("ListTaskPushNotificationConfigs", `{"taskId":"ID"}`), rpc("DeleteTaskPushNotificationConfig", `{"taskId":"ID","id":"c"}`),
		rpc("SendMessage", message("more", `,"taskId":"ID"`)), rpc("SendStreamingMessage", message("more", `,"taskId":"ID"`)),
		rpc("tasks/get", `{"id":"ID"}`), rpc("tasks/cancel", `{"id":"ID"}`), rpc("tasks/resubscribe", `{"id":"ID"}`),
		rpc("tasks/pushNotificationConfig/set", `{"taskId":"ID","pushNotificationConfig":{"url":"`+hook+`"}}`), rpc("tasks/pushNotificationConfig/get", `{"id":"ID"}`),
		rpc("tasks/pushNotificationConfig/list", `{"id":"ID"}`), rpc("tasks/pushNotificationConfig/delete", `{"id":"ID","pushNotificationConfigId":"c"}`),
		rpc("message/send", `{"message":{"messageId":"m","role":"user","taskId":"ID","parts":[{"kind":"text","text":"more"}]}}`),
		rpc("message/stream", `{"message":{"messageId":"m","role":"user","taskId":"ID","parts":[{"kind":"text","text":"more"}]}}`),
		{"GET", "/v/echo/tasks/ID", ""}, {"POST", "/v/echo/tasks/ID:cancel", "{}"}, {"GET", "/v/echo/tasks/ID:subscribe", ""},
		{"POST", "/v/echo/tasks/ID/pushNotificationConfigs", `{"url":"` + hook + `"}`}, {"GET", "/v/echo/tasks/ID/pushNotificationConfigs", ""},
		{"GET", "/v/echo/tasks/ID/pushNotificationConfigs/c", ""}, {"DELETE", "/v/echo/tasks/ID/pushNotificationConfigs/c", ""},
		{"POST", "/v/echo/message:send", message("more", `,"taskId":"ID"`)}, {"POST", "/v/echo/message:stream", message("more", `,"taskId":"ID"`)},
	}
	for _, q := range requests {
		for name, who := range map[string]*signed{"a guest": nil, "another signed caller": &other} {
			if who != nil && strings.Contains(q[2], "more") {
				continue // a message is signed by its envelope, not by a proof
			}
			ask := func(id string) answer {
				path, body := strings.ReplaceAll(q[1], "ID", id), strings.ReplaceAll(q[2], "ID", id)
				var headers []string
				if who != nil {
					headers = append(headers, readproof.Header+": "+who.proof(q[0], path, body))
				}
				return w.do(q[0], path, body, headers...)
			}
			got, want := ask(id), ask(nobodys)
			if got.status != want.status || strings.ReplaceAll(got.body, id, nobodys) != want.body {
				t.Errorf("%s, %s %s %s: %d %s, of a task that is not there %d %s", name, q[0], q[1], q[2], got.status, got.body, want.status, want.body)
			}
			if !strings.Contains(got.body, "TASK_NOT_FOUND") {
				t.Errorf("%s, %s %s %s: %d %s", name, q[0], q[1], q[2], got.status, got.body)
			}
		}
	}
	if w.turns.Load() != 0 {
		t.Errorf("the model was asked %d times", w.turns.Load())
	}
}

// The turn goes on whether its client leaves, or stays and reads nothing.
func TestAClientThatLeavesOrDoesNotReadStopsNothing(t *testing.T) {
	t.Parallel()
	for _, leaves := range []bool{true, false} {
		w := newWorld(t)
		w.create("sut", "conformance")
		q, err := http.NewRequestWithContext(t.Context(), "POST", w.http.URL+"/v/sut/message:stream",
			strings.NewReader(`{"message":{"messageId":"test-resubscribe-message-id","role":"ROLE_USER","parts":[{"text":"x"}]}}`))
		must(t, err)
		q.Header.Set("Content-Type", "application/json")
		got, err := http.DefaultClient.Do(q)
		must(t, err)
		first, err := bufio.NewReader(got.Body).ReadString('}') // up to the first event's first object
		must(t, err)
		_, id, _ := strings.Cut(first, `"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		if leaves {
			must(t, got.Body.Close())
		}
		defer got.Body.Close()
		state := ""
		await.Until(t, "the task has ended", func() bool {
			state = at(t, w.do("GET", "/v/sut/tasks/"+id, "").body, "status", "state")
			return state != "TASK_STATE_WORKING"
		})
		if state != "TASK_STATE_COMPLETED" {
			t.Errorf("leaves %v: the task %q is %q", leaves, id, state)
		}
	}
}

func TestABodyOfANamedTaskIsOptionalButAnObject(t *testing.T) {
	w := newWorld(t)
	id := at(t, w.rpc("/v/echo", "SendMessage", message("hi", "")).body, "result", "task", "id")
	for body, want := range map[string]string{
		"": "TASK_NOT_CANCELABLE", "{}": "TASK_NOT_CANCELABLE", `{"id":"another","metadata":{"why":"late"}}`: "TASK_NOT_CANCELABLE",
		"5": "INVALID_ARGUMENT", "[]": "INVALID_ARGUMENT", "{": "INVALID_ARGUMENT",
	} {
		if got := w.do("POST", "/v/echo/tasks/"+id+":cancel", body); !strings.Contains(got.body, want) {
			t.Errorf("%q: %d %s, want %s", body, got.status, got.body, want)
		}
	}
}

func TestAStreamOutlivesTheLimitForItsRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("sut", "conformance")
	w.serveAs(func(s *http.Server) { s.ReadTimeout, s.WriteTimeout = 300*time.Millisecond, 300*time.Millisecond })
	sent := w.rpc("/v/sut", "SendMessage", `{"message":{"messageId":"test-resubscribe-message-id","role":"ROLE_USER","parts":[{"text":"x"}]},"configuration":{"returnImmediately":true}}`)
	id := at(t, sent.body, "result", "task", "id")
	got := w.do("GET", "/v/sut/tasks/"+id+":subscribe", "")
	if all := frames(got.body); len(all) < 2 || !strings.Contains(all[len(all)-1], "TASK_STATE_COMPLETED") {
		t.Errorf("%d %s", got.status, got.body)
	}
}
