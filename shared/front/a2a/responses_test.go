package a2a_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/money/price"
)

const responses = "/v1/responses"

// responding is a request of Responses for a text. more are members.
func responding(text, more string) string {
	return fmt.Sprintf(`{"model":"echo","input":%q%s}`, text, more)
}

// streamEvent is an event of a streamed response.
type streamEvent struct {
	name, data string
}

func eventsOf(t testing.TB, body string) (all []streamEvent) {
	t.Helper()
	name := ""
	for s := bufio.NewScanner(strings.NewReader(body)); s.Scan(); {
		if of, ok := strings.CutPrefix(s.Text(), "event: "); ok {
			name = of
		}
		if data, ok := strings.CutPrefix(s.Text(), "data: "); ok {
			if got := at(t, data, "type"); got != name || at(t, data, "sequence_number") != fmt.Sprint(len(all)) {
				t.Errorf("event %d is %s with the data %s", len(all), name, data)
			}
			all = append(all, streamEvent{name, data})
		}
	}
	return all
}

// A response has what clients read, at the vacant and at the host, whole and in events.
func TestAResponseIsTheVacantsAnswer(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/v/echo" + responses, responses} {
		got := w.do("POST", path, responding("hi", ""))
		whole := func(what, body string) {
			if !strings.HasPrefix(at(t, body, "id"), "resp_") || at(t, body, "object") != "response" || at(t, body, "status") != "completed" || at(t, body, "model") != "echo" ||
				at(t, body, "output", 0, "type") != "message" || at(t, body, "output", 0, "role") != "assistant" || !strings.HasSuffix(at(t, body, "output", 0, "content", 0, "text"), ": hi") ||
				at(t, body, "output", 0, "content", 0, "type") != "output_text" || at(t, body, "usage", "total_tokens") != "0" || len(at(t, body, "system_fingerprint")) != 64 ||
				at(t, body, "vacancy", "envelope", "urn:vacant:v1", "sequence_no") != "1" || at(t, body, "store") != "false" {
				t.Errorf("%s: %s is %s", path, what, body)
			}
		}
		if got.status != 200 {
			t.Fatalf("%s: %d %s", path, got.status, got.body)
		}
		whole("the answer", got.body)
		stream := w.do("POST", path, responding("hi", `,"stream":true`))
		all := eventsOf(t, stream.body)
		var names []string
		text := ""
		for _, e := range all {
			if e.name == "response.output_text.delta" {
				text += at(t, e.data, "delta")
			}
			if len(names) == 0 || names[len(names)-1] != e.name {
				names = append(names, e.name)
			}
		}
		want := "response.created response.in_progress response.output_item.added response.content_part.added response.output_text.delta response.output_text.done response.content_part.done response.output_item.done response.completed"
		if strings.Join(names, " ") != want || !strings.HasSuffix(text, ": hi") || strings.Contains(stream.body, "[DONE]") {
			t.Errorf("%s: the events are %s, of %q", path, names, text)
		}
		var last struct{ Response json.RawMessage }
		must(t, json.Unmarshal([]byte(all[len(all)-1].data), &last))
		whole("the last event", string(last.Response))
		if at(t, all[0].data, "response", "id") != at(t, string(last.Response), "id") || at(t, all[2].data, "item", "id") != at(t, string(last.Response), "output", 0, "id") {
			t.Errorf("%s: the ids change: %s", path, stream.body)
		}
	}
	w.mind("mind")
	got := w.do("POST", "/v/mind"+responses, `{"instructions":"be brief","input":[{"role":"user","content":"one"},{"role":"user","content":"two"}]}`)
	if text := at(t, got.body, "output", 0, "content", 0, "text"); !strings.Contains(text, `{"role":"system","content":"be brief"}`+"\n"+`{"role":"user","content":"one"}`) || !strings.HasSuffix(text, "\ntwo") {
		t.Errorf("the agent is told %q", text)
	}
}

// An answer that may lack its end is incomplete, and one that breaks is failed, in every form.
func TestResponsesEndAsTheAnswerDoes(t *testing.T) {
	w := talking(t)
	ask := func(text, more string) answer { return w.do("POST", "/v/talker"+responses, responding(text, more)) }
	if got := ask("too long", ""); at(t, got.body, "status") != "incomplete" || at(t, got.body, "incomplete_details", "reason") != "max_output_tokens" {
		t.Errorf("a cut answer: %s", got.body)
	}
	all := eventsOf(t, ask("too long|er", `,"stream":true`).body)
	if last := all[len(all)-1]; last.name != "response.incomplete" || at(t, last.data, "response", "output", 0, "content", 0, "text") != "too longer" {
		t.Errorf("a cut stream ends with %+v", last)
	}
	if got := ask("fail", ""); got.status != 500 || at(t, got.body, "error", "code") != "substrate_unavailable" || got.header.Get("X-Should-Retry") != "false" {
		t.Errorf("an agent that fails: %d %s", got.status, got.body)
	}
	if got := ask("hi", `,"tools":[{"type":"function","name":"f","parameters":{}}]`); got.status != 400 || at(t, got.body, "error", "param") != "tools" {
		t.Errorf("tools: %d %s", got.status, got.body)
	}
}

// A response is the same call as a completion: it is paid, found again by its key, and an earlier answer is
// told by its id only to the account that has it.
func TestResponsesArePaidAndFoundAgain(t *testing.T) {
	w := countingWorld(t)
	ask := func(body string, headers ...string) answer {
		return w.do("POST", "/v/counter"+responses, body, headers...)
	}
	if got := ask(responding("hi", "")); got.status != 402 || at(t, got.body, "error", "code") != "insufficient_quota" {
		t.Errorf("a guest: %d %s", got.status, got.body)
	}
	first := ask(responding("hi", ""), w.acme, "Idempotency-Key: k1")
	if at(t, first.body, "output", 0, "content", 0, "text") != "answer 1" || first.header.Get("Vacancy-Receipt") != at(t, first.body, "vacancy", "receipt") || at(t, first.body, "usage", "input_tokens_details", "cached_tokens") != "3" {
		t.Errorf("the first: %d %s", first.status, first.body)
	}
	if got := ask(responding("hi", ""), w.acme, "Idempotency-Key: k1"); got.body != first.body {
		t.Errorf("the same key: %s", got.body)
	}
	w.wantBalance("acme", 98_000)
	w.setPrice(price.Price{})
	next := fmt.Sprintf(`{"input":[{"role":"user","content":"hi"},{"type":"item_reference","id":%q},{"role":"user","content":"more"}]}`, at(t, first.body, "output", 0, "id"))
	if got := ask(next, w.acme); got.status != 200 {
		t.Errorf("an earlier answer by its id: %d %s", got.status, got.body)
	}
	for name, got := range map[string]answer{
		"another account": ask(next, w.other), "a guest": ask(next), "a test key of the account": ask(next, "Authorization: Bearer "+w.key("acme", true)),
		"no item": ask(strings.Replace(next, `"id":"msg_`, `"id":"rs_`, 1), w.acme),
	} {
		if got.status != 400 || !strings.Contains(at(t, got.body, "error", "message"), "the id of an answer of the last 24 hours") {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
}
