package mcp_test

import (
	stdcmp "cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/loop"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mcp"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var vacant = identity.ID{2}

func client(guard outbound.EndpointGuard) *outbound.Client {
	if guard == nil {
		guard = func(context.Context, outbound.Actor, string) error { return nil }
	}
	return outbound.New(outbound.Options{AllowLoopback: true, Guard: guard})
}

// server is an MCP server with tools of all kinds. It keeps what it is sent.
type server struct {
	*httptest.Server
	mu   sync.Mutex
	sent []string
}

func newServer(t testing.TB, o *sdk.StreamableHTTPOptions) *server {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "trial", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)
	add := func(name string, readOnly bool, answer func(arguments string) *sdk.CallToolResult) {
		s.AddTool(&sdk.Tool{Name: name, Description: "Does " + name, InputSchema: schema, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: readOnly}},
			func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return answer(string(r.Params.Arguments)), nil
			})
	}
	said := func(text ...string) *sdk.CallToolResult {
		r := &sdk.CallToolResult{}
		for _, one := range text {
			r.Content = append(r.Content, &sdk.TextContent{Text: one})
		}
		return r
	}
	add("echo", true, func(arguments string) *sdk.CallToolResult { return said("got", arguments) })
	add("write.file", false, func(string) *sdk.CallToolResult { return said("written") })
	add("fail", true, func(string) *sdk.CallToolResult { r := said("no such thing"); r.IsError = true; return r })
	add("picture", true, func(string) *sdk.CallToolResult {
		r := said("see")
		r.Content = append(r.Content, &sdk.ImageContent{MIMEType: "image/png", Data: []byte{1}})
		return r
	})
	add("figures", true, func(string) *sdk.CallToolResult {
		return &sdk.CallToolResult{StructuredContent: map[string]any{"a": 1}, Content: []sdk.Content{}}
	})
	add("slow", true, func(string) *sdk.CallToolResult { time.Sleep(3 * time.Second); return said("late") })
	out := &server{}
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, o)
	out.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		out.mu.Lock()
		out.sent = append(out.sent, r.Method+" "+fmt.Sprint(r.Header)+" "+string(body))
		out.mu.Unlock()
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(out.CloseClientConnections)
	t.Cleanup(out.Server.Close)
	return out
}

func TestToolsOfServersAreToolsOfTheAgent(t *testing.T) {
	for what, o := range map[string]*sdk.StreamableHTTPOptions{"sessions": nil, "no sessions": {Stateless: true}, "answers in JSON": {JSONResponse: true}} {
		t.Run(what, func(t *testing.T) {
			s, other := newServer(t, o), newServer(t, o)
			offer, done, err := mcp.Servers(client(nil))(t.Context(), vacant, outbound.Stranger, []definition.Server{{Name: "one", URL: s.URL}, {Name: "two", URL: other.URL}})
			if err != nil {
				t.Fatal(err)
			}
			defer done()
			named := map[string]loop.Tool{}
			for _, tool := range offer.Tools {
				named[tool.Name] = tool
			}
			if len(named) != 12 || named["mcp__one__echo"].Writes || !named["mcp__two__write_file"].Writes || named["mcp__one__echo"].Description != "Does echo" ||
				!strings.Contains(string(named["mcp__one__echo"].Schema), `"text"`) {
				t.Errorf("%d tools: %+v", len(named), named)
			}
			for name, want := range map[string]string{
				"echo": "got\n{\"text\":\"hi\"}", "fail": "!no such thing", "picture": "see\n[content that is not text]", "figures": `{"a":1}`, "write_file": "written",
			} {
				got, err := named["mcp__one__"+name].Run(t.Context(), nil, json.RawMessage(`{"text":"hi"}`))
				if err != nil {
					got = "!" + problem.AsError(err).Text()
				}
				if got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, sent := range s.sent {
				if strings.Contains(sent, vacant.String()) || strings.Contains(strings.ToLower(sent), "authorization") {
					t.Errorf("the server was sent %s", sent)
				}
			}
		})
	}
}

// What is wrong with a server is told, and of which kind it is.
func TestServersThatAreNone(t *testing.T) {
	status := func(code int) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, "key sk-live-0123456789abcdef is wrong")
		}))
		t.Cleanup(s.Close)
		return s
	}
	html := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<p>hi</p>")
	}))
	defer html.Close()
	gone := status(200)
	gone.Close()
	for _, tt := range []struct {
		what, url string
		guard     outbound.EndpointGuard
		want      problem.Kind
	}{
		{"nobody", gone.URL, nil, problem.SubstrateUnavailable},
		{"a page", html.URL, nil, problem.SubstrateMisconfigured},
		{"401", status(401).URL, nil, problem.SubstrateMisconfigured},
		{"404", status(404).URL, nil, problem.SubstrateMisconfigured},
		{"302", status(302).URL, nil, problem.SubstrateMisconfigured},
		{"429", status(429).URL, nil, problem.SubstrateBusy},
		{"500", status(500).URL, nil, problem.SubstrateUnavailable},
		{"one that it may not reach", newServer(t, nil).URL, func(context.Context, outbound.Actor, string) error {
			return problem.New(problem.TreeOnly, "not among its tools")
		}, problem.SubstrateMisconfigured},
		{"metadata", "http://169.254.169.254/latest", nil, problem.SubstrateMisconfigured},
	} {
		_, _, err := mcp.Servers(client(tt.guard))(t.Context(), vacant, outbound.Stranger, []definition.Server{{Name: "one", URL: tt.url, Required: true}})
		if !problem.Is(err, tt.want) || !strings.HasPrefix(problem.AsError(err).Text(), "mcp server one: ") || strings.Contains(err.Error(), "sk-live") {
			t.Errorf("%s: %v (%s), want %s that names the server", tt.what, err, problem.AsError(err).Kind, tt.want)
		}
	}
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		select {
		case <-r.Context().Done():
		case <-time.After(await.Limit):
		}
	}))
	defer hanging.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, _, err := mcp.Servers(client(nil))(ctx, vacant, outbound.Stranger, []definition.Server{{Name: "one", URL: hanging.URL, Required: true}}); !problem.Is(err, problem.DeadlineExceeded) {
		t.Errorf("a server that hangs: %v, want Deadline", err)
	}
}

// An agent uses the servers that answer, and a server that does not costs a part of the call's time.
func TestAServerThatIsNotRequiredIsLeftOut(t *testing.T) {
	t.Parallel() // it waits ten seconds
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	ended := make(chan struct{})
	wait := func(r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	}
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body); wait(r) }))
	listless, _ := listing(t, func(string) string { <-ended; return `{"tools":[]}` })
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(ended) }) // before the servers close, which wait for their requests
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	good := newServer(t, nil)
	offer, done, err := mcp.Servers(client(nil))(ctx, vacant, outbound.Stranger, []definition.Server{
		{Name: "good", URL: good.URL}, {Name: "closed", URL: closed.URL}, {Name: "silent", URL: silent.URL}, {Name: "listless", URL: listless},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if ctx.Err() != nil || len(offer.Tools) != 6 || !strings.HasPrefix(offer.Tools[0].Name, "mcp__good__") {
		t.Errorf("offered %d tools, %v", len(offer.Tools), ctx.Err())
	}
	var left []string
	for _, one := range offer.OmittedTools.Tools {
		reason, _, _ := strings.Cut(one.Reason, " within ")
		left = append(left, one.Name+" "+reason)
	}
	if len(left) != 3 || !strings.HasPrefix(left[0], "mcp__closed__* mcp server closed: the agent gave no answer") ||
		left[1] != "mcp__silent__* mcp server silent: it did not list its tools" || left[2] != "mcp__listless__* mcp server listless: it did not list its tools" {
		t.Errorf("left out: %q", left)
	}
	good.CloseClientConnections()
	good.Close()
	if _, err := offer.Tools[0].Run(ctx, nil, json.RawMessage(`{}`)); err == nil || ctx.Err() != nil {
		t.Errorf("a tool of a server that has ended: %v, %v", err, ctx.Err())
	}
	cancel()
	if _, _, err := mcp.Servers(client(nil))(ctx, vacant, outbound.Stranger, []definition.Server{{Name: "closed", URL: closed.URL}}); !problem.Is(err, problem.Canceled) {
		t.Errorf("a call that has ended: %v, want Canceled", err)
	}
}

func TestAToolEndsWithItsCall(t *testing.T) {
	s := newServer(t, nil)
	offer, done, err := mcp.Servers(client(nil))(t.Context(), vacant, outbound.Stranger, []definition.Server{{Name: "one", URL: s.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, tool := range offer.Tools {
		if tool.Name == "mcp__one__slow" {
			if _, err := tool.Run(ctx, nil, json.RawMessage(`{}`)); !problem.Is(err, problem.DeadlineExceeded) {
				t.Errorf("Run() = %v, want Deadline", err)
			}
		}
	}
}

func openSession(t testing.TB, url, tool string) substrate.Substrate {
	t.Helper()
	s, err := mcp.Kinds(client(nil)).Open(substrate.Spec{Kind: "mcp", Argument: url + "#" + tool})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ask(t testing.TB, s substrate.Substrate) (string, error) {
	t.Helper()
	r := substrate.NewTextRequest(identity.ID{1}, vacant, "say \"hi\"")
	r.System = "Be kind"
	a, err := substrate.ReadAnswer(s.Infer(t.Context(), r))
	return a.Text, err
}

const sentArguments = `{"system_prompt":"Be kind","user_prompt":"say \"hi\"","tools":[],"metadata":{}}`

func TestOneToolAnswersAsASubstrate(t *testing.T) {
	s := newServer(t, nil)
	if got, err := ask(t, openSession(t, s.URL, "echo")); err != nil || got != "got\n"+sentArguments {
		t.Errorf("echo: %q, %v", got, err)
	}
	if got, err := ask(t, openSession(t, s.URL, "fail")); !problem.Is(err, problem.BehaviourFailed) || got != "" {
		t.Errorf("fail: %q, %v", got, err)
	}
	if got, err := ask(t, openSession(t, s.URL, "nothing")); err == nil {
		t.Errorf("a tool that is not there: %q, %v", got, err)
	}
}

// A server without sessions gets the reference's bare call.
func TestAServerWithoutInitializeIsCalledBare(t *testing.T) {
	for body, want := range map[string]string{
		`{"text":"a","result":{"text":"b"}}`: "a", `{"jsonrpc":"2.0","id":"mcp-call","result":{"text":"b"}}`: "b", `{"result":{}}`: "returned nothing",
		`{"error":{"code":-32601}}`: "!", `{}`: "!", `[]`: "!", `no`: "!",
	} {
		var sent []string
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "application/json")
			if strings.Contains(string(b), `"initialize"`) || !strings.Contains(string(b), "tools/call") {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"error":"what?"}`)
				return
			}
			sent = append(sent, string(b))
			_, _ = io.WriteString(w, body)
		}))
		got, err := ask(t, openSession(t, s.URL, "answer"))
		switch {
		case problem.Is(err, problem.SubstrateUnavailable):
			got = "returned nothing"
		case err != nil:
			got = "!"
			if agent := new(call.AgentError); !errors.As(err, &agent) || !problem.Is(err, problem.SubstrateMisconfigured) {
				t.Errorf("%s: %v, want it misconfigured and what came", body, err)
			}
		}
		wanted := []string{`{"id":"mcp-call","jsonrpc":"2.0","method":"tools/call","params":{"arguments":` + sentArguments + `,"name":"answer"}}`}
		if diff := cmp.Diff(wanted, sent); got != want || diff != "" {
			t.Errorf("%s: %q, want %q (-want +got):\n%s", body, got, want, diff)
		}
		s.Close()
	}
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	for _, argument := range []string{"", "#x", "http://x.example/mcp", "http://x.example/mcp#", "ftp://x.example#t", "http://x.example#" + strings.Repeat("t", 200), "http://me:secret@x.example#t"} {
		_, err := mcp.Kinds(client(nil)).Open(substrate.Spec{Kind: "mcp", Argument: argument})
		if !problem.Is(err, problem.Malformed) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want a refusal", argument, err)
		}
	}
}

// listing is an MCP server that answers tools/list as a test wants, and counts.
func listing(t testing.TB, list func(cursor string) string) (url string, listed *atomic.Int32) {
	t.Helper()
	listed = new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			ID     json.RawMessage
			Method string
			Params struct{ Cursor, Name string }
		}
		b, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || json.Unmarshal(b, &q) != nil || q.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result := `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"trial","version":"1"}}`
		switch q.Method {
		case "tools/list":
			listed.Add(1)
			result = list(q.Params.Cursor)
		case "tools/call":
			result = fmt.Sprintf(`{"content":[{"type":"text","text":"%s answers"}]}`, q.Params.Name)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, result)
	}))
	t.Cleanup(s.Close)
	return s.URL, listed
}

// offered opens a server named trial and returns what it offers.
func offered(t testing.TB, url string) (tools []loop.Tool, names []string, left call.OmittedTools) {
	t.Helper()
	offer, done, err := mcp.Servers(client(nil))(t.Context(), vacant, outbound.Stranger, []definition.Server{{Name: "trial", URL: url}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(done)
	for _, one := range offer.Tools {
		names = append(names, strings.TrimPrefix(one.Name, "mcp__trial__"))
	}
	return offer.Tools, names, offer.OmittedTools
}

// A server's details cost no tool, no answer and no time.
func TestOddAnswersOfServers(t *testing.T) {
	const good = `{"name":"t",` + object + `}`
	answer := func(text string) string { return `{"content":[{"type":"text","text":"` + text + `"}]}` }
	event := func(data string) string { return "data: " + data + "\n\n" }
	whole := func(id, result string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":` + result + `}` }
	for name, tt := range map[string]struct {
		id     string // in place of each id; "" for the id of the request
		list   string
		call   string // the body of the reply to a call, with ID for its id
		media  string
		status int
		names  string
		want   string // "!" before an error
	}{
		"an id as text":             {id: `"2"`, call: whole("ID", answer("x")), want: "x"},
		"an id as a fraction":       {id: "2.0", call: whole("ID", answer("x")), want: "x"},
		"an id of null":             {id: "null", call: whole("ID", answer("x")), want: "x"},
		"another id":                {id: "77", call: whole("ID", answer("x")), want: "x"},
		"a byte order mark":         {call: "\uFEFF" + whole("ID", answer("x")), want: "x"},
		"no version":                {call: `{"id":ID,"result":` + answer("x") + `}`, want: "x"},
		"an odd member":             {call: `{"error":null,"odd":7,` + whole("ID", answer("x"))[1:], want: "x"},
		"a bad description":         {list: `{"tools":[{"name":"t","description":5,` + object + `},` + `{"name":"u",` + object + `}]}`, names: "t u", call: whole("ID", answer("x")), want: "x"},
		"a bad tool":                {list: `{"tools":[{"name":5,` + object + `},7,` + good + `],"nextCursor":7}`, call: whole("ID", answer("x")), want: "x"},
		"a bad annotation":          {list: `{"tools":[{"name":"t","annotations":"x","title":[],` + object + `}]}`, call: whole("ID", answer("x")), want: "x"},
		"a bad part":                {call: whole("ID", `{"content":[{"type":"text","text":7},{"type":"video"},7,{"type":"text","text":"x"}],"isError":"no"}`), want: "[content that is not text]\n[content that is not text]\n[content that is not text]\nx"},
		"an error":                  {call: `{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"no such city"}}`, want: "!no such city"},
		"an error that is a string": {call: `{"jsonrpc":"2.0","id":ID,"error":"no such city"}`, want: `!"no such city"`},
		"an error with a status":    {call: `{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"no such city"}}`, status: 400, want: "!no such city"},
		"500":                       {call: `the disk is full`, media: "text/plain", status: 500, want: "!the disk is full"},
		"noise":                     {media: "text/event-stream", call: event("ping") + event("[DONE]") + event("null") + "event: heartbeat\n" + event(`{"time":1}`) + event(`{"type":"ping"}`) + event(whole("ID", answer("x"))), want: "x"},
		"noise after the end":       {media: "text/event-stream", call: "\uFEFF" + event(whole("ID", answer("x"))) + event("{"), want: "x"},
		"an id as text, events":     {id: `"2"`, media: "text/event-stream", call: "event: message\n" + event(whole("ID", answer("x"))), want: "x"},
		"several lines":             {media: "text/event-stream", call: "data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":ID,\"result\":" + answer("x") + "}\n\n", want: "x"},
		"one newline":               {media: "text/event-stream", call: "data: " + `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}` + "\ndata: " + whole("ID", answer("x")) + "\n\n", want: "x"},
		"no answer":                 {media: "text/event-stream", call: event("ping"), want: "!it does not follow the MCP protocol: "},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var q struct {
					ID     json.RawMessage
					Method string
				}
				b, _ := io.ReadAll(r.Body)
				if r.Method != http.MethodPost || json.Unmarshal(b, &q) != nil || q.ID == nil {
					w.WriteHeader(http.StatusAccepted)
					return
				}
				if tt.id != "" {
					q.ID = json.RawMessage(tt.id)
				}
				media, status, body := "application/json", 200, ""
				switch q.Method {
				case "initialize":
					body = whole("ID", `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"trial","version":"1"}}`)
				case "tools/list":
					if body = whole("ID", tt.list); tt.list == "" {
						body = whole("ID", `{"tools":[`+good+`]}`)
					}
				case "tools/call":
					media, body = stdcmp.Or(tt.media, media), tt.call
					status = stdcmp.Or(tt.status, 200)
				default:
					status = 404
				}
				w.Header().Set("Content-Type", media)
				w.WriteHeader(status)
				_, _ = io.WriteString(w, strings.ReplaceAll(body, "ID", string(q.ID)))
			}))
			t.Cleanup(s.Close)
			tools, names, _ := offered(t, s.URL)
			if got := strings.Join(names, " "); got != stdcmp.Or(tt.names, "t") {
				t.Fatalf("the tools are %q", got)
			}
			got, err := tools[0].Run(t.Context(), nil, json.RawMessage(`{}`))
			if err != nil {
				got = "!" + problem.AsError(err).Text()
			}
			if got != tt.want && !(tt.want[0] == '!' && err != nil && strings.Contains(got, tt.want[1:])) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

const object = `"inputSchema":{"type":"object"}`

func TestAListOfToolsHasAnEnd(t *testing.T) {
	n := 0
	for name, tt := range map[string]struct {
		list  func(cursor string) string
		pages int32
		tools int
		left  int
		why   string // the reason of the last one
	}{
		"pages": {func(cursor string) string {
			return fmt.Sprintf(`{"tools":[{"name":"t%s",%s}]%s}`, cursor, object, map[string]string{"": `,"nextCursor":"2"`, "2": `,"nextCursor":"3"`}[cursor])
		}, 3, 3, 0, ""},
		"one cursor again and again": {func(string) string { return `{"tools":[{"name":"t",` + object + `}],"nextCursor":"again"}` }, 2, 2, 1, "the server returned the same cursor twice"},
		"new cursors for ever":       {func(string) string { n++; return fmt.Sprintf(`{"tools":[],"nextCursor":"%d"}`, n) }, 32, 0, 1, "at most 32 pages"},
		"tools for ever": {func(string) string {
			n++
			return fmt.Sprintf(`{"tools":[%s{"name":"t",%s}],"nextCursor":"%d"}`, strings.Repeat(`{"name":"t",`+object+`},`, 99), object, n)
		}, 2, 128, 200 - 128 + 1, "at most 128 tools"},
		"a thousand tools": {func(string) string {
			return `{"tools":[` + strings.TrimSuffix(strings.Repeat(`{"name":"t",`+object+`},`, 1000), ",") + `]}`
		}, 1, 128, 872, "at most 128 tools"},
	} {
		url, listed := listing(t, tt.list)
		tools, _, left := offered(t, url)
		why := ""
		if n := len(left.Tools); n > 0 {
			why = left.Tools[n-1].Reason
		}
		if listed.Load() != tt.pages || len(tools) != tt.tools || left.Count() != tt.left || len(left.Tools) > call.MaxOmittedTools || !strings.Contains(why, tt.why) {
			t.Errorf("%s: %d pages, %d tools, %d left out: %q", name, listed.Load(), len(tools), left.Count(), why)
		}
	}
}

func TestAToolThatProvidersRefuseIsLeftOut(t *testing.T) {
	property := func(of string) string { return `{"type":"object","properties":{"a":` + of + `}}` }
	list := func(n int) string { return strings.TrimSuffix(strings.Repeat(`{"$ref":"#/$defs/x"},`, n), ",") }
	big := func(n int) string { // of 32 KiB once its references are replaced
		return `{"type":"object","properties":{"a":{"anyOf":[` + list(n) + `]}},"$defs":{"x":{"type":"string","description":"` + strings.Repeat("x", 8<<10) + `"}}}`
	}
	for schema, tt := range map[string]struct {
		refused string
		offered string // "" means that the schema is offered unchanged
	}{
		property(`{"anyOf":[{"type":"string"},{"type":"null"}]}`): {},
		`{"properties":{"a":{}}}`:                                 {"", `{"properties":{"a":{}},"type":"object"}`},
		`{}`:                                                      {"", `{"type":"object"}`},
		`{"type":"string"}`:                                       {"expected object, got", ""},
		`{"type":["object","null"]}`:                              {"inputSchema.type", ""},
		`{"type":"object","anyOf":[{}]}`:                          {"anyOf", ""},
		`{"type":"object","properties":[]}`:                       {"inputSchema: validating /properties/properties", ""},
		`"text"`:                                                  {"expected an object, got string", ""},
		`null`:                                                    {"expected an object", ""},
		`{"type":"object","description":"` + strings.Repeat("x", 40<<10) + `"}`: {"at most 32768 bytes", ""},

		`{"type":"object","required":null,"properties":null,"description":null}`:      {"", `{"type":"object"}`},
		`{"type":"object","properties":{"a":null,"b":{"type":"string","enum":null}}}`: {"", `{"properties":{"b":{"type":"string"}},"type":"object"}`},
		property(`{"const":null,"default":null,"enum":[null]}`):                       {},
		property(`{"type":"strng"}`):                                                  {`inputSchema.properties.a: `, ""},
		property(`{"type":[]}`):                                                       {`inputSchema.properties.a: `, ""},
		property(`{"type":7}`):                                                        {`inputSchema.properties.a: `, ""},
		property(`{"enum":[]}`):                                                       {`inputSchema.properties.a: `, ""},
		property(`{"items":{"properties":{"b":{"required":"c"}}}}`):                   {`inputSchema.properties.a.items.properties.b: `, ""},
		property(`{"oneOf":[{},{"minLength":-1}]}`):                                   {`inputSchema.properties.a.oneOf[1]: `, ""},
		property(`{"exclusiveMinimum":true}`):                                         {`inputSchema.properties.a: `, ""},
		property(`"string"`):                                                          {`inputSchema.properties.a: `, ""},
		`{"type":"object","properties":{"first name":{}}}`:                            {"first name", ""},
		property(`{"type":"string","pattern":"("}`):                                   {"", property(`{"type":"string"}`)},
		property(`{"type":"string","pattern":"^(?!x)"}`):                              {"", property(`{"type":"string"}`)},
		property(`{"type":"string","pattern":"^a+$"}`):                                {},
		property(`{"patternProperties":{"(":{},"b":{"type":"integer"}}}`):             {"", property(`{"patternProperties":{"b":{"type":"integer"}}}`)},
		property(`{"type":"array"}`):                                                  {"", property(`{"items":{},"type":"array"}`)},
		property(`{"type":["array","null"]}`):                                         {"", property(`{"items":{},"type":["array","null"]}`)},
		property(`{"type":"array","items":[{"type":"string"}]}`):                      {"", property(`{"prefixItems":[{"type":"string"}],"type":"array"}`)},
		property(`{"items":[{}],"additionalItems":false}`):                            {"", property(`{"items":false,"prefixItems":[{}]}`)},
		`{"type":"object","properties":{"$ref":{"type":"string"},"enum":{}}}`:         {"", `{"properties":{"$ref":{"type":"string"},"enum":{}},"type":"object"}`},

		`{"type":"object","properties":{"a":{"$ref":"#/$defs/x","description":"A"}},"$defs":{"x":{"type":"string","description":"X","pattern":"("}}}`: {"", property(`{"description":"A","type":"string"}`)},
		`{"$ref":"#/definitions/x","definitions":{"x":{"properties":{"a":{"$ref":"#/definitions/y~1z"}}},"y/z":{"type":"integer"}}}`:                  {"", property(`{"type":"integer"}`)},
		`{"type":"object","properties":{"a":{"$ref":"#/components/x"}},"components":{"x":{"type":"integer"}}}`:                                        {"", `{"components":{"x":{"type":"integer"}},"properties":{"a":{"type":"integer"}},"type":"object"}`},
		`{"type":"object","properties":{"a":{"$ref":"#/properties/b"},"b":{"type":"integer"}}}`:                                                       {"", `{"properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"type":"object"}`},
		`{"type":"object","properties":{"a":{"$ref":"#/allOf/0"}}}`:                                                                                   {"inputSchema.properties.a.$ref: expected a part of the schema", ""},
		property(`{"$ref":"#/$defs/nowhere"}`):               {"inputSchema.properties.a.$ref: expected a part of the schema", ""},
		property(`{"$ref":"https://x.example/schema.json"}`): {"inputSchema.properties.a.$ref: expected a part of the schema", ""},
		property(`{"$ref":"#name"}`):                         {"inputSchema.properties.a.$ref: expected a part of the schema", ""},
		property(`{"$ref":7}`):                               {"inputSchema.properties.a: ", ""},
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"enum":[]}}}`: {"inputSchema.properties.a: ", ""},
		// References that stay.
		`{"$defs":{"x":{"properties":{"next":{"$ref":"#/$defs/x"}}}},"properties":{"a":{"$ref":"#/$defs/x"}},"type":"object"}`: {},
		property(`{"$ref":"#"}`): {"", `{"properties":{"a":{"$ref":"#"}},"type":"object"}`},
		`{"$defs":{"x":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/x","type":["string","null"]}},"type":"object"}`: {},
		big(3):    {"", `{"properties":{"a":{"anyOf":[` + strings.TrimSuffix(strings.Repeat(`{"description":"`+strings.Repeat("x", 8<<10)+`","type":"string"},`, 3), ",") + `]}},"type":"object"}`},
		big(4):    {"", `{"$defs":{"x":{"description":"` + strings.Repeat("x", 8<<10) + `","type":"string"}},"properties":{"a":{"anyOf":[` + list(4) + `]}},"type":"object"}`},
		doubles(): {"", doubles()},
		`{"type":"object","properties":{"a":{"items":[{}]},"b":{"$ref":"#/properties/a/items/0"},"c":{"$ref":"#"}}}`: {"inputSchema.properties.b.$ref", ""},
	} {
		url, _ := listing(t, func(string) string {
			return `{"tools":[{"name":"bad","inputSchema":` + schema + `},{"name":"good",` + object + `}]}`
		})
		tools, names, left := offered(t, url)
		if want := map[bool]string{true: "bad good", false: "good"}[tt.refused == ""]; strings.Join(names, " ") != want {
			t.Errorf("%.200s: %q is offered, want %q", schema, names, want)
		}
		if (left.Count() == 0) != (tt.refused == "") || tt.refused != "" && (left.Tools[0].Name != "mcp__trial__bad" || !strings.Contains(left.Tools[0].Reason, tt.refused)) {
			t.Errorf("%.200s: %+v is left out, want because of %s", schema, left, tt.refused)
		}
		if len(tools) < 2 {
			continue
		}
		got, want := any(nil), any(nil)
		_ = json.Unmarshal(tools[0].Schema, &got)
		if err := json.Unmarshal([]byte(stdcmp.Or(tt.offered, schema)), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%.200s is offered as another schema (-want +got):\n%s", schema, diff)
		}
	}
}

// A schema is read once, and the memory of schemas is bounded.
func TestSchemasAreReadOnce(t *testing.T) {
	small := map[string]any{"properties": map[string]any{"a": map[string]any{}}}
	if entries, _, err := mcp.ReadSchemas(small, map[string]any{}, small); err != nil || entries != 2 {
		t.Errorf("%d schemas are kept, %v, want 2", entries, err)
	}
	var many []any
	for i := range 300 {
		many = append(many, map[string]any{"title": fmt.Sprint(i), "description": strings.Repeat("x", 30<<10)})
	}
	if entries, bytes, err := mcp.ReadSchemas(many...); err != nil || bytes > 4<<20 || entries == 0 {
		t.Errorf("%d schemas of %d bytes are kept, %v, want at most 4 MiB", entries, bytes, err)
	}
}

// doubles is a schema of 2^20 schemas once its references are replaced.
func doubles() string {
	defs := `"x0":{"type":"string"}`
	for i := range 20 {
		defs += fmt.Sprintf(`,"x%d":{"anyOf":[{"$ref":"#/$defs/x%d"},{"$ref":"#/$defs/x%d"}]}`, i+1, i, i)
	}
	return `{"type":"object","properties":{"a":{"$ref":"#/$defs/x20"}},"$defs":{` + defs + `}}`
}

// Reading a schema that is offered changes nothing.
func FuzzInputSchema(f *testing.F) {
	for _, seed := range []string{`{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"array"}}}`, `{"$ref":"#/properties/a","properties":{"a":true}}`, doubles()} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		once, err := mcp.InputSchema(in)
		if err != nil {
			return
		}
		twice, err := mcp.InputSchema(once)
		if err != nil || string(twice) != string(once) {
			t.Errorf("%s is read as %s, and again as %s, %v", in, once, twice, err)
		}
	})
}

// The names of tools that are left out are in the letters that models take, whatever their
// server says.
func TestNamesThatAreLeftOutHaveOnlyLetters(t *testing.T) {
	url, _ := listing(t, func(string) string {
		return `{"tools":[{"name":"\u001b[2Jx\ny\u202e","inputSchema":"\u001b[31m"},{"name":"` + strings.Repeat("n", 100<<10) + `","inputSchema":{"type":"\u001b[31m` + strings.Repeat("x", 5000) + `"}}]}`
	})
	_, _, left := offered(t, url)
	if left.Count() != 2 || left.Tools[0].Name != "mcp__trial___2Jx_y_" && left.Tools[0].Name != "mcp__trial____2Jx_y_" {
		t.Errorf("left out: %+v", left)
	}
	for _, one := range left.Tools {
		if strings.ContainsFunc(one.Name+one.Reason, unicode.IsControl) || len(one.Name) > 64 || len(one.Reason) > substrate.MaxExcerptBytes+100 {
			t.Errorf("left out: %d bytes %q: %q", len(one.Name), one.Name, one.Reason)
		}
	}
}

func TestToolsWhoseNamesAreCutStayApart(t *testing.T) {
	long := strings.Repeat("n", 60)
	url, _ := listing(t, func(string) string {
		return fmt.Sprintf(`{"tools":[{"name":"%s_read",%s},{"name":"%s_write",%s}]}`, long, object, long, object)
	})
	tools, names, _ := offered(t, url)
	if len(tools) != 2 || names[0] == names[1] {
		t.Fatalf("tools %q", names)
	}
	for i, want := range []string{long + "_read answers", long + "_write answers"} {
		if got, err := tools[i].Run(t.Context(), nil, json.RawMessage(`{}`)); err != nil || got != want {
			t.Errorf("%s: %q, %v", tools[i].Name, got, err)
		}
	}
}

// A call has the tools that the server offers when the call begins.
func TestAServerChangesItsToolsBetweenTwoCalls(t *testing.T) {
	var list atomic.Value
	list.Store(`{"tools":[{"name":"a.b",` + object + `},{"name":"c",` + object + `}]}`)
	url, listed := listing(t, func(string) string { return list.Load().(string) })
	before, names, _ := offered(t, url)
	if strings.Join(names, " ") != "a_b c" {
		t.Errorf("first call: %q", names)
	}
	list.Store(`{"tools":[{"name":"a_b",` + object + `},{"name":"d",` + object + `}]}`)
	after, names, _ := offered(t, url)
	if strings.Join(names, " ") != "a_b d" || listed.Load() != 2 {
		t.Errorf("second call: %q after %d lists", names, listed.Load())
	}
	for want, one := range map[string]loop.Tool{"a.b answers": before[0], "a_b answers": after[0]} {
		if got, err := one.Run(t.Context(), nil, json.RawMessage(`{}`)); err != nil || got != want {
			t.Errorf("Run() = %q, %v, want %q", got, err, want)
		}
	}
}
