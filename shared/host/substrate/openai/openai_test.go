package openai_test

import (
	"encoding/json"
	"fmt"
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
	return substratetest.Model{Kinds: openai.Kinds, Kind: "openai", Wire: substratetest.Wire{
		Text:  func(text string) string { return chunk(map[string]any{"content": text}, nil) },
		Usage: func(n string) string { return tokens(n) },
		End: func(why string) string {
			if why == "" {
				return usage + done
			}
			return chunk(map[string]any{}, why) + usage + done
		},
		Call: func(at int, id, name string, arguments ...string) string {
			all := callPiece(at, id, name, "")
			for _, more := range arguments {
				all += callPiece(at, "", "", more)
			}
			return all
		},
		ForeignPart: func(int) string {
			return chunk(map[string]any{"content": []any{map[string]any{"type": "of_tomorrow", "text": "found"}}, "annotations": []any{map[string]any{"type": "url_citation"}}, "of_tomorrow": "found"}, nil)
		},
		MemberRefusals: map[string]string{
			"response_format":  `{"error":"'response_format.type' must be 'json_schema' or 'text'"}`,
			"stream_options":   `{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted","input":{"include_usage":true}}]}`,
			"reasoning_effort": `{"error":{"message":"Unsupported parameter: 'reasoning_effort' is not supported with this model.","type":"invalid_request_error","param":"reasoning_effort","code":"unsupported_parameter"}}`,
			"tool_choice":      `{"error":{"message":"Invalid value for tool_choice: none","type":"invalid_request_error"}}`,
		},
		Stop: "stop", Length: "length", ToolUse: "tool_calls", AnswerWithoutReason: "data: {\"choices\":[{\"delta\":{\"content\":\"hm\"}}]}\n\n" + done,
		DecisiveMembers: []string{"choices", "delta", "content", "tool_calls", "function", "name", "arguments", "finish_reason"},
		WholeAnswer: func(text, why string) string {
			return fmt.Sprintf(`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":%q}],"usage":{"prompt_tokens":12}}`, text, why)
		},
	}}
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

// tokens is a line with a usage of n tokens, as in a JSON value, of the question.
func tokens(n string) string {
	return "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":" + n + ",\"completion_tokens\":7,\"total_tokens\":19,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n"
}

var usage = tokens("12")

const done = "data: [DONE]\n\n"

func TestAnAnswerIsStreamedWithItsThoughtsAndUsage(t *testing.T) {
	for _, member := range []string{"reasoning", "reasoning_content"} {
		s := model().Serve(t, substratetest.ServeEvents(chunk(map[string]any{"role": "assistant", "content": ""}, nil), chunk(map[string]any{member: "hm"}, nil),
			chunk(map[string]any{"content": "forty"}, nil), chunk(map[string]any{"content": "-two"}, "length"), usage, done))
		var got []substrate.Event
		for e, err := range s.Infer(t.Context(), substratetest.Question()) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e)
		}
		want := []substrate.Event{substrate.Thought("hm"), substrate.Text("forty"), substrate.Text("-two"), substrate.Usage{InputTokens: 12, OutputTokens: 7, CachedTokens: 4}, substrate.FinishLength}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	}
}

// callPiece is a line of a stream with a piece of a tool call.
func callPiece(index int, id, name, arguments string) string {
	return chunk(map[string]any{"tool_calls": []any{map[string]any{"index": index, "id": id, "type": "function", "function": map[string]any{"name": name, "arguments": arguments}}}}, nil)
}

func TestToolCallsComeInPieces(t *testing.T) {
	for _, end := range []string{"tool_calls", "stop"} { // some servers say stop
		s := model().Serve(t, substratetest.ServeEvents(chunk(map[string]any{"content": "hm"}, nil), callPiece(0, "c1", "look", ""), callPiece(0, "", "", `{"for":`), callPiece(0, "", "", `"a"}`),
			callPiece(1, "", "list", "{}"), chunk(map[string]any{}, end), usage, done))
		r := substratetest.Question()
		r.Tools = []substrate.Tool{{Name: "look", Schema: json.RawMessage(`{"type":"object"}`)}}
		got, err := substrate.ReadAnswer(s.Infer(t.Context(), r))
		want := substrate.Answer{Text: "hm", Usage: &substrate.Usage{InputTokens: 12, OutputTokens: 7, CachedTokens: 4}, Reason: substrate.FinishToolUse,
			Calls: []substrate.ToolCall{{ID: "c1", Name: "look", Arguments: `{"for":"a"}`}, {ID: "call_1", Name: "list", Arguments: "{}"}}}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("Fold() = %v (-want +got):\n%s", err, diff)
		}
	}
}

// Servers from before tool_calls stream one call as function_call.
func TestAFunctionCallIsACall(t *testing.T) {
	old := func(function any) string { return chunk(map[string]any{"function_call": function}, nil) }
	s := model().Serve(t, substratetest.ServeEvents(chunk(map[string]any{"content": "hm", "function_call": nil}, nil), old(map[string]any{"name": "look", "arguments": ""}),
		old(map[string]any{"arguments": `{"for":`}), old("odd"), old(map[string]any{"arguments": `"a"}`}), chunk(map[string]any{}, "function_call"), done))
	got, err := substrate.ReadAnswer(s.Infer(t.Context(), substratetest.Question()))
	want := substrate.Answer{Text: "hm", Reason: substrate.FinishToolUse, Calls: []substrate.ToolCall{{ID: "call_0", Name: "look", Arguments: `{"for":"a"}`}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("Fold() = %v (-want +got):\n%s", err, diff)
	}
}

// Servers differ in how they tell the pieces of calls apart.
func TestPiecesOfCallsFindTheirCall(t *testing.T) {
	const whole = `"arguments":"{\"for\":\"a\"}"`
	look := func(id string) substrate.ToolCall {
		return substrate.ToolCall{ID: id, Name: "look", Arguments: `{"for":"a"}`}
	}
	list := func(id string) substrate.ToolCall {
		return substrate.ToolCall{ID: id, Name: "list", Arguments: `{"for":"a"}`}
	}
	for what, tt := range map[string]struct {
		pieces []string // of tool_calls, each in an event of its own
		want   []substrate.ToolCall
	}{
		"arguments as an object": {[]string{`{"index":0,"id":"a","function":{"name":"look","arguments":{"for":"a"}}}`}, []substrate.ToolCall{look("a")}},
		"arguments of null":      {[]string{`{"index":0,"id":"a","function":{"name":"look","arguments":null}}`}, []substrate.ToolCall{{ID: "a", Name: "look"}}},
		"arguments that are a list": {[]string{`{"index":0,"id":"a","function":{"name":"look","arguments":["a"]}}`},
			[]substrate.ToolCall{{ID: "a", Name: "look", Arguments: `["a"]`}}},
		"neither index nor id": {[]string{`{"function":{"name":"look",` + whole + `}}`}, []substrate.ToolCall{look("call_0")}},
		"neither index nor id, two of one name": {[]string{`{"function":{"name":"look",` + whole + `}}`, `{"function":{"name":"look",` + whole + `}}`},
			[]substrate.ToolCall{look("call_0"), look("call_1")}},
		"neither index nor id, in pieces": {[]string{`{"function":{"name":"look","arguments":"{\"for\":"}}`, `{"function":{"arguments":"\"a\"}"}}`, `{"function":{"name":"list",` + whole + `}}`},
			[]substrate.ToolCall{look("call_0"), list("call_1")}},
		"one index and no ids": {[]string{`{"index":0,"function":{"name":"look",` + whole + `}}`, `{"index":0,"function":{"name":"list",` + whole + `}}`},
			[]substrate.ToolCall{look("call_0"), list("call_1")}},
		"one index and two ids": {[]string{`{"index":0,"id":"a","function":{"name":"look",` + whole + `}}`, `{"index":0,"id":"b","function":{"name":"list",` + whole + `}}`},
			[]substrate.ToolCall{look("a"), list("b")}},
		"two ids without an index": {[]string{`{"id":"a","function":{"name":"look","arguments":""}}`, `{"id":"b","function":{"name":"list","arguments":""}}`, `{"id":"a","function":{` + whole + `}}`, `{"id":"b","function":{` + whole + `}}`},
			[]substrate.ToolCall{look("a"), list("b")}},
		"one id at two indices": {[]string{`{"index":0,"id":"a","function":{"name":"look",` + whole + `}}`, `{"index":1,"id":"a","function":{"name":"list",` + whole + `}}`},
			[]substrate.ToolCall{look("a"), list("a")}},
		"another id for each piece": {[]string{`{"index":0,"id":"a","function":{"name":"look","arguments":"{\"for\":"}}`, `{"index":0,"id":"b","function":{"arguments":"\"a\"}"}}`},
			[]substrate.ToolCall{look("a")}},
		"a name and an id that are repeated": {[]string{`{"index":0,"id":"a","function":{"name":"look","arguments":"{\"for\":"}}`, `{"index":0,"id":"a","function":{"name":"look","arguments":"\"a\"}"}}`},
			[]substrate.ToolCall{look("a")}},
		"a name that is repeated": {[]string{`{"index":0,"function":{"name":"look","arguments":"{\"for\":"}}`, `{"index":0,"function":{"name":"look","arguments":"\"a\"}"}}`},
			[]substrate.ToolCall{look("call_0")}},
		"a function of null": {[]string{`{"index":0,"id":"a","function":{"name":"look"}}`, `{"index":0,"id":null,"function":null}`, `{"index":0,"function":{` + whole + `}}`}, []substrate.ToolCall{look("a")}},
		"a name in pieces": {[]string{`{"index":0,"id":"a","function":{"name":"lo"}}`, `{"index":0,"function":{"name":"ok"}}`, `{"index":0,"function":{` + whole + `}}`},
			[]substrate.ToolCall{look("a")}},
		"two calls by turns": {[]string{`{"index":0,"id":"a","function":{"name":"look","arguments":"{\"for\":"}},{"index":1,"id":"b","function":{"name":"list","arguments":"{\"for\":"}}`, `{"index":0,"function":{"arguments":"\"a\"}"}},{"index":1,"function":{"arguments":"\"a\"}"}}`},
			[]substrate.ToolCall{look("a"), list("b")}},
		"an index that is none": {[]string{`{"index":"first","id":7,"function":{"name":"look",` + whole + `}}`}, []substrate.ToolCall{look("call_0")}},
	} {
		var lines []string
		for _, p := range tt.pieces {
			lines = append(lines, "data: {\"choices\":[{\"delta\":{\"tool_calls\":["+p+"]}}]}\n\n")
		}
		got, err := substrate.ReadAnswer(model().Serve(t, substratetest.ServeEvents(append(lines, chunk(map[string]any{}, "tool_calls"), done)...)).Infer(t.Context(), substratetest.Question()))
		if diff := cmp.Diff(substrate.Answer{Reason: substrate.FinishToolUse, Calls: tt.want}, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
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
		{"a tool call reason without a call", []string{chunk(map[string]any{}, "tool_calls"), done}, problem.SubstrateMisconfigured},
		{"an error in the middle", []string{text, "data: {\"error\":{\"message\":\"out of memory\"}}\n\n"}, problem.SubstrateUnavailable},
		{"no JSON", []string{text, "data: {\n\n"}, problem.SubstrateMisconfigured},
		{"another form", []string{"data: {\"choices\":7}\n\n", done}, problem.SubstrateMisconfigured},
		{"more calls than an answer has", slices.Repeat([]string{callPiece(0, "", "look", "{}")}, 129), problem.SubstrateMisconfigured},
		{"50 MB of thoughts", slices.Repeat([]string{chunk(map[string]any{"reasoning": strings.Repeat("x", 1<<10)}, nil)}, 50<<10), problem.SubstrateTooLarge},
	} {
		t.Run(tt.what, func(t *testing.T) {
			_, err := substrate.ReadAnswer(model().Serve(t, substratetest.ServeEvents(tt.lines...)).Infer(t.Context(), substratetest.Question()))
			if !problem.Is(err, tt.want) {
				t.Errorf("ReadAnswer() = %v (%s), want %s", err, problem.AsError(err).Kind, tt.want)
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
	s := model().Serve(t, substratetest.ServeEvents(chunk(map[string]any{"content": parts}, "stop"), done))
	var got []substrate.Event
	for e, err := range s.Infer(t.Context(), substratetest.Question()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	if diff := cmp.Diff([]substrate.Event{substrate.Thought("hm"), substrate.Text("yes"), substrate.FinishStop}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func FuzzStream(f *testing.F) {
	f.Add([]byte(chunk(map[string]any{"content": "x", "reasoning": "y"}, "stop") + usage + done))
	f.Add([]byte(callPiece(0, "c1", "look", "{}") + chunk(map[string]any{}, "tool_calls") + done))
	f.Add([]byte("data: {\"choices\":[{\"index\":1}],\"error\":null}\n\n"))
	model().FuzzStream(f)
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
