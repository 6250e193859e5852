package agents

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const (
	answer1 = `{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED","timestamp":"2026-01-02T03:04:05.678Z",` +
		`"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"done"}]}},` +
		`"artifacts":[{"artifactId":"a","name":"n","description":"d","extensions":["urn:x"],"metadata":{"k":1},"parts":[{"text":"hello","mediaType":"text/plain","filename":"f","metadata":{"k":1}}]}],` +
		`"history":[{"messageId":"q","role":"ROLE_USER","parts":[{"text":"hi"}],"referenceTaskIds":["t0"],"extensions":["urn:x"]}],"metadata":{"k":1}}}}`
	answer03 = `{"jsonrpc":"2.0","id":1,"result":{"kind":"task","id":"t","contextId":"c","status":{"state":"completed","timestamp":"2026-01-02T03:04:05.678Z",` +
		`"message":{"kind":"message","messageId":"m","role":"agent","parts":[{"kind":"text","text":"done"}]}},` +
		`"artifacts":[{"artifactId":"a","name":"n","description":"d","extensions":["urn:x"],"metadata":{"k":1},"parts":[{"kind":"text","text":"hello","metadata":{"k":1}}]}],` +
		`"history":[{"kind":"message","messageId":"q","role":"user","parts":[{"kind":"text","text":"hi"}]}],"metadata":{"k":1}}}`
)

// decides lists the members of the answers above that determine the answer.
var decides = []string{"id", "result", "result.kind", "result.task", "result.status", "result.task.status", "result.status.state", "result.task.status.state",
	"result.artifacts", "result.task.artifacts", "result.artifacts.0", "result.task.artifacts.0", "result.artifacts.0.parts", "result.task.artifacts.0.parts",
	"result.artifacts.0.parts.0", "result.task.artifacts.0.parts.0", "result.artifacts.0.parts.0.text", "result.task.artifacts.0.parts.0.text"}

// eachValue calls f with the path of each value below v and a function that replaces it,
// or removes it.
func eachValue(v any, path string, f func(path string, set func(any), remove func())) {
	at := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	switch v := v.(type) {
	case map[string]any:
		for name, was := range v {
			f(at(name), func(odd any) { v[name] = odd }, func() { delete(v, name) })
			v[name] = was
			eachValue(was, at(name), f)
		}
	case []any:
		for i, was := range v {
			f(at(fmt.Sprint(i)), func(odd any) { v[i] = odd }, nil)
			v[i] = was
			eachValue(was, at(fmt.Sprint(i)), f)
		}
	}
}

// Members that do not determine an answer may be missing or have any type.
func TestSideDataNeverCostsAnAnswer(t *testing.T) {
	for version, whole := range map[string]string{"1.0": answer1, "0.3": answer03} {
		a := &Agent{dialect: a2awire.V1}
		if version == "0.3" {
			a.dialect = a2awire.V03
		}
		var doc any
		must(t, json.Unmarshal([]byte(whole), &doc))
		read := func() (text string, err error) {
			body, err := json.Marshal(doc)
			must(t, err)
			result, err := a2awire.ReadResponse(body, "1")
			var answer a2awire.Answer
			if err == nil {
				answer, err = a2awire.ReadAnswer(a.dialect, result)
			}
			if err != nil {
				return "", err
			}
			for _, a := range answer.Task.Artifacts {
				for _, p := range a.Parts {
					text += p.Text
				}
			}
			return text + " " + string(answer.Task.Status.State), nil
		}
		tried := 0
		eachValue(doc, "", func(path string, set func(any), remove func()) {
			side := !slices.Contains(decides, path)
			check := func(what string) {
				tried++
				got, err := read()
				if side && (err != nil || got != "hello completed") {
					t.Errorf("%s: %s %s: %q, %v", version, path, what, got, err)
				}
				if !side && err == nil && got == "hello completed" && path != "result.kind" && path != "id" {
					t.Errorf("%s: %s %s is not noticed", version, path, what)
				}
			}
			if remove != nil {
				remove()
				check("missing")
			}
			for _, odd := range []any{nil, true, 7.5, "odd", []any{}, []any{7}, map[string]any{}, map[string]any{"odd": 1}, strings.Repeat("x", 1000)} {
				set(odd)
				check(fmt.Sprintf("of %.40v", odd))
			}
		})
		if tried < 200 {
			t.Errorf("%s: %d oddities", version, tried)
		}
	}
}

func TestOddAnswers(t *testing.T) {
	result := func(s string) string { return `{"jsonrpc":"2.0","id":1,"result":` + s + `}` }
	done := func(status, rest string) string { return `{"kind":"task","id":"t","status":` + status + rest + `}` }
	const hello = `,"artifacts":[{"parts":[{"kind":"text","text":"hello"}]}]`
	for name, tt := range map[string]struct {
		version, body string
		state         task.State
		text          string // "" without an answer
	}{
		"microseconds, no zone":      {"0.3", result(done(`{"state":"completed","timestamp":"2026-01-02T03:04:05.678901"}`, hello)), "completed", "hello"},
		"a time that is a number":    {"0.3", result(done(`{"state":"completed","timestamp":1767323045}`, hello)), "completed", "hello"},
		"an unknown state":           {"0.3", result(done(`{"state":"paused"}`, hello)), "paused", "hello"},
		"a state of 1.0 in 0.3":      {"0.3", result(done(`{"state":"TASK_STATE_COMPLETED"}`, hello)), "completed", "hello"},
		"a state of 0.3 in 1.0":      {"1.0", result(`{"task":{"id":"t","status":{"state":"completed"},"artifacts":[{"parts":[{"text":"hello"}]}]}}`), "completed", "hello"},
		"an unknown role":            {"1.0", result(`{"message":{"role":"ROLE_TOOL","parts":[{"text":"hello"}]}}`), "", "hello"},
		"a part of another kind":     {"0.3", result(done(`{"state":"completed"}`, `,"artifacts":[{"parts":[{"kind":"video","url":"u"},{"kind":"text","text":"hello"},7]}]`)), "completed", "hello"},
		"parts of 0.2":               {"0.3", result(done(`{"state":"completed"}`, `,"artifacts":[{"parts":[{"type":"text","text":"hello"}]}]`)), "completed", "hello"},
		"no kind":                    {"0.3", result(`{"id":"t","status":{"state":"completed"}` + hello + `}`), "completed", "hello"},
		"a message without a kind":   {"0.3", result(`{"role":"agent","parts":[{"text":"hello"}]}`), "", "hello"},
		"many parts":                 {"0.3", result(`{"kind":"message","parts":[` + strings.Repeat(`{"kind":"text","text":"h"},`, 999) + `{"kind":"text","text":"h"}]}`), "", strings.Repeat("h", 1000)},
		"deep metadata":              {"0.3", result(done(`{"state":"completed"}`, hello+`,"metadata":{"a":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+`}`)), "completed", "hello"},
		"both spellings":             {"1.0", result(`{"task":{"id":"t","context_id":"c","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"parts":[{"text":"hello"}]}]}}`), "completed", "hello"},
		"an id as text":              {"1.0", `{"jsonrpc":"2.0","id":"1","result":{"message":{"parts":[{"text":"hello"}]}}}`, "", "hello"},
		"an id as a fraction":        {"1.0", `{"jsonrpc":"2.0","id":1.0,"result":{"message":{"parts":[{"text":"hello"}]}}}`, "", "hello"},
		"no id":                      {"1.0", `{"jsonrpc":"2.0","result":{"message":{"parts":[{"text":"hello"}]}}}`, "", "hello"},
		"an id of null":              {"1.0", `{"jsonrpc":"2.0","id":null,"result":{"message":{"parts":[{"text":"hello"}]}}}`, "", "hello"},
		"a byte order mark":          {"1.0", "\uFEFF" + `{"jsonrpc":"2.0","id":1,"result":{"message":{"parts":[{"text":"hello"}]}}}`, "", "hello"},
		"a state as a number":        {"1.0", result(`{"task":{"id":"t","status":{"state":3},"artifacts":[{"parts":[{"text":"hello"}]}]}}`), "completed", "hello"},
		"a state of no number":       {"1.0", result(`{"task":{"id":"t","status":{"state":99},"artifacts":[{"parts":[{"text":"hello"}]}]}}`), "", ""},
		"half a character aside":     {"0.3", result(done(`{"state":"completed","message":{"metadata":{"a":"\udc00"}}}`, hello+`,"metadata":{"a":"\ud800"},"odd":"\ud800"`)), "completed", "hello"},
		"a key twice aside":          {"0.3", `{"odd":1,"odd":2,` + result(done(`{"state":"completed"}`, hello+`,"metadata":{"a":1,"a":2}`))[1:], "completed", "hello"},
		"half a character":           {"0.3", result(done(`{"state":"completed"}`, `,"artifacts":[{"parts":[{"kind":"text","text":"hello \ud800"}]}]`)), "", ""},
		"the result twice":           {"0.3", `{"result":{},` + result(done(`{"state":"completed"}`, hello))[1:], "", ""},
		"an error of null":           {"1.0", `{"jsonrpc":"2.0","id":1,"error":null,"result":{"message":{"parts":[{"text":"hello"}]}}}`, "", "hello"},
		"a task that goes on, no id": {"0.3", result(`{"kind":"task","status":{"state":"working"}}`), "", ""},
		"no state":                   {"0.3", result(done(`{}`, hello)), "", ""},
		"no parts":                   {"0.3", result(`{"kind":"message","role":"agent"}`), "", ""},
		"two answers":                {"1.0", result(`{"message":{"parts":[{"text":"a"}]},"task":{"id":"t","status":{"state":"TASK_STATE_COMPLETED"}}}`), "", ""},
		"cut off":                    {"0.3", strings.TrimSuffix(result(done(`{"state":"completed"}`, hello)), "}"), "", ""},
		"cut off within the text":    {"0.3", `{"jsonrpc":"2.0","id":1,"result":{"kind":"message","parts":[{"kind":"text","text":"hel`, "", ""},
		"an error that is a text":    {"0.3", `{"jsonrpc":"2.0","id":1,"error":"quota exceeded","result":{"kind":"message","parts":[{"kind":"text","text":"x"}]}}`, "", ""},
	} {
		a := agentOf(t, tt.version, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tt.body) })
		answer, err := a.Send(t.Context(), a2awire.SendRequest{Message: task.Message{Role: task.User, Parts: []task.Part{{Kind: task.Text, Text: "hi"}}}})
		text, state, parts := "", task.State(""), []task.Part(nil)
		switch {
		case answer.Message != nil:
			parts = answer.Message.Parts
		case answer.Task != nil:
			state = answer.Task.Status.State
			for _, a := range answer.Task.Artifacts {
				parts = append(parts, a.Parts...)
			}
		}
		for _, p := range parts {
			text += p.Text
		}
		if (err != nil) != (tt.text == "") || err == nil && (text != tt.text || state != tt.state) {
			t.Errorf("%s: %q, %s, %v", name, text, state, err)
		}
	}
}

func TestErrorsOfAnyFormAreTold(t *testing.T) {
	for _, fault := range []string{`"quota exceeded"`, `{"message":"quota exceeded"}`, `{"code":"E7","message":"quota exceeded"}`, `{"code":-32000.0,"message":"quota exceeded","data":7}`, `{"detail":"quota exceeded"}`, `["quota exceeded"]`} {
		a := agentOf(t, "1.0", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":null,"error":%s}`, fault)
		})
		if _, err := a.GetTask(t.Context(), "t"); !problem.Is(err, problem.Forbidden) || !strings.Contains(err.Error(), "quota exceeded") {
			t.Errorf("%s: %v", fault, err)
		}
	}
}

// An open Agent does not change if its card changes. A card that is fetched again is checked again.
func TestACardThatChangesBetweenTwoRequests(t *testing.T) {
	at, asked := "/first", []string(nil)
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			url := s.URL + at
			if strings.HasPrefix(at, "https:") {
				url = at
			}
			fmt.Fprintf(w, `{"name":"a","version":"1","url":%q}`, url)
			return
		}
		asked = append(asked, r.URL.Path)
		_, _ = io.WriteString(w, strings.Replace(answer03, `"id":1`, fmt.Sprintf(`"id":%d`, len(asked)), 1))
	}))
	t.Cleanup(s.Close)
	web := dispatch.NewHTTP(dispatch.HTTPOptions{})
	open := func() (*Agent, error) {
		c, err := FetchCard(t.Context(), web, s.URL)
		must(t, err)
		return NewAgent(web, c)
	}
	first, err := open()
	must(t, err)
	if _, err := first.GetTask(t.Context(), "t"); err != nil {
		t.Error(err)
	}
	at = "/second"
	if _, err := first.GetTask(t.Context(), "t"); err != nil {
		t.Error(err)
	}
	if second, err := open(); err != nil || second.url != s.URL+"/second" {
		t.Errorf("the card is fetched again: %v", err)
	}
	at = "https://elsewhere.example/"
	if _, err := open(); !problem.Is(err, problem.Untrusted) {
		t.Errorf("a card that now names another host: %v", err)
	}
	if strings.Join(asked, " ") != "/first /first" {
		t.Errorf("requests for %q", asked)
	}
}
