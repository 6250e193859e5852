package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
)

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

// modernList is a request of the newest revision.
func modernRequest(method, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}%s}}`, method, more)
}

const newest = "Mcp-Protocol-Version: 2026-07-28"

// Each request that the library would take, or refuse in a form that clients do not show, is answered
// by an error of JSON-RPC.
func TestWhatIsNotMCPIsRefusedInJSONRPC(t *testing.T) {
	w := newWorld(t)
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	batch := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(list+",", n), ",") + "]" }
	for _, tt := range []struct {
		name, method, body string
		headers            []string
		status             int
		want               string
	}{
		{"GET", "GET", "", []string{accepts}, 405, "GET is not allowed here; use POST"},
		{"DELETE", "DELETE", "", []string{accepts}, 405, "use POST"},
		{"no Accept", "POST", list, nil, 200, `"tools":[`},
		{"an empty Accept", "POST", list, []string{"Accept: "}, 200, `"tools":[`},
		{"only JSON", "POST", list, []string{"Accept: application/json"}, 200, `{"jsonrpc":"2.0","id":1,"result"`},
		{"only events", "POST", list, []string{"Accept: text/event-stream"}, 200, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\""},
		{"an unknown method and only events", "POST", `{"jsonrpc":"2.0","id":1,"method":"make/tea"}`, []string{"Accept: text/event-stream", legacy}, 200, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601"},
		{"events by their weight", "POST", list, []string{"Accept: application/json; q=0.0, text/event-stream;q=0.1"}, 200, "event: message"},
		{"neither form", "POST", list, []string{"Accept: text/html"}, 406, "Accept: expected application/json, text/event-stream, got \\\"text/html\\\""},
		{"everything refused", "POST", list, []string{"Accept: */*;q=0"}, 406, `"code":-32000`},
		{"every Accept", "POST", list, []string{"Accept: */*"}, 200, `"tools":[`},
		{"wide Accept", "POST", list, []string{"Accept: text/*, application/*;q=0.5"}, 200, `"tools":[`},
		{"no JSON by name", "POST", list, []string{accepts, "Content-Type: text/plain"}, 415, "unsupported content-type"},
		{"compressed", "POST", list, []string{accepts, "Content-Encoding: gzip"}, 415, "unsupported content-encoding"},
		{"no JSON", "POST", "{", []string{accepts}, 400, `"code":-32700`},
		{"twice the method", "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"}`, []string{accepts}, 400, `"code":-32600,"message":"method: expected the key once`},
		{"a text", "POST", `"hi"`, []string{accepts}, 400, "the body: expected a request of JSON-RPC"},
		{"no version of JSON-RPC", "POST", `{"id":1,"method":"tools/list"}`, []string{accepts}, 400, "jsonrpc: expected"},
		{"no method", "POST", `{"jsonrpc":"2.0","id":1}`, []string{accepts}, 400, "method: expected a text"},
		{"a wrong id", "POST", `{"jsonrpc":"2.0","id":{},"method":"tools/list"}`, []string{accepts}, 400, "id: expected"},
		{"a null id", "POST", `{"jsonrpc":"2.0","id":null,"method":"tools/list"}`, []string{accepts}, 400, "id: expected"},
		{"too large", "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":"` + strings.Repeat("x", 512<<10) + `"}}`, []string{accepts}, 413, "at most 524288 bytes"},
		{"as large as may be", "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":"` + strings.Repeat("x", 500<<10) + `"}}`, []string{accepts}, 200, `"tools":[`},
		{"deep", "POST", strings.Repeat("[", 100) + strings.Repeat("]", 100), []string{accepts}, 400, `"code":-32700`},
		{"an empty batch", "POST", `[]`, []string{accepts}, 400, "the body: expected one or more requests"},
		{"a batch", "POST", batch(1), []string{accepts}, 200, `[{"jsonrpc":"2.0","id":1,"result"`},
		{"a batch of the revision that has them", "POST", batch(1), []string{accepts, "Mcp-Protocol-Version: 2025-03-26"}, 200, `"tools":[`},
		{"a batch of 9", "POST", batch(9), []string{accepts}, 400, "at most 8 requests"},
		{"a batch of a newer revision", "POST", batch(1), []string{accepts, legacy}, 400, "only version 2025-03-26 has batches"},
		{"a batch of an older revision", "POST", batch(1), []string{accepts, "Mcp-Protocol-Version: 2024-11-05"}, 400, "only version 2025-03-26 has batches"},
		{"a batch of the newest revision", "POST", batch(1), []string{accepts, newest}, 400, "only version 2025-03-26 has batches"},
		{"an unknown revision", "POST", list, []string{accepts, "Mcp-Protocol-Version: 2024-01-01"}, 400, `"code":-32022`},
		{"a later revision", "POST", list, []string{accepts, "Mcp-Protocol-Version: 2027-01-01"}, 400, `"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`},
		{"no date", "POST", list, []string{accepts, "Mcp-Protocol-Version: x\u00e9"}, 400, `"code":-32022`},
		{"the newest revision without its meta", "POST", list, []string{accepts, newest}, 400, `"code":-32602`},
		{"the newest revision", "POST", modernRequest("tools/list", ""), []string{accepts, newest, "Mcp-Method: tools/list"}, 200, `"resultType":"complete"`},
		{"header and body differ", "POST", modernRequest("tools/list", ""), []string{accepts, legacy, "Mcp-Method: tools/list"}, 400, `"code":-32020`},
		{"no header", "POST", modernRequest("tools/list", ""), []string{accepts}, 400, `"code":-32020`},
		{"another method in the header", "POST", modernRequest("tools/list", ""), []string{accepts, newest, "Mcp-Method: tools/call"}, 400, `"code":-32020`},
		{"no method in a header", "POST", modernRequest("tools/list", ""), []string{accepts, newest}, 400, `"code":-32020`},
		{"another name in the header", "POST", modernRequest("tools/call", `,"name":"ask","arguments":{"message":"hi"}`), []string{accepts, newest, "Mcp-Method: tools/call", "Mcp-Name: get_task"}, 400, `"code":-32020`},
		{"prompts", "POST", `{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`, []string{accepts, legacy}, 200, `"prompts":[]}}`},
		{"a level of the log", "POST", `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}`, []string{accepts, legacy}, 200, `"result":{}`},
		{"a level for the newest revision", "POST", modernRequest("logging/setLevel", `,"level":"debug"`), []string{accepts, newest, "Mcp-Method: logging/setLevel"}, 404, `"code":-32601`},
		{"prompts of the newest revision", "POST", modernRequest("prompts/list", ""), []string{accepts, newest, "Mcp-Method: prompts/list"}, 404, `"id":7,"error":{"code":-32601`},
		{"a stream of changes", "POST", modernRequest("subscriptions/listen", ""), []string{accepts, newest, "Mcp-Method: subscriptions/listen"}, 404, `"code":-32601`},
		{"an unknown method", "POST", `{"jsonrpc":"2.0","id":"a","method":"make/tea"}`, []string{accepts, legacy}, 200, `"id":"a","error":{"code":-32601`},
		{"an unknown tool", "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tea"}}`, []string{accepts, legacy}, 200, `"code":-32602`},
		{"a notification", "POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, []string{accepts, legacy}, 202, ""},
		{"an unknown notification", "POST", `{"jsonrpc":"2.0","method":"notifications/tea"}`, []string{accepts, legacy}, 202, ""},
		{"an unknown notification of the newest revision", "POST", `{"jsonrpc":"2.0","method":"notifications/tea"}`, []string{accepts, newest}, 202, ""},
		{"a batch of notifications", "POST", `[{"jsonrpc":"2.0","method":"notifications/tea"},{"jsonrpc":"2.0","id":1,"result":{}}]`, []string{accepts}, 202, ""},
		{"an unknown notification in a batch", "POST", `[{"jsonrpc":"2.0","method":"notifications/tea"},` + list + `]`, []string{accepts}, 200, `[{"jsonrpc":"2.0","id":1,"result":{`},
		{"an unknown method in a batch", "POST", `[{"jsonrpc":"2.0","id":"a","method":"make/tea"},` + list + `]`, []string{accepts}, 200, `[{"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"method \"make/tea\" does not exist"}},{"jsonrpc":"2.0","id":1,"result":{`},
		{"an unknown method in a batch, as events", "POST", `[{"jsonrpc":"2.0","id":"a","method":"make/tea"},` + list + `]`, []string{"Accept: text/event-stream"}, 200, "data: {\"jsonrpc\":\"2.0\",\"id\":\"a\",\"error\":{\"code\":-32601,\"message\":\"method \\\"make/tea\\\" does not exist\"}}\n\nevent: message\ndata: {"},
		{"only unknown methods in a batch", "POST", `[{"jsonrpc":"2.0","id":"a","method":"make/tea"}]`, []string{accepts}, 200, `[{"jsonrpc":"2.0","id":"a","error":{"code":-32601`},
		{"initialize with an unknown revision in its header", "POST", initialize, []string{accepts, "Mcp-Protocol-Version: 2024-01-01"}, 200, `"protocolVersion":"2025-11-25"`},
		{"initialize with a later revision in its header", "POST", initialize, []string{accepts, "Mcp-Protocol-Version: 2099-01-01"}, 200, `"protocolVersion":"2025-11-25"`},
		{"initialize with two revisions in its header", "POST", initialize, []string{accepts, "Mcp-Protocol-Version: 2025-11-25", "Mcp-Protocol-Version: 2099-01-01"}, 200, `"protocolVersion":"2025-11-25"`},
		{"initialize of a later revision", "POST", strings.Replace(initialize, "2025-11-25", "2099-01-01", 1), []string{accepts}, 200, `"protocolVersion":"2025-11-25"`},
		{"an answer", "POST", `{"jsonrpc":"2.0","id":1,"result":{}}`, []string{accepts, legacy}, 202, ""},
		{"a session", "POST", list, []string{accepts, "Mcp-Session-Id: x"}, 200, `"tools":[`},
		{"a stream that goes on", "POST", list, []string{accepts, "Last-Event-ID: 1"}, 400, `"jsonrpc":"2.0"`},
		{"a page of another site", "POST", list, []string{accepts, "Origin: https://evil.example"}, 403, "this host refuses requests from pages of other sites"},
		{"a page of another site, as browsers say", "POST", list, []string{accepts, "Sec-Fetch-Site: cross-site"}, 403, "pages of other sites"},
		{"a program of Node", "POST", list, []string{accepts, "Sec-Fetch-Mode: cors"}, 200, `"tools":[`},
	} {
		got := w.do(tt.method, "/v/echo/mcp", tt.body, tt.headers...)
		if got.status != tt.status || !strings.Contains(got.body, tt.want) {
			t.Errorf("%s: %d %.300s, want %d %s", tt.name, got.status, got.body, tt.status, tt.want)
			continue
		}
		var e struct {
			Version string `json:"jsonrpc"`
			Error   *struct{ Message string }
		}
		if tt.status >= 400 && (json.Unmarshal([]byte(got.body), &e) != nil || e.Version != "2.0" || e.Error == nil || e.Error.Message == "" || got.header.Get("Content-Type") != "application/json") {
			t.Errorf("%s: %v %s, want an error of JSON-RPC", tt.name, got.header, got.body)
		}
		if got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: the answer lets pages of other sites read it", tt.name)
		}
	}
	if got := w.do("OPTIONS", "/v/echo/mcp", "", "Origin: "+w.http.URL, "Access-Control-Request-Method: POST"); got.status != 204 || got.header.Get("Allow") != "OPTIONS, POST" || got.header.Get("Access-Control-Allow-Methods") != "" {
		t.Errorf("OPTIONS: %d %v", got.status, got.header)
	}
}

// A client finds its answer by the bytes of its id.
func TestIDsComeBackByteForByte(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"0", "-7", "1732796400123456789", "9223372036854775807", "123456789012345678901234567890", "1.0", "1.50", "1e2", `"7"`, `""`, `"\u00e9<&>\u2028"`, `"\ud800"`} {
		for name, params := range map[string]string{
			"an answer": `{"name":"ask","arguments":{"message":"id\":1,"}}`, "progress": `{"name":"ask","arguments":{"message":"hi"},"_meta":{"progressToken":` + id + `}}`,
			"a refusal": `{"name":"tea"}`, "odd parameters": `{"name":7}`,
		} {
			got := w.do("POST", "/v/echo/mcp", `{"params":`+params+`,"method":"tools/call","id":`+id+`,"jsonrpc":"2.0"}`, accepts, legacy)
			if !strings.Contains(got.body, `{"jsonrpc":"2.0","id":`+id+`,`) || strings.Count(got.body, `"id":`+id+`,`) != 1 {
				t.Errorf("%s, id %s: %s", name, id, got.body)
			}
			if streams := name == "progress"; strings.Contains(got.body, `"progressToken":`+id+`,`) != streams {
				t.Errorf("%s, progress token %s: %s", name, id, got.body)
			}
		}
		for _, method := range []string{"ping", "make/tea"} {
			if got := w.do("POST", "/v/echo/mcp", `{"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`"}`, accepts, legacy); !strings.HasPrefix(got.body, `{"jsonrpc":"2.0","id":`+id+`,`) {
				t.Errorf("%s, id %s: %s", method, id, got.body)
			}
		}
		got := w.do("POST", "/v/echo/mcp", `[{"jsonrpc":"2.0","id":`+id+`,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":`+id+`,"method":"tools/list"}]`, accepts)
		if strings.Count(got.body, `{"jsonrpc":"2.0","id":`+id+`,"result":`) != 2 {
			t.Errorf("a batch, id %s: %s", id, got.body)
		}
	}
}

// A detail that decides nothing costs no answer; what decides it is read strictly.
func TestDetailsCostNoAnswer(t *testing.T) {
	w := newWorld(t)
	for arguments, want := range map[string]string{
		`{"message":"hi","context":null,"max_price":null}`: `"finish":"stop"`,
		`{"message":"hi","max_price":1e3}`:                 `"finish":"stop"`,
		`{"message":"hi","max_price":5.0}`:                 `"finish":"stop"`,
		`{"message":"hi","max_price":5.5}`:                 "max_price: expected",
		`{"message":null}`:                                 "message: expected a string, got null",
		`{"message":"hi","message":"ho"}`:                  "message: expected the key once",
		`{"message":"hi","tea":null}`:                      "tea: expected",
	} {
		for _, body := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":%s}}`,
			`{"odd":"\ud800","jsonrpc":"2.0","id":1,"odd":1e999,"method":"tools/call","params":{"name":"ask","odd":{"a":1,"a":"\udfff"},"arguments":%s}}`,
		} {
			if got := w.do("POST", "/v/echo/mcp", fmt.Sprintf(body, arguments), accepts, legacy); !strings.Contains(got.body, want) {
				t.Errorf("%s: %s, want %s", arguments, got.body, want)
			}
		}
	}
	if got := w.rpc("/mcp", "tools/call", `{"name":"search_agents","arguments":{"query":null,"tag":null,"max_price":null,"limit":null,"cursor":null}}`); !strings.Contains(got.body, `"agents"`) || strings.Contains(got.body, `"isError"`) {
		t.Errorf("search_agents: %s", got.body)
	}
	for _, params := range []string{`{"protocolVersion":1,"capabilities":{},"clientInfo":{"name":"x","version":"1"}}`, `{"protocolVersion":"2025-06-18","capabilities":7}`, `[]`, `7`} {
		if got := w.rpc("/v/echo/mcp", "initialize", params); !strings.Contains(got.body, `"code":-32602`) || strings.Contains(got.body, "mcp.") {
			t.Errorf("initialize with %s: %d %s", params, got.status, got.body)
		}
	}
	for method, params := range map[string]string{"tools/call": `{"name":7}`, "tools/list": `{"cursor":7}`, "resources/read": `{"uri":7}`} {
		if got := w.rpc("/v/echo/mcp", method, params); !strings.Contains(got.body, `"code":-32602`) || strings.Contains(got.body, "mcp.") {
			t.Errorf("%s with %s: %d %s", method, params, got.status, got.body)
		}
	}
}

// The client decides whether the answer to a question is JSON or a stream of events, also if it wants
// progress.
func TestAQuestionIsAnsweredInTheFormThatTheClientAccepts(t *testing.T) {
	w := newWorld(t)
	ask := func(meta string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"message":"hi"}` + meta + `}}`
	}
	for _, tt := range []struct{ accept, meta, media, begins string }{
		{"application/json", `,"_meta":{"progressToken":1}`, "application/json", `{"jsonrpc":"2.0","id":1,"result":`},
		{"application/json, text/event-stream", `,"_meta":{"progressToken":1}`, "text/event-stream", "event: message\ndata: {"},
		{"application/json, text/event-stream", "", "application/json", `{"jsonrpc":"2.0","id":1,"result":`},
		{"text/event-stream", "", "text/event-stream", "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":"},
	} {
		got := w.do("POST", "/v/echo/mcp", ask(tt.meta), legacy, "Accept: "+tt.accept)
		if got.status != 200 || got.header.Get("Content-Type") != tt.media || !strings.HasPrefix(got.body, tt.begins) || !strings.Contains(got.body, `"finish":"stop"`) {
			t.Errorf("%s %s: %d %v %s", tt.accept, tt.meta, got.status, got.header, got.body)
		}
	}
}

// Nobody learns by MCP which vacants there are.
func TestUnknownVacantsHaveOneAnswer(t *testing.T) {
	w := newWorld(t)
	boss := w.create(vacants.CreateSpec{Name: "boss", Substrate: "echo"})
	_, _, err := w.Vacants.Spawn(t.Context(), vacants.SpawnSpec{Parent: boss.ID, Path: "D2", Name: "kid", Capability: "helps", Substrate: "echo"})
	w.Must(err)
	gone := w.create(vacants.CreateSpec{Name: "gone", Substrate: "echo"})
	for _, step := range []func() error{
		func() error { _, err := w.Vacants.Sink(t.Context(), gone.ID); return err },
		func() error { _, err := w.Vacants.Archive(t.Context(), gone.ID); return err },
		func() error { _, err := w.Vacants.Delete(t.Context(), gone.ID); return err },
	} {
		w.Must(step())
	}
	want := w.do("POST", "/v/nobody/mcp", initialize, accepts)
	if want.status != 404 || !strings.Contains(want.body, `"code":-32000`) {
		t.Fatalf("an unknown vacant: %d %s", want.status, want.body)
	}
	for _, path := range []string{
		"/v/kid/mcp", "/v/gone/mcp", "/v/" + gone.ID.String() + "/mcp", "/v/" + strings.Repeat("ab", 32) + "/mcp", "/v/{agent}/mcp", "/v/%7Bx%7D%00%2F/mcp", "/v/a%20b%22/mcp", "/v/é/mcp", "/v//mcp", "/v/echo/mcp/tea", "/v/nobody/mcp/server-card",
		"/mcp/tea", "/v/" + strings.Repeat("x", 3000) + "/mcp",
	} {
		got := w.do("POST", path, initialize, accepts)
		if got.status != want.status || got.body != want.body {
			t.Errorf("%s: %d %s, want %s", path, got.status, got.body, want.body)
		}
	}
}

// A credential that is wrong is refused wherever it is sent, and none is needed to list.
func TestABadKeyIs401AndAKeyWithoutTheScope403(t *testing.T) {
	w := newWorld(t)
	reader := w.key("acme", billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeRead}})
	for _, path := range []string{"/v/echo/mcp", "/mcp"} {
		for _, method := range []string{"tools/list", "tools/call"} {
			for key, status := range map[string]int{"Bearer vac_live_" + strings.Repeat("a", 32): 401, "Basic YTpi": 401, "Bearer " + reader: 403} {
				got := w.rpc(path, method, `{"name":"ask","arguments":{"message":"hi"}}`, "Authorization: "+key)
				challenge := got.header.Get("WWW-Authenticate")
				if got.status != status || !strings.HasPrefix(got.body, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"`) || strings.Contains(challenge, "resource_metadata") || challenge != `Bearer realm="vacancy", error="`+map[int]string{401: "invalid_token", 403: "insufficient_scope"}[status]+`", scope="call"` {
					t.Errorf("%s %s with %.12s: %d %v %s, want %d", path, method, key, got.status, got.header, got.body, status)
				}
			}
		}
		if got := w.rpc(path, "tools/list", `{}`); got.status != 200 {
			t.Errorf("%s without a key: %d %s", path, got.status, got.body)
		}
	}
	if n := w.turns.Load(); n != 0 {
		t.Errorf("%d turns ran", n)
	}
}

// Where guests are not taken, what is for guests is not listed.
func TestAVacantForOnlySignedCallsListsNoAsk(t *testing.T) {
	w := newWorld(t)
	off := vacants.KeylessOff
	_, err := w.Vacants.Update(t.Context(), w.echo.ID, vacants.Changes{KeylessAccess: &off})
	w.Must(err)
	got := w.rpc("/v/echo/mcp", "tools/list", `{}`)
	if strings.Contains(got.body, `"ask"`) || strings.Contains(got.body, "_task") || !strings.Contains(got.body, `"vacant_call"`) {
		t.Errorf("the tools are %s", got.body)
	}
	if got := w.rpc("/v/echo/mcp", "tools/call", `{"name":"ask","arguments":{"message":"hi"}}`); !strings.Contains(got.body, "-32602") {
		t.Errorf("ask: %s", got.body)
	}
}

// FuzzBody: no body makes the handler fail, or answer anything but JSON.
func FuzzBody(f *testing.F) {
	w := newWorld(f)
	for _, body := range []string{
		initialize, "[" + initialize + "]", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"message":"hi"},"_meta":{"progressToken":1}}}`,
		`{"jsonrpc":"2.0","id":"a","method":"resources/read","params":{"uri":"vacancy://x/card"}}`, modernRequest("server/discover", ""), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"vacant_call","arguments":{"envelope":"{}"}}}`,
	} {
		for _, version := range []string{"", "2025-03-26", "2025-11-25", "2026-07-28"} {
			f.Add(body, version)
		}
	}
	f.Fuzz(func(t *testing.T, body, version string) {
		q := httptest.NewRequest("POST", w.http.URL+"/v/echo/mcp", strings.NewReader(body))
		for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "*/*", "Mcp-Method": "tools/call", "Mcp-Name": "ask", "Mcp-Protocol-Version": version} {
			if value != "" {
				q.Header.Set(name, value)
			}
		}
		got := httptest.NewRecorder()
		w.http.Config.Handler.ServeHTTP(got, q)
		whole := got.Header().Get("Content-Type") == "application/json"
		if got.Code >= 500 || whole && !json.Valid(got.Body.Bytes()) || !whole && got.Body.Len() > 0 && !strings.HasPrefix(got.Body.String(), "event: ") {
			t.Errorf("%q of %q: %d %v %s", body, version, got.Code, got.Header(), got.Body)
		}
	})
}
