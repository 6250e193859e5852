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
	// Ends encodes the end of the answer and of its stream. If why is "", the end has no finish reason.
	Ends func(why string) string
	// Call encodes a tool call at an index of the answer. arguments are the pieces of its
	// arguments.
	Call func(at int, id, name string, arguments ...string) string

	Stop, Length, Called string // finish reasons
	// Bare is the answer "hm" of a server that never sends a finish reason. It is "" if the
	// provider has no such servers.
	Bare string
	// Decides lists the members that determine an answer. If one of them is wrong, the answer may fail.
	Decides []string
	// Foreign encodes a part of an answer that is not for the host, for example a call of a tool
	// that the provider itself runs. A text may follow it.
	Foreign func(at int) string
	// Refusals maps each optional member of requests to the error of a server that rejects it.
	Refusals map[string]string
	// Whole encodes an answer as one JSON document. It is nil for a provider whose library reads
	// only streams.
	Whole func(text, why string) string

	// Split and Edit are set for a provider without server-sent events. Split returns the events of
	// a stream. Edit returns an event whose JSON value f has changed.
	Split func(stream string) []string
	Edit  func(event string, f func(any) any) string
}

// odd is an unusual reply and the expected result.
type odd struct {
	what, body string
	want       substrate.Answer // without usage
	fails      problem.Kind     // kind of the expected failure, or zero for an answer
	says       string           // part of the reply that the operator must see
	json       bool             // whether the agent requires a JSON document
}

func look(id string) substrate.ToolCall {
	return substrate.ToolCall{ID: id, Name: "look", Arguments: `{"for":"` + id + `"}`}
}

// table returns unusual replies that any provider may send.
func (w Wire) table() []odd {
	const half = `{"for":`
	answer := func(text string, why substrate.FinishReason, calls ...substrate.ToolCall) substrate.Answer {
		return substrate.Answer{Text: text, Reason: why, Calls: calls}
	}
	hm := w.Begin + w.Text("hm")
	whole := func(index int, id string) string { return w.Call(index, id, "look", half, `"`+id+`"}`) }
	oddities := []odd{
		{what: "a call without arguments that is cut off", body: w.Begin + w.Call(0, "a", "look") + w.Ends(w.Length), fails: problem.SubstrateMisconfigured},
		{what: "half a call that is cut off", body: hm + w.Call(0, "a", "look", half) + w.Ends(w.Length), want: answer("hm", substrate.Length)},
		{what: "a whole call before the answer is cut off", body: hm + whole(0, "a") + w.Ends(w.Length), want: answer("hm", substrate.Length)},
		{what: "a stream that ends within a call", body: hm + w.Call(0, "a", "look", half), fails: problem.SubstrateUnavailable},
		{what: "a stream that ends after a call", body: hm + whole(0, "a"), fails: problem.SubstrateUnavailable},
		{what: "a stream that ends after a text", body: hm, fails: problem.SubstrateUnavailable},
		{what: "two calls", body: hm + whole(0, "a") + whole(1, "b") + w.Ends(w.Called), want: answer("hm", substrate.Called, look("a"), look("b"))},
		{what: "two calls at one index", body: w.Begin + whole(0, "a") + whole(0, "b") + w.Ends(w.Called), want: answer("", substrate.Called, look("a"), look("b"))},
		{what: "calls from index 7", body: w.Begin + whole(7, "a") + whole(3, "b") + w.Ends(w.Called), want: answer("", substrate.Called, look("a"), look("b"))},
		{what: "calls in an answer that stops", body: w.Begin + whole(0, "a") + w.Ends(w.Stop), want: answer("", substrate.Called, look("a"))},
		{what: "a text that is cut off", body: hm + w.Ends(w.Length), want: answer("hm", substrate.Length)},
		{what: "an empty answer that is cut off", body: w.Begin + w.Ends(w.Length), fails: problem.SubstrateMisconfigured},
		{what: "an empty answer that stops", body: w.Begin + w.Ends(w.Stop), fails: problem.SubstrateUnavailable},
		{what: "blanks that stop", body: w.Begin + w.Text("\n\n") + w.Ends(w.Stop), fails: problem.SubstrateUnavailable},
		{what: "blanks before a text", body: w.Begin + w.Text("\n") + w.Text(" ") + w.Text("hm") + w.Text("\n") + w.Ends(w.Stop), want: answer("\n hm\n", substrate.Stop)},
		{what: "an unknown end", body: hm + w.Ends("eos"), want: answer("hm", substrate.Unknown)},
		{what: "an unknown end without an answer", body: w.Begin + w.Ends("eos"), fails: problem.SubstrateMisconfigured},
		{what: "an unknown end after a call", body: hm + whole(0, "a") + w.Ends("eos"), want: answer("hm", substrate.Unknown, look("a"))},
		{what: "an unknown end after a call alone", body: w.Begin + whole(0, "a") + w.Ends("eos"), want: answer("", substrate.Unknown, look("a"))},
		{what: "an unknown end within a call", body: hm + w.Call(0, "a", "look", half) + w.Ends("eos"), want: answer("hm", substrate.Unknown)},
		{what: "an unknown end within the second call", body: hm + whole(0, "a") + w.Call(1, "b", "look", half) + w.Ends("eos"), want: answer("hm", substrate.Unknown)},
		{what: "an unknown end after a call without arguments", body: w.Begin + w.Call(0, "a", "look") + w.Ends("eos"), fails: problem.SubstrateMisconfigured},
		{what: "a text that calls no tool", body: hm + w.Ends(w.Called), want: answer("hm", substrate.Stop)},
		{what: "a stream that breaks after the end", body: hm + w.Ends(w.Stop) + w.Text("x")[:1], want: answer("hm", substrate.Stop)},
	}
	foreign := w.Foreign(1)
	oddities = append(oddities,
		odd{what: "a foreign part before the text", body: w.Begin + foreign + w.Text("hm") + w.Ends(w.Stop), want: answer("hm", substrate.Stop)},
		odd{what: "foreign parts within the text", body: hm + foreign + w.Foreign(2) + w.Text("!") + w.Ends(w.Stop), want: answer("hm!", substrate.Stop)},
		odd{what: "a foreign part after the text", body: hm + foreign + w.Ends(w.Stop), want: answer("hm", substrate.Stop)},
		odd{what: "a foreign part before a call", body: hm + foreign + whole(3, "a") + w.Ends(w.Called), want: answer("hm", substrate.Called, look("a"))},
		odd{what: "a foreign part after a call", body: hm + whole(1, "a") + w.Foreign(2) + w.Ends(w.Called), want: answer("hm", substrate.Called, look("a"))},
		odd{what: "foreign parts alone", body: w.Begin + foreign + w.Ends(w.Stop), fails: problem.SubstrateUnavailable},
	)
	for what, text := range map[string]string{
		"a document":                                       `{"a":1}`,
		"a document in a fence":                            "```json\n{\"a\":1}\n```",
		"a document after thoughts":                        "<think>hm</think>\n{\"a\":1}",
		"a document after a byte order mark":               "\uFEFF{\"a\":1}",
		"a document after a mark and thoughts, in a fence": "\uFEFF<think>hm</think>\n```\n{\"a\":1}\n```\n",
	} {
		oddities = append(oddities, odd{what: what, body: w.Begin + w.Text(text) + w.Ends(w.Stop), json: true, want: answer(`{"a":1}`, substrate.Stop)})
	}
	oddities = append(oddities, odd{what: "a document among words", body: w.Begin + w.Text(`It is {"a":1}`) + w.Ends(w.Stop), json: true, fails: problem.SubstrateMisconfigured, says: `It is {"a":1}`})
	if w.Called != w.Stop {
		oddities = append(oddities, odd{what: "a tool call reason without a call", body: w.Begin + w.Ends(w.Called), fails: problem.SubstrateMisconfigured})
	}
	for what, body := range map[string]string{
		"a text without a reason to end":       hm + w.Ends(""),
		"a call without a reason to end":       hm + whole(0, "a") + w.Ends(""),
		"a call alone without a reason to end": w.Begin + whole(0, "a") + w.Ends(""),
	} {
		oddities = append(oddities, odd{what: what, body: body, fails: problem.SubstrateUnavailable})
	}
	for _, word := range []string{"abort", "aborted", "network_error", "insufficient_system_resource", "USER_CANCEL", "error_limit", "timeout", "failed"} {
		oddities = append(oddities, odd{what: "an end by " + word, body: hm + w.Ends(word), fails: problem.SubstrateUnavailable},
			odd{what: "an end by " + word + " after a call", body: hm + whole(0, "a") + w.Ends(word), fails: problem.SubstrateUnavailable})
	}
	if w.Bare != "" {
		oddities = append(oddities, odd{what: "a text of a server that never sends a reason", body: w.Bare, want: answer("hm", substrate.Stop)})
	}
	if w.Edit != nil {
		return oddities
	}
	sent := func(s string) string { return "data: " + s + "\n\n" }
	for what, failure := range map[string]string{
		"an error in a field of the stream":     "error: " + `{"code":500,"message":"out of memory"}` + "\n\n",
		"an error by its object":                sent(`{"object":"error","message":"out of memory"}`),
		"an error by its type":                  sent(`{"type":"error","message":"out of memory"}`),
		"an error in a member":                  sent(`{"error":{"message":"out of memory"}}`),
		"an error that is a string":             sent(`{"error":"out of memory"}`),
		"an error by the event's name":          "event: error\n" + sent(`{"message":"out of memory"}`),
		"an error by the event's name, no JSON": "event: error\n" + sent("out of memory"),
	} {
		// Servers mark the end of the stream even after an error.
		for _, mark := range []string{"", sent("[DONE]"), w.Ends("")} {
			oddities = append(oddities, odd{what: what + mark, body: hm + failure + mark, fails: problem.SubstrateUnavailable, says: "out of memory"})
		}
	}
	return append(oddities,
		odd{what: "an error of vLLM with a status", body: hm + sent(`{"object":"error","message":"too many","code":429}`), fails: problem.SubstrateBusy, says: "too many"},
		odd{what: "an error after the end", body: hm + strings.TrimSuffix(w.Ends(w.Stop), sent("[DONE]")) + sent(`{"error":"out of memory"}`), want: answer("hm", substrate.Stop)},
		odd{what: "invalid JSON in the middle", body: hm + sent("{") + w.Ends(w.Stop), fails: problem.SubstrateMisconfigured, says: "{"},
		odd{what: "invalid JSON after the end", body: hm + strings.TrimSuffix(w.Ends(w.Stop), "data: [DONE]\n\n") + sent("{"), want: answer("hm", substrate.Stop)},
		odd{what: "an error in the middle", body: hm + sent(`{"type":"error","error":{"message":"out of memory"}}`), fails: problem.SubstrateUnavailable, says: "out of memory"},
		odd{what: "an error with a status", body: w.Begin + sent(`{"type":"error","error":{"message":"too many","code":"429"}}`), fails: problem.SubstrateBusy, says: "too many"},
		odd{what: "an error of another form", body: w.Begin + sent(`{"type":"error","error":"out of memory"}`), fails: problem.SubstrateUnavailable, says: "out of memory"},
		odd{what: "nothing", body: "", fails: problem.SubstrateUnavailable},
		odd{what: "one newline between events", body: strings.ReplaceAll(hm+w.Text("!")+w.Ends(w.Stop), "\n\n", "\n") + "\n", want: answer("hm!", substrate.Stop)},
		odd{what: "noise alone", body: "data: ping\n\n", fails: problem.SubstrateUnavailable, says: "data: ping"},
		odd{what: "a page that begins as a field does", body: "database unavailable", fails: problem.SubstrateMisconfigured, says: "database unavailable"},
		odd{what: "a line of text in place of an event", body: "data: base unavailable", fails: problem.SubstrateUnavailable, says: "base unavailable"},
		odd{what: "comments alone", body: ": ping\n\n: ping\n\n", fails: problem.SubstrateUnavailable},
		odd{what: "a byte order mark", body: "\uFEFF" + hm + w.Ends(w.Stop), want: answer("hm", substrate.Stop)},
		odd{what: "CRLF", body: strings.ReplaceAll(hm+w.Ends(w.Stop), "\n", "\r\n"), want: answer("hm", substrate.Stop)},

		odd{what: "a whole answer", body: w.Whole("forty-two", w.Stop), want: answer("forty-two", substrate.Stop)},
		odd{what: "a whole answer after white space", body: "\n  " + w.Whole("forty-two", w.Stop) + "\n", want: answer("forty-two", substrate.Stop)},
		odd{what: "a whole answer with another end", body: w.Whole("forty-two", "eos"), want: answer("forty-two", substrate.Unknown)},
		odd{what: "a whole answer that is cut off", body: w.Whole("forty", w.Length), want: answer("forty", substrate.Length)},
		odd{what: "whole answers in an array", body: "[" + w.Whole("forty", "") + "," + w.Whole("-two", w.Stop) + "]", want: answer("forty-two", substrate.Stop)},
		odd{what: "half of a whole answer", body: w.Whole("forty-two", w.Stop)[:20], fails: problem.SubstrateMisconfigured, says: w.Whole("forty-two", w.Stop)[:20]},
		odd{what: "an error in place of a stream", body: `{"error":{"message":"no such model"}}`, fails: problem.SubstrateUnavailable, says: "no such model"},
		odd{what: "an error with a code in place of a stream", body: `{"error":{"message":"no such model","code":404}}`, fails: problem.SubstrateMisconfigured, says: "no such model"},
		odd{what: "another document", body: `{"detail":"Not Found","total_tokens":12}`, fails: problem.SubstrateMisconfigured, says: `{"detail":"Not Found","total_tokens":12}`},
		odd{what: "an empty array", body: `[]`, fails: problem.SubstrateMisconfigured, says: "[]"},
		odd{what: "a page", body: "<html><body>Please log in</body></html>", fails: problem.SubstrateMisconfigured, says: "Please log in"},
	)
}

// Oddities checks how an adapter handles streams that differ from its provider's documentation,
// according to the rules in the documentation of package substrate.
func (w Wire) Oddities(t *testing.T, serve func(testing.TB, http.HandlerFunc) substrate.Substrate) {
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
	same := func(t *testing.T, what string, want substrate.Answer, pieces ...string) {
		t.Helper()
		got, err := read(pieces...)
		got.Usage, want.Usage = nil, nil
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
		}
	}
	for _, o := range w.table() {
		t.Run(o.what, func(t *testing.T) {
			got, err := read(o.body)
			if o.json {
				agent := loop.New(loop.Config{Agent: definition.Agent{OutputFormat: definition.JSON}, Model: s, Secret: substrate.NewSecret(secret)})
				got, err = substrate.ReadAnswer(agent.Infer(t.Context(), Question()))
			}
			got.Usage = nil
			if diff := cmp.Diff(o.want, got); err == nil && o.fails != 0 || err != nil && !problem.Is(err, o.fails) || diff != "" {
				t.Errorf("ReadAnswer() = %v, want failure %s (-want +got):\n%s", err, o.fails, diff)
			}
			if agent := new(call.AgentError); o.says != "" && (!errors.As(err, &agent) || !strings.Contains(agent.Body, o.says)) {
				t.Errorf("the operator sees %q, want %q", agent.Body, o.says)
			}
		})
	}
	events := w.events(w.Begin + w.Text("forty") + w.Usage("10") + w.Text("-two") + w.Call(0, "a", "look", `{"for":`, `"a"}`) + w.Ends(w.Called))
	want := substrate.Answer{Text: "forty-two", Reason: substrate.Called, Calls: []substrate.ToolCall{look("a")}}
	t.Run("usage", func(t *testing.T) {
		for n, in := range map[string]int{"10": 10, "10.0": 10, "1e1": 10, `"10"`: 10, "10.9": 10, "-1": 0, "1e300": 1 << 40, "null": 0, `"many"`: 0, "[]": 0, "{}": 0, "true": 0} {
			if w.Edit != nil && n != "10" {
				continue // the library parses the numbers
			}
			chunks = []string{w.Begin + w.Text("x") + w.Usage(n) + w.Ends(w.Stop)}
			told := in == 0
			a, err := substrate.ReadAnswer(func(yield func(substrate.Event, error) bool) {
				for e, err := range s.Infer(t.Context(), Question()) {
					u, ok := e.(substrate.Usage)
					if told = told || ok && u.In == in; !yield(e, err) {
						return
					}
				}
			})
			if err != nil || a.Text != "x" || !told {
				t.Errorf("%s tokens: %+v, %v, reported: %t; want x and a report of %d", n, a, err, told, in)
			}
		}
	})
	t.Run("pieces", func(t *testing.T) {
		stream := strings.Join(events, "")
		same(t, "byte by byte", want, strings.Split(stream, "")...)
		for position := 1; position < len(stream); position++ {
			same(t, fmt.Sprintf("split at byte %d", position), want, stream[:position], stream[position:])
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
		if w.Edit == nil {
			noise = append(noise, ": PROCESSING\n\n", "data:\n\n", "data: \n\n", "data\n\n", "data:  \n\n", "data: null\n\n", "data: 7\n\n", "data: ping\n\n", "event: ping\ndata: 12:00\n\n", "data: {}\n\n", "data: {\"error\":null}\n\n", "data: {\"error\":{}}\n\n", "data: {\"error\":0}\n\n", "data: {\"error\":[]}\n\n", "event: ping\ndata: {\"type\":\"ping\"}\n\n",
				"event: of_tomorrow\ndata: {\"type\":\"of_tomorrow\",\"delta\":7,\"message\":[],\"content_block\":\"x\",\"index\":\"y\"}\n\n", "id: 7\n\n", "retry: 5\n\n", "\n\n")
		}
		for position := range len(events) + 1 {
			for _, n := range noise {
				same(t, fmt.Sprintf("%q before event %d", n, position), want, strings.Join(slices.Insert(slices.Clone(events), position, n), ""))
			}
		}
	})
	t.Run("refused members", func(t *testing.T) { w.refusals(t, serve) })
	t.Run("members", func(t *testing.T) { w.members(t, events, want, read) })
}

func (w Wire) events(stream string) []string {
	if w.Split != nil {
		return w.Split(stream)
	}
	return slices.DeleteFunc(strings.SplitAfter(stream, "\n\n"), func(e string) bool { return e == "" })
}

func (w Wire) edit(event string, f func(any) any) string {
	if w.Edit != nil {
		return w.Edit(event, f)
	}
	before, data, ok := strings.Cut(event, "data: ")
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
	return before + "data: " + string(b) + "\n\n"
}

// members removes each member of each event, adds a member, and replaces optional members with
// values of other types. If the member does not determine the answer, the answer must be the same.
// Otherwise, the answer may fail, but must not differ.
func (w Wire) members(t *testing.T, events []string, want substrate.Answer, read func(...string) (substrate.Answer, error)) {
	check := func(index int, path []string, how string, f func(object map[string]any, key string)) {
		changed := slices.Clone(events)
		changed[index] = w.edit(events[index], func(v any) any {
			o, key := follow(v, path)
			f(o, key)
			return v
		})
		got, err := read(strings.Join(changed, ""))
		decides := slices.Contains(w.Decides, path[len(path)-1])
		got.Usage = nil
		for i := range got.Calls {
			if got.Calls[i].ID != "" {
				got.Calls[i].ID = want.Calls[0].ID // any id is accepted
			}
		}
		if diff := cmp.Diff(want, got); (err != nil || diff != "") && !decides {
			t.Errorf("event %d, %s %s: %v (-want +got):\n%s", index, strings.Join(path, "."), how, err, diff)
		}
		runs := slices.DeleteFunc(slices.Clone(got.Calls), func(c substrate.ToolCall) bool {
			return c.Name == "" || c.Arguments != "" && !json.Valid([]byte(c.Arguments))
		})
		if len(runs) > len(want.Calls) || !strings.Contains(want.Text, got.Text) {
			t.Errorf("event %d, %s %s is another answer: %+v", index, strings.Join(path, "."), how, got)
		}
	}
	for index, e := range events {
		w.edit(e, func(v any) any {
			for _, path := range paths(v) {
				check(index, path, "removed", func(o map[string]any, key string) { delete(o, key) })
				check(index, path, "with an additional member", func(o map[string]any, _ string) { o["of_tomorrow"] = map[string]any{"x": []int{1}} })
				if w.Edit != nil {
					continue // the library parses the values
				}
				for _, odd := range []any{nil, "odd", json.Number("7.5"), true, []any{}, map[string]any{}} {
					if !slices.Contains(w.Decides, path[len(path)-1]) {
						check(index, path, fmt.Sprintf("as %#v", odd), func(o map[string]any, key string) { o[key] = odd })
					}
				}
			}
			return v
		})
	}
}

// paths returns the paths of all members of a value. The path of an element contains its index.
func paths(v any) (keyPaths [][]string) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			keyPaths = append(keyPaths, []string{key})
			for _, rest := range paths(v[key]) {
				keyPaths = append(keyPaths, append([]string{key}, rest...))
			}
		}
	case []any:
		for i := range v {
			for _, rest := range paths(v[i]) {
				keyPaths = append(keyPaths, append([]string{fmt.Sprint(i)}, rest...))
			}
		}
	}
	return keyPaths
}

func follow(v any, path []string) (map[string]any, string) {
	for _, key := range path[:len(path)-1] {
		switch in := v.(type) {
		case map[string]any:
			v = in[key]
		case []any:
			var i int
			_, _ = fmt.Sscan(key, &i)
			v = in[i]
		}
	}
	return v.(map[string]any), path[len(path)-1]
}
