package openai_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/openai"
	"github.com/vacancy-host/vacancy/shared/host/substrate/substratetest"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// model is the adapter as the suite sees it.
func model() substratetest.Model {
	return substratetest.Model{
		Kinds: openai.Kinds, Kind: "openai",
		Piece: func(text string) string { return chunk(map[string]any{"content": text}, nil) },
		End:   chunk(map[string]any{}, "stop") + usage + done,
	}
}

func TestContract(t *testing.T) { model().Run(t) }

// chunk is a line of a stream with a delta.
func chunk(delta map[string]any, finish any) string {
	b, err := json.Marshal(map[string]any{"id": "c1", "object": "chat.completion.chunk", "model": "m",
		"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
	if err != nil {
		panic(err)
	}
	return "data: " + string(b) + "\n\n"
}

const (
	usage = "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":7,\"total_tokens\":19,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n"
	done  = "data: [DONE]\n\n"
)

func TestAnAnswerIsStreamedWithItsThoughtsAndUsage(t *testing.T) {
	for _, member := range []string{"reasoning", "reasoning_content"} {
		s := model().Serve(t, substratetest.Stream(chunk(map[string]any{"role": "assistant", "content": ""}, nil), chunk(map[string]any{member: "hm"}, nil),
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
		s := model().Serve(t, substratetest.Stream(chunk(map[string]any{"content": "hm"}, nil), piece(0, "c1", "look", ""), piece(0, "", "", `{"for":`), piece(0, "", "", `"a"}`),
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
		{"50 MB of thoughts", slices.Repeat([]string{chunk(map[string]any{"reasoning": strings.Repeat("x", 1<<10)}, nil)}, 50<<10), problem.SubstrateTooLarge},
	} {
		t.Run(tt.what, func(t *testing.T) {
			_, err := substrate.Fold(model().Serve(t, substratetest.Stream(tt.lines...)).Infer(t.Context(), substratetest.Question()))
			if !problem.Is(err, tt.want) {
				t.Errorf("Fold() = %v (%s), want %s", err, problem.Of(err).Kind, tt.want)
			}
		})
	}
}

// OpenAI itself has another name for a limit, and Mistral refuses a member that it
// does not know.
func TestProvidersDiffer(t *testing.T) {
	for kind, want := range map[string]string{
		"openai":  "max_completion_tokens model stream stream_options",
		"mistral": "max_tokens model stream",
	} {
		var sent map[string]any
		r := substratetest.Question()
		r.MaxTokens = 7
		if err := json.Unmarshal(openai.Body(substrate.Spec{Kind: kind, Argument: "m"}, &r), &sent); err != nil {
			t.Fatal(err)
		}
		delete(sent, "messages")
		if got := strings.Join(slices.Sorted(maps.Keys(sent)), " "); got != want {
			t.Errorf("%s: members %s, want %s", kind, got, want)
		}
	}
}

// Mistral's models that reason answer in parts.
func TestPartsOfAnAnswer(t *testing.T) {
	parts := []any{map[string]any{"type": "thinking", "thinking": []any{map[string]any{"type": "text", "text": "hm"}}}, map[string]any{"type": "text", "text": "yes"}}
	s := model().Serve(t, substratetest.Stream(chunk(map[string]any{"content": parts}, "stop"), done))
	var got []substrate.Event
	for e, err := range s.Infer(t.Context(), substratetest.Question()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	if diff := cmp.Diff([]substrate.Event{substrate.Thought("hm"), substrate.Text("yes"), substrate.Stop}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func FuzzStream(f *testing.F) {
	f.Add([]byte(chunk(map[string]any{"content": "x", "reasoning": "y"}, "stop") + usage + done))
	f.Add([]byte(piece(0, "c1", "look", "{}") + chunk(map[string]any{}, "tool_calls") + done))
	f.Add([]byte("data: {\"choices\":[{\"index\":1}],\"error\":null}\n\n"))
	model().Stream(f)
}

func TestOllamaIsOnThisMachine(t *testing.T) {
	spec := substrate.Spec{Kind: "ollama", Argument: "llama3.2:1b"}
	if got := spec.Endpoint(); got != substrate.OllamaURL+"/chat/completions" {
		t.Errorf("%s is at %s", spec, got)
	}
	for _, argument := range []string{"", "two words"} {
		if _, err := openai.Kinds(nil).Open(substrate.Spec{Kind: "ollama", Argument: argument}); !problem.Is(err, problem.Malformed) {
			t.Errorf("%q: %v, want a refusal", argument, err)
		}
	}
}
