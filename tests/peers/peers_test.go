// Package peers tests the adapters of models and MCP servers with software of others: clients of
// the providers send the same requests to a stub as the adapters do, and MCP servers from npm and
// PyPI are asked for their tools. The package installs this software once, into the cache.
package peers

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/anthropic"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/gemini"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mcp"
	"github.com/vacancy-host/vacancy/shared/host/substrate/openai"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/installed"
)

//go:embed testdata
var files embed.FS

// python is the folder of the PyPI packages, whose interpreter is bin/python.
func python(t *testing.T) string {
	t.Helper()
	skipShort(t)
	return installed.Python(t, files, "python")
}

func node(t *testing.T) string {
	t.Helper()
	skipShort(t)
	return installed.Node(t, files, "node", "@modelcontextprotocol", "sdk")
}

func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("fetches packages from the network") // tests/run deep does
	}
}

// client reaches loopback for anybody.
func client() *outbound.Client {
	anybody := func(context.Context, outbound.Actor, string) error { return nil }
	return outbound.New(outbound.Options{AllowLoopback: true, Guard: anybody})
}

const secret = "secret-of-a-test-0123456789"

// conversation returns the conversation in client.py.
func conversation() substrate.Request {
	r := substrate.NewTextRequest(identity.ID{1}, identity.ID{2}, "What is the \"answer\"?\n\u2028ü🦊")
	r.System, r.MaxTokens, r.Secret = "You know things", 500, substrate.NewSecret(secret)
	r.Tools = []substrate.Tool{{Name: "look", Description: "Looks", Schema: json.RawMessage(`{"type":"object","properties":{"for":{"type":"string"}}}`)}}
	r.Turns = append(r.Turns,
		substrate.Turn{Role: substrate.RoleAgent, Text: "Let me see", Calls: []substrate.ToolCall{{ID: "c1", Name: "look", Arguments: `{"for":"a"}`}}},
		substrate.Turn{Role: substrate.RoleTools, Results: []substrate.ToolResult{{ID: "c1", Text: "found"}}})
	return r
}

// asked is a client's request.
type asked struct {
	Path, Key string
	Body      any
}

// provider is a stub of a provider, which says "I know", calls look, and thinks where
// that is said. What it is asked is in the channel.
func provider(t *testing.T, stream string) (url string, got chan asked) {
	got = make(chan asked, 4)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		a := asked{Path: r.URL.RequestURI()}
		for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Anthropic-Version"} {
			if v := r.Header.Get(name); v != "" {
				a.Key += name + ": " + v + "\n"
			}
		}
		if err := json.Unmarshal(b, &a.Body); err != nil {
			t.Errorf("a request that is no JSON: %s", b)
		}
		got <- a
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, stream)
	}))
	t.Cleanup(server.Close)
	return server.URL, got
}

// data are server-sent events.
func data(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		var named struct{ Type string }
		if json.Unmarshal([]byte(e), &named) == nil && named.Type != "" {
			fmt.Fprintf(&b, "event: %s\n", named.Type)
		}
		fmt.Fprintf(&b, "data: %s\n\n", e)
	}
	return b.String()
}

// heard is an answer as a client read it.
type heard struct {
	Text  string         `json:"text"`
	Calls [][2]any       `json:"calls"`
	Usage map[string]int `json:"usage"`
}

// Providers' own clients send what the adapters send for one conversation, and read from
// one stream what the adapters read.
func TestAdaptersSpeakAsProvidersOwnClientsDo(t *testing.T) {
	env := python(t)
	for name, tt := range map[string]struct {
		kinds  func(*outbound.Client) substrate.Kinds
		base   string // below the stub's URL
		stream string
		change func(*substrate.Request)
	}{
		substrate.KindGemini: {gemini.Kinds, "/v1", data(
			`{"candidates":[{"content":{"role":"model","parts":[{"text":"hm","thought":true}]}}]}`,
			`{"candidates":[{"content":{"role":"model","parts":[{"text":"I "}]}}]}`,
			`{"candidates":[{"content":{"role":"model","parts":[{"text":"know"},{"functionCall":{"name":"look","args":{"for":"b"}}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":20,"candidatesTokenCount":7,"thoughtsTokenCount":3,"cachedContentTokenCount":5,"totalTokenCount":30}}`,
		), func(r *substrate.Request) {
			r.Effort, r.Turns[1].Calls[0].Opaque = "low", "b3BhcXVl"
		}},
		substrate.KindAnthropic: {anthropic.Kinds, "/v1", data(
			`{"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":15,"cache_read_input_tokens":5,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, `{"type":"ping"}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"I "}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"know"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t1","name":"look","input":{}}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"for\":"}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\"b\"}"}}`,
			`{"type":"content_block_stop","index":1}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":10}}`,
			`{"type":"message_stop"}`,
		), func(*substrate.Request) {}},
		substrate.KindOpenAI: {openai.Kinds, "/v1", data(
			`{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"I "},"finish_reason":null}]}`,
			`{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"know"},"finish_reason":null}]}`,
			`{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"look","arguments":"{\"for\":"}}]},"finish_reason":null}]}`,
			`{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"b\"}"}}]},"finish_reason":null}]}`,
			`{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
			`{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":10,"total_tokens":30,"prompt_tokens_details":{"cached_tokens":5}}}`,
			`[DONE]`,
		), func(*substrate.Request) {}},
	} {
		t.Run(name, func(t *testing.T) {
			url, got := provider(t, tt.stream)
			cmd := exec.CommandContext(t.Context(), filepath.Join(env, "env", "bin", "python"), "client.py", name, url)
			cmd.Dir = env
			var errs bytes.Buffer
			cmd.Stderr = &errs
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, errs.Bytes())
			}
			var theirs heard
			if err := json.Unmarshal(out, &theirs); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			s, err := tt.kinds(client()).Open(substrate.Spec{Kind: name, Argument: url + tt.base + "#m"})
			if err != nil {
				t.Fatal(err)
			}
			r := conversation()
			tt.change(&r)
			a, err := substrate.ReadAnswer(s.Infer(t.Context(), r))
			if err != nil {
				t.Fatal(err)
			}
			ours := heard{Text: a.Text, Usage: map[string]int{"in": a.Usage.InputTokens, "out": a.Usage.OutputTokens, "cached": a.Usage.CachedTokens}}
			for _, c := range a.Calls {
				var arguments any
				if err := json.Unmarshal([]byte(c.Arguments), &arguments); err != nil {
					t.Error(err)
				}
				ours.Calls = append(ours.Calls, [2]any{c.Name, arguments})
			}
			if diff := cmp.Diff(theirs, ours); diff != "" || ours.Text != "I know" || len(ours.Calls) != 1 {
				t.Errorf("read (-theirs +ours):\n%s", diff)
			}
			first, second := <-got, <-got
			first.Body, second.Body = spelled(first.Body), spelled(second.Body)
			if diff := cmp.Diff(first, second); diff != "" {
				t.Errorf("sent (-theirs +ours):\n%s", diff)
			}
		})
	}
}

// spelled is a JSON value with the names that Google's servers take in two spellings in
// one of them: their own client mixes both.
func spelled(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for from, to := range map[string]string{"parameters_json_schema": "parametersJsonSchema", "thinking_level": "thinkingLevel"} {
			if one, ok := v[from]; ok {
				delete(v, from)
				v[to] = one
			}
		}
		for key := range v {
			v[key] = spelled(v[key])
		}
	case []any:
		for i := range v {
			v[i] = spelled(v[i])
		}
	}
	return v
}

func TestToolsOfOtherSDKsServersAreUsed(t *testing.T) {
	for name, command := range map[string]func(t *testing.T) (dir string, argv []string){
		"npm": func(t *testing.T) (string, []string) { return node(t), []string{"node", "server.mjs"} },
		"PyPI": func(t *testing.T) (string, []string) {
			return python(t), []string{filepath.Join("env", "bin", "python"), "server.py"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, argv := command(t)
			if filepath.Base(argv[0]) != argv[0] {
				argv[0] = filepath.Join(dir, argv[0])
			}
			cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
			cmd.Dir = dir
			problems := new(await.Output)
			cmd.Stderr = problems
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
			url := await.ReadLine(t, "the server", bufio.NewReader(out), problems)
			ctx := t.Context()
			offer, done, err := mcp.Servers(client())(ctx, identity.ID{2}, outbound.Operator, []definition.Server{{Name: "trial", URL: url}})
			if err != nil {
				t.Fatal(err)
			}
			defer done()
			got := map[string]string{}
			for _, tool := range offer.Tools {
				text, err := tool.Run(ctx, nil, json.RawMessage(`{}`))
				if err != nil {
					t.Error(err)
				}
				got[tool.Name] = fmt.Sprintf("%s, %s, changes something: %v", tool.Description, text, tool.Writes)
			}
			want := map[string]string{"mcp__trial__look": "Does look, look by session, changes something: false", "mcp__trial__write": "Does write, write by session, changes something: true"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			s, err := mcp.Kinds(client()).Open(substrate.Spec{Kind: substrate.KindMCP, Argument: url + "#look"})
			if err != nil {
				t.Fatal(err)
			}
			a, err := substrate.ReadAnswer(s.Infer(ctx, substrate.NewTextRequest(identity.ID{1}, identity.ID{2}, "hi")))
			if err != nil || !strings.HasPrefix(a.Text, "look by ") {
				t.Errorf("the tool as a substrate answers %q, %v", a.Text, err)
			}
		})
	}
}
