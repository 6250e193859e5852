package substratetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/loop"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Wire encodes the events of a provider's server.
type Wire struct {
	Begin string                // events before the answer, may be empty
	Text  func(string) string   // piece of the answer
	Usage func(n string) string // usage report with n input tokens, where n is any JSON value
	// End encodes the end of the answer and of its stream. If why is "", the end has no finish reason.
	End func(why string) string
	// Call encodes a tool call at an index of the answer. arguments are the pieces of its
	// arguments.
	Call func(at int, id, name string, arguments ...string) string

	Stop, Length, ToolUse string // finish reasons
	// AnswerWithoutReason encodes a complete answer "hm" without a finish reason. It is "" if all
	// servers of the provider send a finish reason.
	AnswerWithoutReason string
	// DecisiveMembers lists the members that determine an answer. If one of them is wrong, the
	// answer may fail.
	DecisiveMembers []string
	// ForeignPart encodes a part of an answer that is not for the host, for example a call of a
	// tool that the provider itself runs.
	ForeignPart func(at int) string
	// MemberRefusals contains, for each optional request member, the error of a server that rejects
	// the member.
	MemberRefusals map[string]string
	// WholeAnswer encodes an answer as one JSON document. It is nil for a provider whose library reads
	// only streams.
	WholeAnswer func(text, why string) string

	// SplitStream and EditEvent are set for a provider without server-sent events. SplitStream
	// returns the events of a stream. EditEvent applies f to the JSON value of an event and returns
	// the new event.
	SplitStream func(stream string) []string
	EditEvent   func(event string, f func(any) any) string
}

// oddity is an unusual reply and the expected result.
type oddity struct {
	name, body       string
	want             substrate.Answer // without usage
	wantKind         problem.Kind     // kind of the expected failure, or zero for an answer
	wantInBody       string           // part of the reply that the operator must see
	requiresDocument bool             // whether the agent requires a JSON document
}

func newLookCall(id string) substrate.ToolCall {
	return substrate.ToolCall{ID: id, Name: "look", Arguments: `{"for":"` + id + `"}`}
}

// listOddities returns unusual replies that any provider may send.
func (w Wire) listOddities() []oddity {
	const halfArguments = `{"for":`
	answer := func(text string, reason substrate.FinishReason, calls ...substrate.ToolCall) substrate.Answer {
		return substrate.Answer{Text: text, Reason: reason, Calls: calls}
	}
	hm := w.Begin + w.Text("hm")
	wholeCall := func(index int, id string) string { return w.Call(index, id, "look", halfArguments, `"`+id+`"}`) }
	oddities := []oddity{
		{name: "a call without arguments that is cut off", body: w.Begin + w.Call(0, "a", "look") + w.End(w.Length), wantKind: problem.SubstrateMisconfigured},
		{name: "half a call that is cut off", body: hm + w.Call(0, "a", "look", halfArguments) + w.End(w.Length), want: answer("hm", substrate.FinishLength)},
		{name: "a whole call before the answer is cut off", body: hm + wholeCall(0, "a") + w.End(w.Length), want: answer("hm", substrate.FinishLength)},
		{name: "a stream that ends within a call", body: hm + w.Call(0, "a", "look", halfArguments), wantKind: problem.SubstrateUnavailable},
		{name: "a stream that ends after a call", body: hm + wholeCall(0, "a"), wantKind: problem.SubstrateUnavailable},
		{name: "a stream that ends after a text", body: hm, wantKind: problem.SubstrateUnavailable},
		{name: "two calls", body: hm + wholeCall(0, "a") + wholeCall(1, "b") + w.End(w.ToolUse), want: answer("hm", substrate.FinishToolUse, newLookCall("a"), newLookCall("b"))},
		{name: "two calls at one index", body: w.Begin + wholeCall(0, "a") + wholeCall(0, "b") + w.End(w.ToolUse), want: answer("", substrate.FinishToolUse, newLookCall("a"), newLookCall("b"))},
		{name: "calls from index 7", body: w.Begin + wholeCall(7, "a") + wholeCall(3, "b") + w.End(w.ToolUse), want: answer("", substrate.FinishToolUse, newLookCall("a"), newLookCall("b"))},
		{name: "calls in an answer that stops", body: w.Begin + wholeCall(0, "a") + w.End(w.Stop), want: answer("", substrate.FinishToolUse, newLookCall("a"))},
		{name: "a text that is cut off", body: hm + w.End(w.Length), want: answer("hm", substrate.FinishLength)},
		{name: "an empty answer that is cut off", body: w.Begin + w.End(w.Length), wantKind: problem.SubstrateMisconfigured},
		{name: "an empty answer that stops", body: w.Begin + w.End(w.Stop), wantKind: problem.SubstrateUnavailable},
		{name: "blanks that stop", body: w.Begin + w.Text("\n\n") + w.End(w.Stop), wantKind: problem.SubstrateUnavailable},
		{name: "blanks before a text", body: w.Begin + w.Text("\n") + w.Text(" ") + w.Text("hm") + w.Text("\n") + w.End(w.Stop), want: answer("\n hm\n", substrate.FinishStop)},
		{name: "an unknown end", body: hm + w.End("eos"), want: answer("hm", substrate.FinishUnknown)},
		{name: "an unknown end without an answer", body: w.Begin + w.End("eos"), wantKind: problem.SubstrateMisconfigured},
		{name: "an unknown end after a call", body: hm + wholeCall(0, "a") + w.End("eos"), want: answer("hm", substrate.FinishUnknown, newLookCall("a"))},
		{name: "an unknown end after a call alone", body: w.Begin + wholeCall(0, "a") + w.End("eos"), want: answer("", substrate.FinishUnknown, newLookCall("a"))},
		{name: "an unknown end within a call", body: hm + w.Call(0, "a", "look", halfArguments) + w.End("eos"), want: answer("hm", substrate.FinishUnknown)},
		{name: "an unknown end within the second call", body: hm + wholeCall(0, "a") + w.Call(1, "b", "look", halfArguments) + w.End("eos"), want: answer("hm", substrate.FinishUnknown)},
		{name: "an unknown end after a call without arguments", body: w.Begin + w.Call(0, "a", "look") + w.End("eos"), wantKind: problem.SubstrateMisconfigured},
		{name: "a text that calls no tool", body: hm + w.End(w.ToolUse), want: answer("hm", substrate.FinishStop)},
		{name: "a stream that breaks after the end", body: hm + w.End(w.Stop) + w.Text("x")[:1], want: answer("hm", substrate.FinishStop)},
	}
	foreign := w.ForeignPart(1)
	oddities = append(oddities,
		oddity{name: "a foreign part before the text", body: w.Begin + foreign + w.Text("hm") + w.End(w.Stop), want: answer("hm", substrate.FinishStop)},
		oddity{name: "foreign parts within the text", body: hm + foreign + w.ForeignPart(2) + w.Text("!") + w.End(w.Stop), want: answer("hm!", substrate.FinishStop)},
		oddity{name: "a foreign part after the text", body: hm + foreign + w.End(w.Stop), want: answer("hm", substrate.FinishStop)},
		oddity{name: "a foreign part before a call", body: hm + foreign + wholeCall(3, "a") + w.End(w.ToolUse), want: answer("hm", substrate.FinishToolUse, newLookCall("a"))},
		oddity{name: "a foreign part after a call", body: hm + wholeCall(1, "a") + w.ForeignPart(2) + w.End(w.ToolUse), want: answer("hm", substrate.FinishToolUse, newLookCall("a"))},
		oddity{name: "foreign parts alone", body: w.Begin + foreign + w.End(w.Stop), wantKind: problem.SubstrateUnavailable},
	)
	for name, text := range map[string]string{
		"a document":                                       `{"a":1}`,
		"a document in a fence":                            "```json\n{\"a\":1}\n```",
		"a document after thoughts":                        "<think>hm</think>\n{\"a\":1}",
		"a document after a byte order mark":               "\uFEFF{\"a\":1}",
		"a document after a mark and thoughts, in a fence": "\uFEFF<think>hm</think>\n```\n{\"a\":1}\n```\n",
	} {
		oddities = append(oddities, oddity{name: name, body: w.Begin + w.Text(text) + w.End(w.Stop), requiresDocument: true, want: answer(`{"a":1}`, substrate.FinishStop)})
	}
	oddities = append(oddities, oddity{name: "a document among words", body: w.Begin + w.Text(`It is {"a":1}`) + w.End(w.Stop), requiresDocument: true, wantKind: problem.SubstrateMisconfigured, wantInBody: `It is {"a":1}`})
	if w.ToolUse != w.Stop {
		oddities = append(oddities, oddity{name: "a tool call reason without a call", body: w.Begin + w.End(w.ToolUse), wantKind: problem.SubstrateMisconfigured})
	}
	for name, body := range map[string]string{
		"a text without a reason to end":       hm + w.End(""),
		"a call without a reason to end":       hm + wholeCall(0, "a") + w.End(""),
		"a call alone without a reason to end": w.Begin + wholeCall(0, "a") + w.End(""),
	} {
		oddities = append(oddities, oddity{name: name, body: body, wantKind: problem.SubstrateUnavailable})
	}
	for _, reason := range []string{"abort", "aborted", "network_error", "insufficient_system_resource", "USER_CANCEL", "error_limit", "timeout", "failed"} {
		oddities = append(oddities, oddity{name: "an end by " + reason, body: hm + w.End(reason), wantKind: problem.SubstrateUnavailable},
			oddity{name: "an end by " + reason + " after a call", body: hm + wholeCall(0, "a") + w.End(reason), wantKind: problem.SubstrateUnavailable})
	}
	if w.AnswerWithoutReason != "" {
		oddities = append(oddities, oddity{name: "a text of a server that never sends a reason", body: w.AnswerWithoutReason, want: answer("hm", substrate.FinishStop)})
	}
	if w.EditEvent != nil {
		return oddities
	}
	dataEvent := func(s string) string { return "data: " + s + "\n\n" }
	for name, failure := range map[string]string{
		"an error in a field of the stream":     "error: " + `{"code":500,"message":"out of memory"}` + "\n\n",
		"an error by its object":                dataEvent(`{"object":"error","message":"out of memory"}`),
		"an error by its type":                  dataEvent(`{"type":"error","message":"out of memory"}`),
		"an error in a member":                  dataEvent(`{"error":{"message":"out of memory"}}`),
		"an error that is a string":             dataEvent(`{"error":"out of memory"}`),
		"an error by the event's name":          "event: error\n" + dataEvent(`{"message":"out of memory"}`),
		"an error by the event's name, no JSON": "event: error\n" + dataEvent("out of memory"),
	} {
		// Servers mark the end of the stream even after an error.
		for _, endMark := range []string{"", dataEvent("[DONE]"), w.End("")} {
			oddities = append(oddities, oddity{name: name + endMark, body: hm + failure + endMark, wantKind: problem.SubstrateUnavailable, wantInBody: "out of memory"})
		}
	}
	return append(oddities,
		oddity{name: "an error of vLLM with a status", body: hm + dataEvent(`{"object":"error","message":"too many","code":429}`), wantKind: problem.SubstrateBusy, wantInBody: "too many"},
		oddity{name: "an error after the end", body: hm + strings.TrimSuffix(w.End(w.Stop), dataEvent("[DONE]")) + dataEvent(`{"error":"out of memory"}`), want: answer("hm", substrate.FinishStop)},
		oddity{name: "invalid JSON in the middle", body: hm + dataEvent("{") + w.End(w.Stop), wantKind: problem.SubstrateMisconfigured, wantInBody: "{"},
		oddity{name: "invalid JSON after the end", body: hm + strings.TrimSuffix(w.End(w.Stop), "data: [DONE]\n\n") + dataEvent("{"), want: answer("hm", substrate.FinishStop)},
		oddity{name: "an error in the middle", body: hm + dataEvent(`{"type":"error","error":{"message":"out of memory"}}`), wantKind: problem.SubstrateUnavailable, wantInBody: "out of memory"},
		oddity{name: "an error with a status", body: w.Begin + dataEvent(`{"type":"error","error":{"message":"too many","code":"429"}}`), wantKind: problem.SubstrateBusy, wantInBody: "too many"},
		oddity{name: "an error of another form", body: w.Begin + dataEvent(`{"type":"error","error":"out of memory"}`), wantKind: problem.SubstrateUnavailable, wantInBody: "out of memory"},
		oddity{name: "nothing", body: "", wantKind: problem.SubstrateUnavailable},
		oddity{name: "one newline between events", body: strings.ReplaceAll(hm+w.Text("!")+w.End(w.Stop), "\n\n", "\n") + "\n", want: answer("hm!", substrate.FinishStop)},
		oddity{name: "noise alone", body: "data: ping\n\n", wantKind: problem.SubstrateUnavailable, wantInBody: "data: ping"},
		oddity{name: "a page that begins like a field of an event", body: "database unavailable", wantKind: problem.SubstrateMisconfigured, wantInBody: "database unavailable"},
		oddity{name: "a line of text in place of an event", body: "data: base unavailable", wantKind: problem.SubstrateUnavailable, wantInBody: "base unavailable"},
		oddity{name: "comments alone", body: ": ping\n\n: ping\n\n", wantKind: problem.SubstrateUnavailable},
		oddity{name: "a byte order mark", body: "\uFEFF" + hm + w.End(w.Stop), want: answer("hm", substrate.FinishStop)},
		oddity{name: "CRLF", body: strings.ReplaceAll(hm+w.End(w.Stop), "\n", "\r\n"), want: answer("hm", substrate.FinishStop)},

		oddity{name: "a whole answer", body: w.WholeAnswer("forty-two", w.Stop), want: answer("forty-two", substrate.FinishStop)},
		oddity{name: "a whole answer after white space", body: "\n  " + w.WholeAnswer("forty-two", w.Stop) + "\n", want: answer("forty-two", substrate.FinishStop)},
		oddity{name: "a whole answer with another end", body: w.WholeAnswer("forty-two", "eos"), want: answer("forty-two", substrate.FinishUnknown)},
		oddity{name: "a whole answer that is cut off", body: w.WholeAnswer("forty", w.Length), want: answer("forty", substrate.FinishLength)},
		oddity{name: "whole answers in an array", body: "[" + w.WholeAnswer("forty", "") + "," + w.WholeAnswer("-two", w.Stop) + "]", want: answer("forty-two", substrate.FinishStop)},
		oddity{name: "half of a whole answer", body: w.WholeAnswer("forty-two", w.Stop)[:20], wantKind: problem.SubstrateMisconfigured, wantInBody: w.WholeAnswer("forty-two", w.Stop)[:20]},
		oddity{name: "an error in place of a stream", body: `{"error":{"message":"no such model"}}`, wantKind: problem.SubstrateUnavailable, wantInBody: "no such model"},
		oddity{name: "an error with a code in place of a stream", body: `{"error":{"message":"no such model","code":404}}`, wantKind: problem.SubstrateMisconfigured, wantInBody: "no such model"},
		oddity{name: "another document", body: `{"detail":"Not Found","total_tokens":12}`, wantKind: problem.SubstrateMisconfigured, wantInBody: `{"detail":"Not Found","total_tokens":12}`},
		oddity{name: "an empty array", body: `[]`, wantKind: problem.SubstrateMisconfigured, wantInBody: "[]"},
		oddity{name: "a page", body: "<html><body>Please log in</body></html>", wantKind: problem.SubstrateMisconfigured, wantInBody: "Please log in"},
	)
}

// TestOddities checks how an adapter handles streams that differ from its provider's documentation,
// according to the rules in the documentation of package substrate.
func (w Wire) TestOddities(t *testing.T, serve func(testing.TB, http.HandlerFunc) substrate.Substrate) {
	var chunks []string
	s := serve(t, func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for _, c := range chunks {
			_, _ = io.WriteString(rw, c)
			_ = http.NewResponseController(rw).Flush()
		}
	})
	read := func(pieces ...string) (substrate.Answer, error) {
		chunks = pieces
		a, err := substrate.ReadAnswer(s.Infer(t.Context(), Question()))
		if err != nil {
			return substrate.Answer{}, err
		}
		return a, nil
	}
	wantAnswer := func(t *testing.T, name string, want substrate.Answer, pieces ...string) {
		t.Helper()
		got, err := read(pieces...)
		got.Usage, want.Usage = nil, nil
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	for _, o := range w.listOddities() {
		t.Run(o.name, func(t *testing.T) {
			got, err := read(o.body)
			if o.requiresDocument {
				agent := loop.New(loop.Config{Agent: definition.Agent{OutputFormat: definition.JSON}, Model: s, Secret: substrate.NewSecret(secret)})
				got, err = substrate.ReadAnswer(agent.Infer(t.Context(), Question()))
			}
			got.Usage = nil
			if diff := cmp.Diff(o.want, got); err == nil && o.wantKind != 0 || err != nil && !problem.Is(err, o.wantKind) || diff != "" {
				t.Errorf("ReadAnswer() = %v, want failure %s (-want +got):\n%s", err, o.wantKind, diff)
			}
			if agent := new(call.AgentError); o.wantInBody != "" && (!errors.As(err, &agent) || !strings.Contains(agent.Body, o.wantInBody)) {
				t.Errorf("the operator sees %q, want %q", agent.Body, o.wantInBody)
			}
		})
	}
	events := w.splitEvents(w.Begin + w.Text("forty") + w.Usage("10") + w.Text("-two") + w.Call(0, "a", "look", `{"for":`, `"a"}`) + w.End(w.ToolUse))
	want := substrate.Answer{Text: "forty-two", Reason: substrate.FinishToolUse, Calls: []substrate.ToolCall{newLookCall("a")}}
	t.Run("usage", func(t *testing.T) {
		for n, tokens := range map[string]int{"10": 10, "10.0": 10, "1e1": 10, `"10"`: 10, "10.9": 10, "-1": 0, "1e300": 1 << 40, "null": 0, `"many"`: 0, "[]": 0, "{}": 0, "true": 0} {
			if w.EditEvent != nil && n != "10" {
				continue // the library parses the numbers
			}
			chunks = []string{w.Begin + w.Text("x") + w.Usage(n) + w.End(w.Stop)}
			hasExpectedUsage := tokens == 0
			a, err := substrate.ReadAnswer(func(yield func(substrate.Event, error) bool) {
				for e, err := range s.Infer(t.Context(), Question()) {
					u, ok := e.(substrate.Usage)
					if hasExpectedUsage = hasExpectedUsage || ok && u.InputTokens == tokens; !yield(e, err) {
						return
					}
				}
			})
			if err != nil || a.Text != "x" || !hasExpectedUsage {
				t.Errorf("%s tokens: %+v, %v, reported: %t; want x and a report of %d", n, a, err, hasExpectedUsage, tokens)
			}
		}
	})
	t.Run("pieces", func(t *testing.T) {
		stream := strings.Join(events, "")
		wantAnswer(t, "byte by byte", want, strings.Split(stream, "")...)
		for position := 1; position < len(stream); position++ {
			wantAnswer(t, fmt.Sprintf("split at byte %d", position), want, stream[:position], stream[position:])
		}
	})
	t.Run("beginnings", func(t *testing.T) {
		stream := strings.Join(events, "")
		for position := range len(stream) {
			// A stream that is truncated before the end of the answer is not an answer. After the
			// end, no part of the answer is missing.
			if got, err := read(stream[:position]); err == nil {
				got.Usage = nil
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("the first %d bytes are an answer (-want +got):\n%s", position, diff)
				}
			}
		}
	})
	t.Run("noise", func(t *testing.T) {
		noise := []string{w.Usage("10")}
		if w.EditEvent == nil {
			noise = append(noise, ": PROCESSING\n\n", "data:\n\n", "data: \n\n", "data\n\n", "data:  \n\n", "data: null\n\n", "data: 7\n\n", "data: ping\n\n", "event: ping\ndata: 12:00\n\n", "data: {}\n\n", "data: {\"error\":null}\n\n", "data: {\"error\":{}}\n\n", "data: {\"error\":0}\n\n", "data: {\"error\":[]}\n\n", "event: ping\ndata: {\"type\":\"ping\"}\n\n",
				"event: of_tomorrow\ndata: {\"type\":\"of_tomorrow\",\"delta\":7,\"message\":[],\"content_block\":\"x\",\"index\":\"y\"}\n\n", "id: 7\n\n", "retry: 5\n\n", "\n\n")
		}
		for position := range len(events) + 1 {
			for _, n := range noise {
				wantAnswer(t, fmt.Sprintf("%q before event %d", n, position), want, strings.Join(slices.Insert(slices.Clone(events), position, n), ""))
			}
		}
	})
	t.Run("refused members", func(t *testing.T) { w.testRefusedMembers(t, serve) })
	t.Run("members", func(t *testing.T) { w.testChangedMembers(t, events, want, read) })
}

func (w Wire) splitEvents(stream string) []string {
	if w.SplitStream != nil {
		return w.SplitStream(stream)
	}
	return slices.DeleteFunc(strings.SplitAfter(stream, "\n\n"), func(e string) bool { return e == "" })
}

func (w Wire) changeEvent(event string, f func(any) any) string {
	if w.EditEvent != nil {
		return w.EditEvent(event, f)
	}
	prefix, data, ok := strings.Cut(event, "data: ")
	d := json.NewDecoder(strings.NewReader(data))
	d.UseNumber()
	var v any
	if !ok || d.Decode(&v) != nil {
		return event
	}
	b, err := json.Marshal(f(v))
	if err != nil {
		panic(err)
	}
	return prefix + "data: " + string(b) + "\n\n"
}

// testChangedMembers removes each member of each event, adds a member, and replaces optional
// members with values of other types. If the member does not determine the answer, the answer must
// be the same. Otherwise, the answer may fail, but must not differ.
func (w Wire) testChangedMembers(t *testing.T, events []string, want substrate.Answer, read func(...string) (substrate.Answer, error)) {
	check := func(index int, path []string, change string, f func(object map[string]any, key string)) {
		changed := slices.Clone(events)
		changed[index] = w.changeEvent(events[index], func(v any) any {
			o, key := findParent(v, path)
			f(o, key)
			return v
		})
		got, err := read(strings.Join(changed, ""))
		isDecisive := slices.Contains(w.DecisiveMembers, path[len(path)-1])
		got.Usage = nil
		for i := range got.Calls {
			if got.Calls[i].ID != "" {
				got.Calls[i].ID = want.Calls[0].ID // any id is accepted
			}
		}
		if diff := cmp.Diff(want, got); (err != nil || diff != "") && !isDecisive {
			t.Errorf("event %d, %s %s: %v (-want +got):\n%s", index, strings.Join(path, "."), change, err, diff)
		}
		validCalls := slices.DeleteFunc(slices.Clone(got.Calls), func(c substrate.ToolCall) bool {
			return c.Name == "" || c.Arguments != "" && !json.Valid([]byte(c.Arguments))
		})
		if len(validCalls) > len(want.Calls) || !strings.Contains(want.Text, got.Text) {
			t.Errorf("event %d, %s %s is another answer: %+v", index, strings.Join(path, "."), change, got)
		}
	}
	for index, e := range events {
		w.changeEvent(e, func(v any) any {
			for _, path := range memberPaths(v) {
				check(index, path, "removed", func(o map[string]any, key string) { delete(o, key) })
				check(index, path, "with an additional member", func(o map[string]any, _ string) { o["of_tomorrow"] = map[string]any{"x": []int{1}} })
				if w.EditEvent != nil {
					continue // the library parses the values
				}
				for _, wrongValue := range []any{nil, "odd", json.Number("7.5"), true, []any{}, map[string]any{}} {
					if !slices.Contains(w.DecisiveMembers, path[len(path)-1]) {
						check(index, path, fmt.Sprintf("as %#v", wrongValue), func(o map[string]any, key string) { o[key] = wrongValue })
					}
				}
			}
			return v
		})
	}
}

func memberPaths(v any) (result [][]string) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			result = append(result, []string{key})
			for _, rest := range memberPaths(v[key]) {
				result = append(result, append([]string{key}, rest...))
			}
		}
	case []any:
		for i := range v {
			for _, rest := range memberPaths(v[i]) {
				result = append(result, append([]string{fmt.Sprint(i)}, rest...))
			}
		}
	}
	return result
}

func findParent(v any, path []string) (map[string]any, string) {
	for _, key := range path[:len(path)-1] {
		switch container := v.(type) {
		case map[string]any:
			v = container[key]
		case []any:
			var i int
			_, _ = fmt.Sscan(key, &i)
			v = container[i]
		}
	}
	return v.(map[string]any), path[len(path)-1]
}
