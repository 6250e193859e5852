package gemini_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/gemini"
	"github.com/vacancy-host/vacancy/shared/host/substrate/substratetest"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func data(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return "data: " + string(b) + "\n\n"
}

// chunk is an event with parts of the answer; why is "" unless it is the last.
func chunk(why string, parts ...map[string]any) string {
	one := map[string]any{"index": 0, "content": map[string]any{"role": "model", "parts": parts}}
	if why != "" {
		one["finishReason"] = why
	}
	return data(map[string]any{"candidates": []any{one}, "usageMetadata": map[string]any{"promptTokenCount": 12, "candidatesTokenCount": 5, "thoughtsTokenCount": 2, "cachedContentTokenCount": 4, "totalTokenCount": 19}})
}

// bare is a chunk without usage.
func bare(why string, parts ...map[string]any) string {
	one := map[string]any{"content": map[string]any{"role": "model", "parts": parts}}
	if why != "" {
		one["finishReason"] = why
	}
	return data(map[string]any{"candidates": []any{one}})
}

func text(s string) string { return chunk("", map[string]any{"text": s}) }

func model() substratetest.Model {
	return substratetest.Model{Kinds: gemini.Kinds, Kind: "gemini", Wire: substratetest.Wire{
		Text:  text,
		Usage: func(n string) string { return "data: {\"usageMetadata\":{\"promptTokenCount\":" + n + "}}\n\n" },
		End:   func(why string) string { return bare(why) },
		Call: func(_ int, id, name string, arguments ...string) string {
			args := any(strings.Join(arguments, ""))
			if whole := map[string]any{}; json.Unmarshal([]byte(args.(string)), &whole) == nil {
				args = whole
			}
			return bare("", map[string]any{"functionCall": map[string]any{"id": id, "name": name, "args": args}})
		},
		ForeignPart: func(int) string {
			return bare("", map[string]any{"executableCode": map[string]any{"language": "PYTHON", "code": "found"}}, map[string]any{"codeExecutionResult": map[string]any{"outcome": "OUTCOME_OK", "output": "found"}}, map[string]any{"ofTomorrow": "found"})
		},
		MemberRefusals: map[string]string{"thinkingConfig": `{"error":{"code":400,"message":"Thinking level is not supported for this model.","status":"INVALID_ARGUMENT"}}`},
		Stop:           "STOP", Length: "MAX_TOKENS", ToolUse: "STOP",
		DecisiveMembers: []string{"candidates", "content", "parts", "text", "functionCall", "name", "args", "for", "finishReason"},
		WholeAnswer: func(text, why string) string {
			return strings.TrimPrefix(bare(why, map[string]any{"text": text}), "data: ")
		},
	}}
}

func TestContract(t *testing.T) { model().Run(t) }

func FuzzStream(f *testing.F) {
	f.Add([]byte(chunk("STOP", map[string]any{"functionCall": map[string]any{"name": "n", "args": map[string]any{}}})))
	f.Add([]byte(data(map[string]any{"promptFeedback": map[string]any{"blockReason": "SAFETY"}})))
	model().FuzzStream(f)
}

func serve(t *testing.T, events ...string) substrate.Substrate {
	return model().Serve(t, substratetest.ServeEvents(events...))
}

func TestAnAnswerIsStreamedWithItsThoughtsAndUsage(t *testing.T) {
	s := serve(t, chunk("", map[string]any{"text": "hm", "thought": true}), text("forty"), chunk("MAX_TOKENS", map[string]any{"text": "-two"}))
	var got []substrate.Event
	for e, err := range s.Infer(t.Context(), substratetest.Question()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	used := substrate.Usage{InputTokens: 12, OutputTokens: 7, CachedTokens: 4}
	want := []substrate.Event{substrate.Thought("hm"), used, substrate.Text("forty"), used, substrate.Text("-two"), used, substrate.FinishLength}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// The signature of a thought comes back with its call.
func TestToolCalls(t *testing.T) {
	call := func(id, of string) map[string]any {
		return map[string]any{"functionCall": map[string]any{"id": id, "name": "look", "args": map[string]any{"for": of}}}
	}
	first := call("f1", "a")
	first["thoughtSignature"] = "c2ln"
	s := serve(t, chunk("", map[string]any{"text": "hm"}, first, call("", "b")), chunk("STOP"))
	got, err := substrate.ReadAnswer(s.Infer(t.Context(), substratetest.Question()))
	want := substrate.Answer{Text: "hm", Usage: &substrate.Usage{InputTokens: 12, OutputTokens: 7, CachedTokens: 4}, Reason: substrate.FinishToolUse,
		Calls: []substrate.ToolCall{{ID: "f1", Name: "look", Arguments: `{"for":"a"}`, Opaque: "c2ln"}, {ID: "call_1", Name: "look", Arguments: `{"for":"b"}`}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("Fold() = %v (-want +got):\n%s", err, diff)
	}
}

func TestModelsThinkByBudgetOrByLevel(t *testing.T) {
	for model, want := range map[string]string{"gemini-2.5-flash": `{"thinkingBudget":1024}`, "gemini-3-pro-preview": `{"thinkingLevel":"LOW"}`} {
		if got := gemini.Thinking(model, substrate.Low); got != want {
			t.Errorf("%s: %s, want %s", model, got, want)
		}
	}
}

func TestStreamsThatAreNoAnswer(t *testing.T) {
	fails := func(status string) string {
		return data(map[string]any{"error": map[string]any{"code": 1, "message": "x", "status": status}})
	}
	for _, tt := range []struct {
		what   string
		events []string
		want   problem.Kind
	}{
		{"a blocked question", []string{data(map[string]any{"promptFeedback": map[string]any{"blockReason": "SAFETY"}})}, problem.SubstrateRefused},
		{"a blocked answer", []string{text("I"), chunk("PROHIBITED_CONTENT")}, problem.SubstrateRefused},
		{"a call that is none", []string{chunk("MALFORMED_FUNCTION_CALL")}, problem.SubstrateMisconfigured},
		{"overloaded", []string{fails("UNAVAILABLE")}, problem.SubstrateUnavailable},
		{"too many requests", []string{fails("RESOURCE_EXHAUSTED")}, problem.SubstrateBusy},
		{"no JSON", []string{text("x"), "data: {\n\n"}, problem.SubstrateMisconfigured},
		{"another form", []string{"data: {\"candidates\":7}\n\n"}, problem.SubstrateMisconfigured},
		{"no end", []string{text("x")}, problem.SubstrateUnavailable},
	} {
		t.Run(tt.what, func(t *testing.T) {
			if _, err := substrate.ReadAnswer(serve(t, tt.events...).Infer(t.Context(), substratetest.Question())); !problem.Is(err, tt.want) {
				t.Errorf("ReadAnswer() = %v (%s), want %s", err, problem.AsError(err).Kind, tt.want)
			}
		})
	}
}

// A model without a mode for JSON is asked for JSON in words.
func TestAModelWithoutJSONMode(t *testing.T) {
	var bodies []string
	s := model().Serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bodies = append(bodies, string(body)); strings.Contains(string(body), "responseMimeType") {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"code":400,"message":"JSON mode is not enabled for models/gemma-3-27b-it","status":"INVALID_ARGUMENT"}}`)
			return
		}
		_, _ = io.WriteString(w, text("{}")+bare("STOP"))
	})
	r := substratetest.Question()
	r.JSON = true
	got, err := substrate.ReadAnswer(s.Infer(t.Context(), r))
	if err != nil || got.Text != "{}" || len(bodies) != 2 || !strings.Contains(bodies[1], "only one JSON document") {
		t.Errorf("Fold() = %q, %v, after %q", got.Text, err, bodies)
	}
}
