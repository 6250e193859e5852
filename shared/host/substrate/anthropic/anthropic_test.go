package anthropic_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/anthropic"
	"github.com/vacancy-host/vacancy/shared/host/substrate/substratetest"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// event is an event of a stream, with members besides its type.
func event(kind string, members map[string]any) string {
	all := map[string]any{"type": kind}
	for name, value := range members {
		all[name] = value
	}
	b, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return "event: " + kind + "\ndata: " + string(b) + "\n\n"
}

// block begins a part of the answer, delta goes on with it.
func block(index int, members map[string]any) string {
	return event("content_block_start", map[string]any{"index": index, "content_block": members})
}

func delta(index int, kind, member, text string) string {
	return event("content_block_delta", map[string]any{"index": index, "delta": map[string]any{"type": kind, member: text}})
}

func text(s string) string { return delta(0, "text_delta", "text", s) }

// ended ends an answer.
func ended(why string) string {
	return event("message_delta", map[string]any{"delta": map[string]any{"stop_reason": why}, "usage": map[string]any{"output_tokens": 7}}) + event("message_stop", nil)
}

var (
	begin = event("message_start", map[string]any{"message": map[string]any{"id": "msg_1", "type": "message", "role": "assistant", "content": []any{}, "model": "m", "stop_reason": nil,
		"usage": map[string]any{"input_tokens": 5, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 1}}}) + event("ping", nil)
	open = block(0, map[string]any{"type": "text", "text": ""})
	stop = event("content_block_stop", map[string]any{"index": 0})
)

func model() substratetest.Model {
	return substratetest.Model{Kinds: anthropic.Kinds, Kind: "anthropic", Wire: substratetest.Wire{
		Begin: begin + open, Text: text,
		Usage: func(n string) string {
			return "data: {\"type\":\"message_delta\",\"delta\":{},\"usage\":{\"input_tokens\":" + n + ",\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0}}\n\n"
		},
		End: func(why string) string {
			if why == "" {
				return event("message_stop", nil)
			}
			return stop + ended(why)
		},
		Call: func(at int, id, name string, arguments ...string) string {
			all := block(at, map[string]any{"type": "tool_use", "id": id, "name": name, "input": map[string]any{}})
			for _, more := range arguments {
				all += delta(at, "input_json_delta", "partial_json", more)
			}
			return all
		},
		ForeignPart: func(at int) string {
			use := block(at, map[string]any{"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": map[string]any{}}) +
				delta(at, "input_json_delta", "partial_json", `{"query":`) + delta(at, "input_json_delta", "partial_json", `"hm"}`)
			other := block(at, map[string]any{"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "look", "server_name": "x", "input": map[string]any{}}) + delta(at, "input_json_delta", "partial_json", `{}`)
			result := block(at, map[string]any{"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []any{map[string]any{"type": "web_search_result", "url": "https://example.com", "text": "found"}}})
			tomorrow := block(at, map[string]any{"type": "of_tomorrow", "text": "found"}) + delta(at, "text_delta", "text", "found") + event("content_block_delta", map[string]any{"index": at, "delta": 7})
			return stop + use + stop + result + stop + other + stop + tomorrow + stop + open
		},
		MemberRefusals: map[string]string{"output_config": `{"type":"error","error":{"type":"invalid_request_error","message":"This model does not support the effort parameter."}}`},
		Stop:           "end_turn", Length: "max_tokens", ToolUse: "tool_use", AnswerWithoutReason: open + text("hm") + event("message_stop", nil),
		DecisiveMembers: []string{"type", "content_block", "delta", "text", "name", "input", "partial_json", "stop_reason"},
		WholeAnswer: func(text, why string) string {
			return fmt.Sprintf(`{"type":"message","role":"assistant","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"hm"}},{"type":"text","text":%q},{"type":"of_tomorrow","text":"found"}],"stop_reason":%q,"usage":{"input_tokens":12}}`, text, why)
		},
	}}
}

func TestContract(t *testing.T) { model().Run(t) }

func FuzzStream(f *testing.F) {
	f.Add([]byte(begin + block(0, map[string]any{"type": "tool_use", "id": "t", "name": "n", "input": map[string]any{}}) + delta(0, "input_json_delta", "partial_json", "{") + ended("tool_use")))
	model().FuzzStream(f)
}

// serve asks a server that streams events.
func serve(t *testing.T, events ...string) substrate.Substrate {
	return model().Serve(t, substratetest.ServeEvents(events...))
}

func TestAnAnswerIsStreamedWithItsThoughtsAndUsage(t *testing.T) {
	s := serve(t, begin, block(0, map[string]any{"type": "thinking", "thinking": ""}), delta(0, "thinking_delta", "thinking", "hm"), delta(0, "signature_delta", "signature", "c2ln"), stop,
		block(1, map[string]any{"type": "text", "text": ""}), text("forty"), event("ping", nil), text("-two"), stop, event("of_tomorrow", nil), ended("max_tokens"))
	var got []substrate.Event
	for e, err := range s.Infer(t.Context(), substratetest.Question()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	want := []substrate.Event{substrate.Usage{InputTokens: 12, OutputTokens: 1, CachedTokens: 4}, substrate.Thought("hm"), substrate.Text("forty"), substrate.Text("-two"), substrate.Usage{InputTokens: 12, OutputTokens: 7, CachedTokens: 4}, substrate.FinishLength}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestToolCallsComeInPieces(t *testing.T) {
	use := func(index int, id string) string {
		return block(index, map[string]any{"type": "tool_use", "id": id, "name": "look", "input": map[string]any{}})
	}
	s := serve(t, begin, open, text("hm"), stop, use(1, "t1"), delta(1, "input_json_delta", "partial_json", `{"for":`), delta(1, "input_json_delta", "partial_json", `"a"}`), stop,
		use(2, "t2"), stop, ended("tool_use"))
	got, err := substrate.ReadAnswer(s.Infer(t.Context(), substratetest.Question()))
	want := substrate.Answer{Text: "hm", Usage: &substrate.Usage{InputTokens: 12, OutputTokens: 7, CachedTokens: 4}, Reason: substrate.FinishToolUse,
		Calls: []substrate.ToolCall{{ID: "t1", Name: "look", Arguments: `{"for":"a"}`}, {ID: "t2", Name: "look"}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("Fold() = %v (-want +got):\n%s", err, diff)
	}
}

func TestStreamsThatAreNoAnswer(t *testing.T) {
	fails := func(kind string) string {
		return event("error", map[string]any{"error": map[string]any{"type": kind, "message": "x"}})
	}
	for _, tt := range []struct {
		what   string
		events []string
		want   problem.Kind
		seen   bool // some event comes first: the server is not asked again
	}{
		{"a refusal", []string{begin, open, text("I"), ended("refusal")}, problem.SubstrateRefused, true},
		{"overloaded at once", []string{begin, fails("overloaded_error")}, problem.SubstrateUnavailable, false},
		{"overloaded in the middle", []string{begin, open, text("x"), fails("overloaded_error")}, problem.SubstrateUnavailable, true},
		{"too many requests", []string{fails("rate_limit_error")}, problem.SubstrateBusy, false},
		{"a wrong request", []string{fails("invalid_request_error")}, problem.SubstrateMisconfigured, false},
		{"a pause", []string{begin, ended("pause_turn")}, problem.SubstrateMisconfigured, true},
		{"a tool call reason without a call", []string{begin, ended("tool_use")}, problem.SubstrateMisconfigured, true},
		{"arguments without a call", []string{begin, open, delta(0, "input_json_delta", "partial_json", "{")}, problem.SubstrateMisconfigured, true},
		{"no JSON", []string{begin, "data: {\n\n"}, problem.SubstrateMisconfigured, false},
		{"another form", []string{"data: {\"type\":7}\n\n"}, problem.SubstrateMisconfigured, false},
		{"no end", []string{begin, open, text("x"), stop}, problem.SubstrateUnavailable, true},
	} {
		t.Run(tt.what, func(t *testing.T) {
			seen := false
			for e, err := range serve(t, tt.events...).Infer(t.Context(), substratetest.Question()) {
				if err != nil && !problem.Is(err, tt.want) {
					t.Errorf("Infer() = %v (%s), want %s", err, problem.AsError(err).Kind, tt.want)
				}
				if _, ok := e.(substrate.FinishReason); ok {
					t.Error("it is an answer")
				}
				seen = seen || err == nil
			}
			if seen != tt.seen {
				t.Errorf("an event comes before the error: %v, want %v", seen, tt.seen)
			}
		})
	}
}
