package openaiwire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/openai/openaiwire"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func body(more string) string {
	return `{"model":"m","messages":[{"role":"user","content":"hi"}]` + more + `}`
}

func of(messages string) string { return `{"messages":[` + messages + `]}` }

func TestTheLastMessageIsAskedAndTheOthersAreTold(t *testing.T) {
	q, err := openaiwire.Decode(openaiwire.Chat, []byte(`{"model":"clerk","stream":true,"stream_options":{"include_usage":true,"later":1},"temperature":0.2,"messages":[
		{"role":"system","content":"be brief"},
		{"role":"user","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}],"name":"ann"},
		{"role":"assistant","content":"three","refusal":null},
		{"role":"assistant","content":null},
		{"role":"developer","content":"in English"},
		{"role":"user","content":"four"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(q.BodyHash) != 64 {
		t.Errorf("the hash is %q", q.BodyHash)
	}
	q.BodyHash = ""
	want := &openaiwire.Request{Model: "clerk", Question: openaiwire.InputMessage{Role: "user", Text: "four"}, WantsStream: true, WantsUsage: true, Earlier: []openaiwire.InputMessage{
		{Role: "system", Text: "be brief"}, {Role: "user", Text: "one\ntwo"}, {Role: "assistant", Text: "three"}, {Role: "developer", Text: "in English"}}}
	if diff := cmp.Diff(want, q); diff != "" {
		t.Error(diff)
	}
}

// An image is a part of the message that has it, with its bytes or its URL.
func TestImagesBelongToTheirMessage(t *testing.T) {
	inline := `{"type":"image_url","image_url":{"url":"data:IMAGE/png;base64,iVBORw==","detail":"high"}}`
	q, err := openaiwire.Decode(openaiwire.Chat, []byte(of(`{"role":"user","content":[`+inline+`]},{"role":"user","content":[{"type":"text","text":"see"},`+inline+`,{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}`)))
	if err != nil {
		t.Fatal(err)
	}
	png := openaiwire.Image{MediaType: "image/png", Data: []byte("\x89PNG")}
	if diff := cmp.Diff(openaiwire.InputMessage{Role: "user", Text: "see", Images: []openaiwire.Image{png, {URL: "https://example.com/a.png"}}}, q.Question); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]openaiwire.InputMessage{{Role: "user", Images: []openaiwire.Image{png}}}, q.Earlier); diff != "" {
		t.Error(diff)
	}
}

// Clients spell data URLs and their images in several ways.
func TestImagesAreReadInTheSpellingsOfClients(t *testing.T) {
	image := openaiwire.Image{MediaType: "image/png", Data: []byte("\xfb\xff\xfeP")} // +//+UA==
	for name, part := range map[string]string{
		"upper case":          `{"type":"image_url","image_url":{"url":"DATA:image/PNG;BASE64,+//+UA=="}}`,
		"no padding":          `{"type":"image_url","image_url":{"url":"data:image/png;base64,+//+UA"}}`,
		"the URL's alphabet":  `{"type":"image_url","image_url":{"url":"data:image/png;base64,-__-UA"}}`,
		"lines":               `{"type":"image_url","image_url":{"url":"data:image/png;base64,+//+\nUA==\n"}}`,
		"a parameter":         `{"type":"image_url","image_url":{"url":"data:image/png;charset=utf-8;base64,+//+UA=="}}`,
		"a text":              `{"type":"image_url","image_url":"data:image/png;base64,+//+UA=="}`,
		"a part of Responses": `{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,+//+UA=="}`,
	} {
		q, err := openaiwire.Decode(openaiwire.Chat, []byte(of(`{"role":"user","content":[`+part+`]}`)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff([]openaiwire.Image{image}, q.Question.Images); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A conversation with tools goes on at an agent that has others: calls and results are told as texts.
func TestOldCallsOfToolsAreTold(t *testing.T) {
	want := []openaiwire.InputMessage{
		{Role: "user", Text: "weather?"}, {Role: "assistant", Text: `[called the tool weather with {"city":"Bern"}]`}, {Role: "tool", Text: "12 °C"}, {Role: "assistant", Text: "It is 12 °C."},
	}
	for name, tt := range map[string]struct {
		api  openaiwire.API
		body string
	}{
		"a completion": {openaiwire.Chat, of(`{"role":"user","content":"weather?"},
			{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Bern\"}"}}]},
			{"role":"tool","tool_call_id":"c","content":"12 °C"},{"role":"assistant","content":"It is 12 °C.","audio":null},{"role":"user","content":"and now?"}`)},
		"functions": {openaiwire.Chat, of(`{"role":"user","content":"weather?"},
			{"role":"assistant","content":"","function_call":{"name":"weather","arguments":"{\"city\":\"Bern\"}"}},
			{"role":"function","name":"weather","content":"12 °C"},{"role":"assistant","content":"It is 12 °C."},{"role":"user","content":"and now?"}`)},
		"Responses": {openaiwire.Responses, `{"input":[{"role":"user","content":[{"type":"input_text","text":"weather?"}]},
			{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},
			{"type":"function_call","call_id":"c","name":"weather","arguments":"{\"city\":\"Bern\"}"},{"type":"function_call_output","call_id":"c","output":"12 °C"},
			{"type":"message","id":"msg_x","role":"assistant","content":[{"type":"output_text","text":"It is 12 °C.","annotations":[]}]},{"type":"message","role":"user","content":"and now?"}]}`},
	} {
		q, err := openaiwire.Decode(tt.api, []byte(tt.body))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, q.Earlier); diff != "" || q.Question.Text != "and now?" {
			t.Errorf("%s: %+v %s", name, q.Question, diff)
		}
	}
}

// The client is told what its request asked for in vain.
func TestWarningsTellWhatIsLeftOut(t *testing.T) {
	messages := strings.Repeat(`{"role":"user","content":"old"},`, 50)
	q, err := openaiwire.Decode(openaiwire.Chat, []byte(`{"stop":["\n"],"messages":[`+messages+`{"role":"user","content":"now"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"messages: the 10 oldest messages were omitted, because the agent gets at most 40 messages and 65536 bytes", "stop: ignored, because an answer ends where the agent ends it"}
	if diff := cmp.Diff(want, q.Warnings()); diff != "" || q.OmittedCount != 10 {
		t.Errorf("%d are left out: %s", q.OmittedCount, diff)
	}
	if q, err := openaiwire.Decode(openaiwire.Chat, []byte(body(`,"stop":[]`))); err != nil || len(q.Warnings()) != 0 {
		t.Errorf("a request that asks for nothing in vain: %v, %v", q.Warnings(), err)
	}
}

// A request of Responses is read as strictly as a completion.
func TestResponsesAreRead(t *testing.T) {
	q, err := openaiwire.Decode(openaiwire.Responses, []byte(`{"model":"clerk","instructions":"be brief","store":true,"stream":true,"stream_options":{"include_obfuscation":false},
		"reasoning":{"effort":"low"},"text":{"format":{"type":"text"},"verbosity":"low"},"tools":[],"include":["reasoning.encrypted_content"],"previous_response_id":null,"messages":7,
		"input":[{"role":"developer","content":"in English"},{"type":"item_reference","id":"msg_1"},{"role":"user","content":"now"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Resolve(func(id string) (string, error) { return "the answer " + id, nil }); err != nil {
		t.Fatal(err)
	}
	q.BodyHash = ""
	want := &openaiwire.Request{API: openaiwire.Responses, Model: "clerk", Question: openaiwire.InputMessage{Role: "user", Text: "now"}, WantsStream: true, Earlier: []openaiwire.InputMessage{
		{Role: "system", Text: "be brief"}, {Role: "developer", Text: "in English"}, {Role: "assistant", Text: "the answer msg_1"}}}
	if diff := cmp.Diff(want, q); diff != "" {
		t.Error(diff)
	}
	for more, want := range map[string]string{
		`"input":7`:  "input",
		`"input":""`: "input[0].content: expected a text",
		`"input":[]`: "input: expected at least one message, got none",
		`"messages":[{"role":"user","content":"hi"}]`:                                           "input: expected at least one message, got none",
		`"input":[{"role":"user","content":"hi"},{"type":"function_call_output","output":"x"}]`: "input[1].role: expected user, because the last message is the question, got tool",
		`"input":[{"role":"user","content":"hi"},{"type":"reasoning"}]`:                         "input[1].role: expected user, because the last message is the question, got none",
		`"input":[{"role":"user","content":[{"type":"input_file","file_id":"f"}]}]`:             "input[0].content[0].type",
		`"input":"hi","previous_response_id":"resp_1"`:                                          "previous_response_id: expected none",
		`"input":"hi","conversation":"conv_1"`:                                                  "conversation: expected none",
		`"input":"hi","background":true`:                                                        "background: expected none or false",
		`"input":"hi","tools":[{"type":"web_search"}]`:                                          "tools: expected none or []",
		`"input":"hi","text":{"format":{"type":"json_schema","name":"x","schema":{}}}`:          `text.format: expected none or {"type":"text"}`,
		`"input":"hi","instructions":["x"]`:                                                     "instructions",
	} {
		_, err := openaiwire.Decode(openaiwire.Responses, []byte("{"+more+"}"))
		known := new(problem.Error)
		if !errors.As(err, &known) || !strings.Contains(known.Text(), want) {
			t.Errorf("%s: %v, want %q", more, err, want)
		}
	}
}

// The oldest messages are left out, and no text of the system.
func TestWhatIsToldIsBoundedAsMemoryIs(t *testing.T) {
	messages := []string{`{"role":"system","content":"rules"}`}
	for i := range 1000 {
		messages = append(messages, fmt.Sprintf(`{"role":%q,"content":"%d"}`, []string{"user", "assistant"}[i%2], i))
	}
	q, err := openaiwire.Decode(openaiwire.Chat, []byte(of(strings.Join(append(messages, `{"role":"user","content":"now"}`), ","))))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(q.Earlier); n != 41 || q.Earlier[0].Text != "rules" || q.Earlier[1].Text != "960" || q.Earlier[40].Text != "999" {
		t.Errorf("%d messages are told: %v", n, q.Earlier)
	}
	long := strings.Repeat("x", 40<<10)
	q, err = openaiwire.Decode(openaiwire.Chat, []byte(of(fmt.Sprintf(`{"role":"user","content":"old"},{"role":"assistant","content":%q},{"role":"user","content":%q},{"role":"user","content":"now"}`, long, long))))
	if err != nil || len(q.Earlier) != 1 {
		t.Errorf("%d messages of 40 KiB are told, %v; want 1", len(q.Earlier), err)
	}
	_, err = openaiwire.Decode(openaiwire.Chat, []byte(of(fmt.Sprintf(`{"role":"system","content":%q},{"role":"developer","content":%q},{"role":"user","content":"now"}`, long, long))))
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
		{of(`{"content":"hi"}`), "messages[0].role: expected one of user, assistant, system, developer, tool, got none"},
		{of(`{"role":"user"}`), "messages[0].content: expected a text, got none"},
		{of(`{"role":"user","content":null}`), "messages[0].content: expected a text, got none"},
		{of(`{"role":"user","content":""}`), "messages[0].content: expected a text, because the last message is the question, got none"},
		{of(`{"role":"user","content":7}`), "messages[0].content"},
		{of(`{"role":"user","content":[{"type":"text"}]}`), "messages[0].content[0].text: expected a text, got none"},
		{of(`{"role":"user","content":[{"type":"text","text":7}]}`), "messages[0].content[0].text: expected a text, got none"},
		{of(`{"role":"system","content":[` + image + `]},{"role":"user","content":"hi"}`), "messages[0].content: expected texts, because only the user's messages have images, got an image"},
		{of(`{"role":"assistant","content":[` + image + `]},{"role":"user","content":"hi"}`), "messages[0].content: expected texts, because only the user's messages have images, got an image"},
		{of(`{"role":"developer","content":[` + image + `]},{"role":"user","content":"hi"}`), "messages[0].content: expected texts, because only the user's messages have images, got an image"},
		{of(`{"role":"user","content":[{"type":"image_url"}]}`), "messages[0].content[0].image_url.url: expected data:image/TYPE;base64,BYTES, or a public https URL without user and password, got"},
		{of(`{"role":"user","content":[{"type":"image_url","image_url":"http://example.com/a.png"}]}`), "messages[0].content[0].image_url.url: expected data:"},
		{of(`{"role":"user","content":[{"type":"image_url","image_url":{"url":7}}]}`), "messages[0].content[0].image_url.url"},
		{of(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://example.com/a.png"}}]}`), `got "http://example.com/a.png"`},
		{of(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:text/html;base64,aGk="}}]}`), `got "data:text/html`},
		{of(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png,hi"}}]}`), `got "data:image/png`},
		{of(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,???"}}]}`), "got bytes that are not base64"},
		{of(`{"role":"user","content":[{"type":"input_audio","text":"x"}]}`), "messages[0].content[0].type"},
		{of(`{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}`), "messages[1].role: expected user, because the last message is the question, got assistant"},
		{of(`{"role":"user","content":"hi"},{"role":"system","content":"ho"}`), "messages[1].role: expected user"},
		{of(`{"role":"user","content":"hi"},{"role":"tool","content":"42","tool_call_id":"c"}`), "messages[1].role: expected user, because the last message is the question, got tool"},
		{of(`{"role":"root","content":"hi"}`), `messages[0].role: expected one of user, assistant, system, developer, tool, got "root"`},
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
		{body(`,"logprobs":true`), "logprobs: expected none or false"},
		{`{"model":7,"messages":[{"role":"user","content":"hi"}]}`, "model"},
	} {
		_, err := openaiwire.Decode(openaiwire.Chat, []byte(tt.body))
		known := new(problem.Error)
		if !errors.As(err, &known) || !strings.Contains(known.Text(), tt.want) {
			t.Errorf("%.120s: %v, want %q", tt.body, err, tt.want)
		}
	}
}

// A member that asks for nothing is not refused, and no other member costs the answer.
func TestOtherMembersAreIgnored(t *testing.T) {
	for _, m := range openaiwire.Chat.Members() {
		values := append([]string{"null"}, m.Allowed...)
		if m.Rule == openaiwire.Ignored {
			values = append(values, `7`, `"x"`, `{"a":[1.5]}`)
		}
		if m.Name == "messages" {
			continue
		}
		for _, v := range values {
			more := fmt.Sprintf(`,%q:%s`, m.Name, v)
			b := `{"messages":[{"role":"user","content":"hi"}]` + more + `}`
			if q, err := openaiwire.Decode(openaiwire.Chat, []byte(b)); err != nil || q.Question.Text != "hi" {
				t.Errorf("%s: %v", more, err)
			}
		}
	}
	if _, err := openaiwire.Decode(openaiwire.Chat, []byte(body(`,"of_a_later_version":{"deep":[[1.5,-0]]}`))); err != nil {
		t.Errorf("an unknown member: %v", err)
	}
}

// The table in the README is the table that Decode follows.
func TestTheDocumentHasTheTable(t *testing.T) {
	b, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, api := range []openaiwire.API{openaiwire.Chat, openaiwire.Responses} {
		if !strings.Contains(string(b), api.MembersTable()) {
			t.Errorf("README.md has not this table:\n%s", api.MembersTable())
		}
	}
}

// An answer that may be incomplete ends with length, so that no client takes it for whole.
func TestOnlyAWholeAnswerEndsWithStop(t *testing.T) {
	for cut, want := range map[call.CutReason]string{"": "stop", call.CutCanceled: "stop", call.CutLength: "length", call.CutBudget: "length", call.CutUnknown: "length"} {
		if got := *openaiwire.Chat.RenderAnswer(&openaiwire.Answer{CutReason: cut}).(openaiwire.Completion).Choices[0].FinishReason; got != want {
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
		{problem.New(problem.TooManyRequests, ""), 429, "requests", "rate_limit_exceeded", "", true},
		{problem.New(problem.Unavailable, ""), 503, "server_error", "unavailable", "", true},
		{errors.New("secret"), 500, "server_error", "internal", "", false},
	} {
		w := httptest.NewRecorder()
		openaiwire.Fail(w, tt.err)
		var got openaiwire.Failure
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
		"/chat/completions": true, "/models": true, "/responses": true, "/v1/v1/models": true, "/v1/v1/v1/chat/completions": true, "/chat": false, "/modelsx": false, "/v1/v1/search": false,
		"/v1/modelsx": false, "/v1/message:send": false, "/v1/halo": false, "/v1": false, "/": false, "/text": false, "/v1/search": false, "/v1/account": false,
	} {
		if openaiwire.IsPath(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}

// A request that decodes has a text to ask, and what is told is within the bounds.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(body("")))
	f.Add([]byte(of(`{"role":"system","content":"a"},{"role":"user","content":[{"type":"text","text":"hi"}]}`)))
	f.Add([]byte(of(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw=="}},{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}`)))
	f.Add([]byte(`{"input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]},{"type":"function_call","name":"f","arguments":"{}"},{"type":"item_reference","id":"msg_1"},{"role":"user","content":"now"}]}`))
	f.Add([]byte(of(`{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]},{"role":"user","content":"hi"}`)))
	f.Add([]byte(body(`,"n":1,"tools":[],"stop":null,"stream":true,"stream_options":{"include_usage":true}`)))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, api := range []openaiwire.API{openaiwire.Chat, openaiwire.Responses} {
			q, err := openaiwire.Decode(api, b)
			if err == nil {
				err = q.Resolve(func(string) (string, error) { return strings.Repeat("x", 1<<10), nil })
			}
			if err != nil {
				if known := new(problem.Error); !errors.As(err, &known) || known.Kind.Forms().HTTPStatus >= 500 {
					t.Fatalf("%q: %v", b, err)
				}
				continue
			}
			size, n := 0, 0
			for _, m := range q.Earlier {
				size += len(m.Text)
				if m.Role == "user" || m.Role == "assistant" || m.Role == "tool" {
					n++
				}
			}
			if q.Question.Text == "" && q.Question.Images == nil || q.Earlier == nil || size > 64<<10 || n > 40 {
				t.Fatalf("%q: %+v", b, q)
			}
		}
	})
}
