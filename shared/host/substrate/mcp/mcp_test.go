package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

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

func client(guard outbound.Guard) *outbound.Client {
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
			tools, done, err := mcp.Servers(client(nil))(t.Context(), vacant, outbound.Stranger, []definition.Server{{Name: "one", URL: s.URL}, {Name: "two", URL: other.URL}})
			if err != nil {
				t.Fatal(err)
			}
			defer done()
			named := map[string]loop.Tool{}
			for _, tool := range tools {
				named[tool.Name] = tool
			}
			if len(named) != 12 || named["mcp__one__echo"].Writes || !named["mcp__two__write_file"].Writes || named["mcp__one__echo"].Description != "Does echo" ||
				!strings.Contains(string(named["mcp__one__echo"].Schema), `"text"`) {
				t.Errorf("%d tools: %+v", len(named), named)
			}
			for name, want := range map[string]string{
				"echo": "got\n{\"text\":\"hi\"}", "fail": "!no such thing", "picture": "see\n[content that is no text]", "figures": `{"a":1}`, "write_file": "written",
			} {
				got, err := named["mcp__one__"+name].Run(t.Context(), nil, json.RawMessage(`{"text":"hi"}`))
				if err != nil {
					got = "!" + problem.Of(err).Text()
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
		guard     outbound.Guard
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
		_, _, err := mcp.Servers(client(tt.guard))(t.Context(), vacant, outbound.Stranger, []definition.Server{{Name: "one", URL: tt.url}})
		if !problem.Is(err, tt.want) || !strings.HasPrefix(problem.Of(err).Text(), "mcp server one: ") || strings.Contains(err.Error(), "sk-live") {
			t.Errorf("%s: %v (%s), want %s that names the server", tt.what, err, problem.Of(err).Kind, tt.want)
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
	if _, _, err := mcp.Servers(client(nil))(ctx, vacant, outbound.Stranger, []definition.Server{{Name: "one", URL: hanging.URL}}); !problem.Is(err, problem.Deadline) {
		t.Errorf("a server that hangs: %v, want Deadline", err)
	}
}

func TestAToolEndsWithItsCall(t *testing.T) {
	s := newServer(t, nil)
	tools, done, err := mcp.Servers(client(nil))(t.Context(), vacant, outbound.Stranger, []definition.Server{{Name: "one", URL: s.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, tool := range tools {
		if tool.Name == "mcp__one__slow" {
			if _, err := tool.Run(ctx, nil, json.RawMessage(`{}`)); !problem.Is(err, problem.Deadline) {
				t.Errorf("Run() = %v, want Deadline", err)
			}
		}
	}
}

func open(t testing.TB, url, tool string) substrate.Substrate {
	t.Helper()
	s, err := mcp.Kinds(client(nil)).Open(substrate.Spec{Kind: "mcp", Argument: url + "#" + tool})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ask(t testing.TB, s substrate.Substrate) (string, error) {
	t.Helper()
	r := substrate.Ask(identity.ID{1}, vacant, "say \"hi\"")
	r.System = "Be kind"
	a, err := substrate.Fold(s.Infer(t.Context(), r))
	return a.Text, err
}

const sentArguments = `{"system_prompt":"Be kind","user_prompt":"say \"hi\"","tools":[],"metadata":{}}`

func TestOneToolAnswersAsASubstrate(t *testing.T) {
	s := newServer(t, nil)
	if got, err := ask(t, open(t, s.URL, "echo")); err != nil || got != "got\n"+sentArguments {
		t.Errorf("echo: %q, %v", got, err)
	}
	if got, err := ask(t, open(t, s.URL, "fail")); !problem.Is(err, problem.BehaviourFailed) || got != "" {
		t.Errorf("fail: %q, %v", got, err)
	}
	if got, err := ask(t, open(t, s.URL, "nothing")); err == nil {
		t.Errorf("a tool that is not there: %q, %v", got, err)
	}
}

// A server without sessions gets the reference's bare call.
func TestAServerWithoutInitializeIsCalledBare(t *testing.T) {
	for body, want := range map[string]string{
		`{"text":"a","result":{"text":"b"}}`: "a", `{"jsonrpc":"2.0","id":"mcp-call","result":{"text":"b"}}`: "b", `{"result":{}}`: "",
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
		got, err := ask(t, open(t, s.URL, "answer"))
		if err != nil {
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
