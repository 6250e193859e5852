package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/openai"
	"github.com/vacancy-host/vacancy/shared/host/substrate/substratetest"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// anybody is the guard of a vacant that may call everybody.
func anybody(context.Context, outbound.Actor, string) error { return nil }

// serve opens the model m at a server.
func serve(t testing.TB, h http.HandlerFunc) substrate.Substrate {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	s, err := openai.Kinds(outbound.New(outbound.Options{AllowLoopback: true, Guard: anybody}))["openai"](server.URL + "/v1#m")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// chunk is a line of a stream with a delta.
func chunk(delta map[string]any, finish any) string {
	b, err := json.Marshal(map[string]any{"id": "c1", "object": "chat.completion.chunk", "model": "m",
		"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
	if err != nil {
		panic(err)
	}
	return "data: " + string(b) + "\n\n"
}

// stream answers with lines.
func stream(lines ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, l := range lines {
			_, _ = io.WriteString(w, l)
		}
	}
}

const (
	usage = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":7,\"total_tokens\":19,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n"
	done  = "data: [DONE]\n\n"
)

func TestContract(t *testing.T) {
	substratetest.Run(t, func(t testing.TB, script substratetest.Script) substrate.Substrate {
		return serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // the server sees the client leave from here on
			select {
			case <-time.After(script.Wait):
			case <-r.Context().Done():
				return
			}
			if script.Status != 0 {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(script.Status)
				_, _ = io.WriteString(w, script.Text)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			runes := []rune(script.Text)
			for part := range slices.Chunk(runes, 1000) {
				_, _ = io.WriteString(w, chunk(map[string]any{"content": string(part)}, nil))
			}
			if script.Cut {
				return
			}
			_, _ = io.WriteString(w, chunk(map[string]any{}, "stop")+usage+done)
		})
	})
}

// The requests are what a person reads in the golden files, and have nothing of this
// machine or of the vacant.
func TestTheRequestIsAsWritten(t *testing.T) {
	plain := substratetest.Question()
	thread := "thread-1"
	plain.ContextID = &thread
	plain.Turns = append([]substrate.Turn{{Role: substrate.Caller, Text: "Before"}, {Role: substrate.Agent, Text: "Said"}}, plain.Turns...)
	whole := substratetest.Question()
	whole.System, whole.MaxTokens, whole.Effort, whole.JSON, whole.Final = "You know things", 500, substrate.Low, true, true
	whole.Tools = []substrate.Tool{{Name: "look", Description: "Looks", Schema: json.RawMessage(`{"type":"object","properties":{"for":{"type":"string"}}}`)}}
	whole.Turns = append(whole.Turns,
		substrate.Turn{Role: substrate.Agent, Text: "Let me see", Calls: []substrate.ToolCall{{ID: "c1", Name: "look", Arguments: `{"for":"a"}`}, {ID: "c2", Name: "look", Arguments: `{"for`}}},
		substrate.Turn{Role: substrate.Tools, Results: []substrate.ToolResult{{ID: "c1", Text: "found"}, {ID: "c2", Text: "no JSON", Failed: true}}})
	for file, r := range map[string]substrate.Request{"request": plain, "agent": whole} {
		t.Run(file, func(t *testing.T) { asWritten(t, "testdata/"+file+".golden", r) })
	}
}

func asWritten(t *testing.T, file string, r substrate.Request) {
	t.Setenv("OPENAI_API_KEY", "sk-of-the-environment")
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
	var got string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var indented any
		if err := json.Unmarshal(body, &indented); err != nil {
			t.Errorf("body %s: %v", body, err)
		}
		pretty, _ := json.MarshalIndent(indented, "", "  ")
		got = fmt.Sprintf("%s %s\n", r.Method, r.URL)
		names := []string{}
		for name := range r.Header {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			if name != "Content-Length" {
				got += fmt.Sprintf("%s: %s\n", name, r.Header.Get(name))
			}
		}
		got += "\n" + string(pretty) + "\n"
		stream(chunk(map[string]any{"content": "hi"}, "stop"), done)(w, r)
	})
	if _, err := substrate.Fold(s.Infer(t.Context(), r)); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestAnAnswerIsStreamedWithItsThoughtsAndUsage(t *testing.T) {
	for _, member := range []string{"reasoning", "reasoning_content"} {
		s := serve(t, stream(chunk(map[string]any{"role": "assistant", "content": ""}, nil), chunk(map[string]any{member: "hm"}, nil),
			chunk(map[string]any{"content": "forty"}, nil), chunk(map[string]any{"content": "-two"}, "length"), usage, done))
		var got []substrate.Event
		for e, err := range s.Infer(t.Context(), substratetest.Question()) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e)
		}
		want := []substrate.Event{substrate.Thought("hm"), substrate.Text("forty"), substrate.Text("-two"), substrate.Usage{In: 12, Out: 7, Cached: 4}, substrate.Length}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	}
}

// piece is a line of a stream with a piece of a tool call.
func piece(index int, id, name, arguments string) string {
	return chunk(map[string]any{"tool_calls": []any{map[string]any{"index": index, "id": id, "type": "function", "function": map[string]any{"name": name, "arguments": arguments}}}}, nil)
}

func TestToolCallsComeInPieces(t *testing.T) {
	for _, end := range []string{"tool_calls", "stop"} { // some servers say stop
		s := serve(t, stream(chunk(map[string]any{"content": "hm"}, nil), piece(0, "c1", "look", ""), piece(0, "", "", `{"for":`), piece(0, "", "", `"a"}`),
			piece(1, "", "list", "{}"), chunk(map[string]any{}, end), usage, done))
		r := substratetest.Question()
		r.Tools = []substrate.Tool{{Name: "look", Schema: json.RawMessage(`{"type":"object"}`)}}
		got, err := substrate.Fold(s.Infer(t.Context(), r))
		want := substrate.Answer{Text: "hm", Usage: &substrate.Usage{In: 12, Out: 7, Cached: 4}, Why: substrate.Called,
			Calls: []substrate.ToolCall{{ID: "c1", Name: "look", Arguments: `{"for":"a"}`}, {ID: "call_1", Name: "list", Arguments: "{}"}}}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("Fold() = %v (-want +got):\n%s", err, diff)
		}
	}
}

func TestAnAgentIsToldWhenToComeAgain(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	_, err := substrate.Fold(s.Infer(t.Context(), substratetest.Question()))
	if agent := new(call.AgentError); !errors.As(err, &agent) || agent.After != 3*time.Second {
		t.Errorf("Fold() = %v, asked to wait %v, want 3s", err, agent.After)
	}
}

func TestStreamsThatAreNoAnswer(t *testing.T) {
	text := chunk(map[string]any{"content": "x"}, nil)
	for _, tt := range []struct {
		what  string
		lines []string
		want  problem.Kind
	}{
		{"a refusal", []string{chunk(map[string]any{"refusal": "I will not"}, nil), done}, problem.SubstrateRefused},
		{"a filter", []string{text, chunk(map[string]any{}, "content_filter"), done}, problem.SubstrateRefused},
		{"a call of no tool", []string{chunk(map[string]any{}, "tool_calls"), done}, problem.SubstrateMisconfigured},
		{"a call that begins in the middle", []string{piece(1, "c", "x", "{}"), done}, problem.SubstrateMisconfigured},
		{"a call before the first", []string{piece(-1, "c", "x", "{}"), done}, problem.SubstrateMisconfigured},
		{"an error in the middle", []string{text, "data: {\"error\":{\"message\":\"out of memory\"}}\n\n"}, problem.SubstrateUnavailable},
		{"no JSON", []string{text, "data: {\n\n"}, problem.SubstrateMisconfigured},
		{"another form", []string{"data: {\"choices\":7}\n\n", done}, problem.SubstrateMisconfigured},
		{"no stream at all", []string{`{"choices":[{"message":{"content":"whole"}}]}`}, problem.SubstrateUnavailable},
		{"no reason to end", []string{text, done}, problem.SubstrateUnavailable},
		{"a model that never ends", slices.Repeat([]string{text}, 60_000), problem.SubstrateTooLarge},
		{"50 MB of thoughts", slices.Repeat([]string{chunk(map[string]any{"reasoning": strings.Repeat("x", 1<<10)}, nil)}, 50<<10), problem.SubstrateTooLarge},
		{"one line of 50 MB", []string{"data: " + strings.Repeat("x", 50<<20)}, problem.SubstrateTooLarge},
	} {
		t.Run(tt.what, func(t *testing.T) {
			_, err := substrate.Fold(serve(t, stream(tt.lines...)).Infer(t.Context(), substratetest.Question()))
			if !problem.Is(err, tt.want) {
				t.Errorf("Fold() = %v (%s), want %s", err, problem.Of(err).Kind, tt.want)
			}
		})
	}
}

func TestAServerThatIsStartingAgainLosesNoCall(t *testing.T) {
	agent := stream(chunk(map[string]any{"content": "back"}, "stop"), done)
	substratetest.StartingAgain(t, agent, func(url string) (substrate.Substrate, error) {
		return openai.Kinds(outbound.New(outbound.Options{AllowLoopback: true, Guard: anybody}))["openai"](url + "#m")
	})
}

// The guard is asked for the one URL that a Spec names.
func TestTheGuardIsAskedForTheEndpoint(t *testing.T) {
	for _, spec := range []substrate.Spec{
		{Kind: "openai", Argument: "http://127.0.0.1:1/v1#m"}, {Kind: "openai", Argument: "http://127.0.0.1:1#m"},
		{Kind: "openai", Argument: "http://127.0.0.1:1/a%20b/#m"}, {Kind: "ollama", Argument: "llama3.2:1b"},
	} {
		var asked string
		kinds := openai.Kinds(outbound.New(outbound.Options{AllowLoopback: true, Guard: func(_ context.Context, _ outbound.Actor, url string) error {
			asked = url
			return problem.New(problem.TreeOnly, "not among its tools")
		}}))
		s, err := kinds.Open(spec)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := substrate.Fold(s.Infer(t.Context(), substratetest.Question())); !problem.Is(err, problem.SubstrateMisconfigured) {
			t.Errorf("%s: %v, want it misconfigured", spec, err)
		}
		if asked != spec.Endpoint() || asked == "" {
			t.Errorf("%s: the guard is asked for %q, want %q", spec, asked, spec.Endpoint())
		}
	}
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	kinds := openai.Kinds(outbound.New(outbound.Options{}))
	for _, in := range []string{"openai", "openai:#m", "openai:http://x.example/v1", "openai:http://x.example/v1#", "openai:ftp://x.example#m",
		"openai:http://me:secret@x.example#m", "openai:http://bücher.example#m", "openai:http://x.example?a=b#m", "openai:http://x.example#two words",
		"openai:http://x.example#\x00", "openai:http://x.example#" + strings.Repeat("m", 257), "ollama", "ollama:"} {
		spec, err := substrate.Parse(in)
		if err == nil {
			_, err = kinds.Open(spec)
		}
		if !problem.Is(err, problem.Malformed) || strings.Contains(problem.Of(err).Text(), "secret") {
			t.Errorf("%q: %v, want a refusal without the secret", in, err)
		}
	}
}

// Whatever a server streams, an answer ends with one event or one error.
func FuzzStream(f *testing.F) {
	f.Add([]byte(chunk(map[string]any{"content": "x", "reasoning": "y"}, "stop") + usage + done))
	f.Add([]byte(piece(0, "c1", "look", "{}") + chunk(map[string]any{}, "tool_calls") + done))
	f.Add([]byte("data: {\"choices\":[{\"index\":1}],\"error\":null}\n\ndata: {\"error\":7}\n\n"))
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
	f.Cleanup(server.Close)
	s, err := openai.Kinds(outbound.New(outbound.Options{AllowLoopback: true, Guard: anybody}))["openai"](server.URL + "#m")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		body = in
		ends := 0
		for e, err := range s.Infer(t.Context(), substratetest.Question()) {
			if _, last := e.(substrate.Done); last || err != nil {
				ends++
			} else if ends > 0 || e == nil {
				t.Fatalf("event %v after the end", e)
			}
			if err != nil && !problem.Of(err).Kind.IsFailure() {
				t.Errorf("error %v of kind %s", err, problem.Of(err).Kind)
			}
		}
		if ends != 1 {
			t.Errorf("%d ends, want 1", ends)
		}
	})
}
