package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/openai"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func body(more string) string {
	return `{"model":"m","messages":[{"role":"user","content":"hi"}]` + more + `}`
}

func of(messages string) string { return `{"messages":[` + messages + `]}` }

func TestTheLastMessageIsAskedAndTheOthersAreTold(t *testing.T) {
	q, err := openai.Decode([]byte(`{"model":"clerk","stream":true,"stream_options":{"include_usage":true,"later":1},"temperature":0.2,"messages":[
		{"role":"system","content":"be brief"},
		{"role":"user","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}],"name":"ann"},
		{"role":"assistant","content":"three","refusal":null},
		{"role":"assistant","content":null},
		{"role":"developer","content":"in English"},
		{"role":"user","content":"four"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(q.Came) != 64 {
		t.Errorf("the hash is %q", q.Came)
	}
	q.Came = ""
	want := &openai.Request{Model: "clerk", Asked: openai.Said{Role: "user", Text: "four"}, Stream: true, Usage: true, Told: []openai.Said{
		{Role: "system", Text: "be brief"}, {Role: "user", Text: "one\ntwo"}, {Role: "assistant", Text: "three"}, {Role: "developer", Text: "in English"}}}
	if diff := cmp.Diff(want, q); diff != "" {
		t.Error(diff)
	}
}

// An image is a part of the message that has it, with its bytes or its URL.
func TestImagesBelongToTheirMessage(t *testing.T) {
	inline := `{"type":"image_url","image_url":{"url":"data:IMAGE/png;base64,iVBORw==","detail":"high"}}`
	q, err := openai.Decode([]byte(of(`{"role":"user","content":[` + inline + `]},{"role":"user","content":[{"type":"text","text":"see"},` + inline + `,{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}`)))
	if err != nil {
		t.Fatal(err)
	}
	png := openai.Image{MediaType: "image/png", Data: []byte("\x89PNG")}
	if diff := cmp.Diff(openai.Said{Role: "user", Text: "see", Images: []openai.Image{png, {URL: "https://example.com/a.png"}}}, q.Asked); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]openai.Said{{Role: "user", Images: []openai.Image{png}}}, q.Told); diff != "" {
		t.Error(diff)
	}
}

// The oldest messages are left out, and no text of the system.
func TestWhatIsToldIsBoundedAsMemoryIs(t *testing.T) {
	messages := []string{`{"role":"system","content":"rules"}`}
	for i := range 1000 {
		messages = append(messages, fmt.Sprintf(`{"role":%q,"content":"%d"}`, []string{"user", "assistant"}[i%2], i))
	}
	q, err := openai.Decode([]byte(of(strings.Join(append(messages, `{"role":"user","content":"now"}`), ","))))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(q.Told); n != 41 || q.Told[0].Text != "rules" || q.Told[1].Text != "960" || q.Told[40].Text != "999" {
		t.Errorf("%d messages are told: %v", n, q.Told)
	}
	long := strings.Repeat("x", 40<<10)
	q, err = openai.Decode([]byte(of(fmt.Sprintf(`{"role":"user","content":"old"},{"role":"assistant","content":%q},{"role":"user","content":%q},{"role":"user","content":"now"}`, long, long))))
	if err != nil || len(q.Told) != 1 {
		t.Errorf("%d messages of 40 KiB are told, %v; want 1", len(q.Told), err)
	}
	_, err = openai.Decode([]byte(of(fmt.Sprintf(`{"role":"system","content":%q},{"role":"developer","content":%q},{"role":"user","content":"now"}`, long, long))))
	if !problem.Is(err, problem.TooLarge) {
		t.Errorf("system texts of 80 KiB: %v", err)
	}
}

// Each error names the member and the expected value.
func TestWhatIsAskedIsReadStrictly(t *testing.T) {
	image := `{"type":"image_url","image_url":{"url":"https://example.com/a.png","detail":"low"}}`
	for _, tt := range []struct{ body, want string }{
		{``, "body"},
		{`[]`, "body: expected one JSON object"},
		{`{}`, "messages: expected at least one message, got none"},
		{`{"messages":null}`, "messages"},
		{`{"messages":[]}`, "messages: expected at least one message, got none"},
		{`{"messages":{}}`, "messages"},
		{`{"messages":["hi"]}`, "messages[0]"},
		{of(`{"content":"hi"}`), "messages[0].role: expected one of user, assistant, system, developer, got none"},
		{of(`{"role":"user"}`), "messages[0].content: expected a text, got none"},
		{of(`{"role":"user","content":null}`), "messages[0].content: expected a text, got none"},
		{of(`{"role":"user","content":""}`), "messages[0].content: expected a text, because the last message is asked, got none"},
		{of(`{"role":"user","content":7}`), "messages[0].content"},
		{of(`{"role":"user","content":[{"type":"text"}]}`), "messages[0].content[0].text: expected a text, got none"},
		{of(`{"role":"user","content":[{"type":"text","text":7}]}`), "messages[0].content[0].text: expected a text, got none"},
		{of(`{"role":"system","content":[` + image + `]},{"role":"user","content":"hi"}`), "messages[0].content: expected texts, because only the user's messages have images, got an image"},
		{of(`{"role":"assistant","content":[` + image + `]},{"role":"user","content":"hi"}`), "messages[0].content: expected texts, because only the user's messages have images, got an image"},
		{of(`{"role":"developer","content":[` + image + `]},{"role":"user","content":"hi"}`), "messages[0].content: expected texts, because only the user's messages have images, got an image"},
		{of(`{"role":"user","content":[{"type":"image_url"}]}`), "messages[0].content[0].image_url.url: expected data:image/TYPE;base64,BYTES, or a public https URL without user and password, got"},
		{of(`{"role":"user","content":[{"type":"image_url","image_url":"https://example.com/a.png"}]}`), "messages[0].content[0].image_url.url: expected data:"},
		{of(`{"role":"user","content":[{"type":"image_url","image_url":{"url":7}}]}`), "messages[0].content[0].image_url.url"},
		{of(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://example.com/a.png"}}]}`), `got "http://example.com/a.png"`},
		{of(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:text/html;base64,aGk="}}]}`), `got "data:text/html`},
		{of(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png,hi"}}]}`), `got "data:image/png`},
		{of(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,???"}}]}`), "got bytes that are not base64"},
		{of(`{"role":"user","content":[{"type":"input_audio","text":"x"}]}`), "messages[0].content[0].type"},
		{of(`{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}`), "messages[1].role: expected user, because the last message is asked, got assistant"},
		{of(`{"role":"user","content":"hi"},{"role":"system","content":"ho"}`), "messages[1].role: expected user"},
		{of(`{"role":"tool","content":"42","tool_call_id":"c"},{"role":"user","content":"hi"}`), "messages[0]"},
		{of(`{"role":"root","content":"hi"}`), `messages[0].role: expected one of user, assistant, system, developer, got "root"`},
		{of(`{"role":"assistant","content":null,"tool_calls":[{"id":"c"}]},{"role":"user","content":"hi"}`), "messages[0].tool_calls: expected none or []"},
		{of(`{"role":"user","role":"system","content":"hi"}`), "the key once"},
		{body(`,"stream":"yes"`), "stream"},
		{body(`,"stream_options":{"include_usage":true}`), "stream_options: expected none without stream, got some"},
		{body(`,"stream_options":{}`), "stream_options: expected none without stream, got some"},
		{body(`,"stream":true,"stream_options":{"include_usage":1}`), "stream_options.include_usage"},
		{body(`,"n":2`), "n: expected none or 1, because a call has one answer, got 2"},
		{body(`,"n":1.0`), "n: expected none or 1"},
		{body(`,"tools":[{"type":"function"}]`), "tools: expected none or [], because the agent runs its own tools"},
		{body(`,"tool_choice":"required"`), "tool_choice: expected none"},
		{body(`,"functions":[{}]`), "functions: expected none"},
		{body(`,"audio":{"voice":"x","format":"mp3"}`), "audio: expected none, because the answer is text"},
		{body(`,"modalities":["text","audio"]`), `modalities: expected none or ["text"]`},
		{body(`,"response_format":{"type":"json_object"}`), `response_format: expected none or {"type":"text"}`},
		{body(`,"stop":["x"]`), "stop: expected none"},
		{body(`,"logprobs":true`), "logprobs: expected none or false"},
		{`{"model":7,"messages":[{"role":"user","content":"hi"}]}`, "model"},
	} {
		_, err := openai.Decode([]byte(tt.body))
		known := new(problem.Error)
		if !errors.As(err, &known) || !strings.Contains(known.Text(), tt.want) {
			t.Errorf("%.120s: %v, want %q", tt.body, err, tt.want)
		}
	}
}

// A member that asks for nothing is not refused, and no other member costs the answer.
func TestOtherMembersAreIgnored(t *testing.T) {
	for _, m := range openai.Members() {
		values := append([]string{"null"}, m.Allowed...)
		if m.Rule == openai.Ignored {
			values = append(values, `7`, `"x"`, `{"a":[1.5]}`)
		}
		if m.Name == "messages" {
			continue
		}
		for _, v := range values {
			more := fmt.Sprintf(`,%q:%s`, m.Name, v)
			b := `{"messages":[{"role":"user","content":"hi"}]` + more + `}`
			if q, err := openai.Decode([]byte(b)); err != nil || q.Asked.Text != "hi" {
				t.Errorf("%s: %v", more, err)
			}
		}
	}
	if _, err := openai.Decode([]byte(body(`,"of_a_later_version":{"deep":[[1.5,-0]]}`))); err != nil {
		t.Errorf("an unknown member: %v", err)
	}
}

// The table in the README is the table that Decode follows.
func TestTheDocumentHasTheTable(t *testing.T) {
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), openai.Table()) {
		t.Errorf("README.md has not this table:\n%s", openai.Table())
	}
}

// An answer that may be incomplete ends with length, so that no client takes it for whole.
func TestOnlyAWholeAnswerEndsWithStop(t *testing.T) {
	for cut, want := range map[call.Cut]string{"": "stop", call.CutCanceled: "stop", call.CutLength: "length", call.CutBudget: "length", call.CutUnknown: "length"} {
		if got := *openai.Finish(cut); got != want {
			t.Errorf("an answer with cut %q ends with %s, want %s", cut, got, want)
		}
	}
}

func TestErrorsHaveOpenAIsForm(t *testing.T) {
	for _, tt := range []struct {
		err        error
		status     int
		typ, code  string
		param      string
		retryAfter bool
	}{
		{problem.Invalid("n", "1", "2"), 400, "invalid_request_error", "malformed", "n", false},
		{problem.New(problem.Unauthorized, ""), 401, "invalid_request_error", "invalid_api_key", "", false},
		{problem.New(problem.PaymentRequired, "the price is"), 402, "insufficient_quota", "insufficient_quota", "", false},
		{problem.New(problem.PriceAboveMax, ""), 402, "insufficient_quota", "insufficient_quota", "", false},
		{problem.New(problem.Forbidden, ""), 403, "permission_error", "forbidden", "", false},
		{problem.New(problem.NotFound, ""), 404, "invalid_request_error", "model_not_found", "", false},
		{problem.New(problem.TooMany, ""), 429, "requests", "rate_limit_exceeded", "", true},
		{problem.New(problem.Unavailable, ""), 503, "server_error", "unavailable", "", true},
		{errors.New("secret"), 500, "server_error", "internal", "", false},
	} {
		w := httptest.NewRecorder()
		openai.Fail(w, tt.err)
		var got openai.Failure
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		param := ""
		if got.Error.Param != nil {
			param = *got.Error.Param
		}
		if w.Code != tt.status || got.Error.Type != tt.typ || got.Error.Code != tt.code || param != tt.param || (w.Header().Get("Retry-After") != "") != tt.retryAfter || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%v: %d %s", tt.err, w.Code, w.Body)
		}
	}
}

func TestOnlyPathsOfOpenAIsAPIAreItsPaths(t *testing.T) {
	for path, want := range map[string]bool{
		"/v1/chat/completions": true, "/v1/models": true, "/v1/models/clerk": true, "/v1/responses": true, "/v1/responses/r/cancel": true, "/v1/embeddings": true,
		"/v1/modelsx": false, "/v1/message:send": false, "/v1/halo": false, "/v1": false, "/": false, "/text": false, "/v1/search": false, "/v1/account": false,
	} {
		if openai.IsPath(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}

// A request that decodes has a text to ask, and what is told is within the bounds.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(body("")))
	f.Add([]byte(of(`{"role":"system","content":"a"},{"role":"user","content":[{"type":"text","text":"hi"}]}`)))
	f.Add([]byte(of(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw=="}},{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}`)))
	f.Add([]byte(body(`,"n":1,"tools":[],"stop":null,"stream":true,"stream_options":{"include_usage":true}`)))
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := openai.Decode(b)
		if err != nil {
			if known := new(problem.Error); !errors.As(err, &known) || known.Kind.Row().Status >= 500 {
				t.Fatalf("%q: %v", b, err)
			}
			return
		}
		size, n := 0, 0
		for _, m := range q.Told {
			size += len(m.Text)
			if m.Role == "user" || m.Role == "assistant" {
				n++
			}
		}
		if q.Asked.Text == "" && q.Asked.Images == nil || q.Told == nil || size > 64<<10 || n > 40 {
			t.Fatalf("%q: %+v", b, q)
		}
	})
}

// An answer that may be incomplete has the one reason that clients of OpenAI know for it.
func TestFinishTellsIncompleteAnswers(t *testing.T) {
	for cut, want := range map[call.Cut]string{"": "stop", call.CutCanceled: "stop", call.CutLength: "length", call.CutBudget: "length", call.CutUnknown: "length"} {
		if got := *openai.Finish(cut); got != want {
			t.Errorf("Finish(%q) = %q, want %q", cut, got, want)
		}
	}
}
