package a2a_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// reader is an HTTP agent that keeps the last turn that it is asked with.
type reader struct {
	turns atomic.Int64
	last  substrate.Turn
}

func (a *reader) Infer(_ context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	a.turns.Add(1)
	a.last = r.Turns[len(r.Turns)-1]
	return substrate.Func(func(context.Context, substrate.Request) (string, error) { return "seen", nil }).Infer(context.Background(), r)
}

// reading is a host with the vacant viewer, whose agent takes images and JSON, and the model artist,
// which takes them, too.
func reading(t *testing.T) (*paying, *reader) {
	t.Helper()
	agent := &reader{}
	w := &paying{world: openWorld(t, true, func(c *serve.Config) {
		c.HasAccounts = true
		for _, kind := range []string{substrate.KindHTTP, substrate.KindOllama} {
			c.Substrates[kind] = func(string) (substrate.Substrate, error) { return agent, nil }
		}
	}).runs()}
	w.acme = "Authorization: Bearer " + w.key("acme", false)
	for name, a := range map[string]definition.Agent{
		"viewer": {Provider: substrate.KindHTTP, BaseURL: w.http.URL + "/agent", Input: []string{"image/png", "application/json"}, Memory: true},
		"artist": {Provider: substrate.KindOllama, Model: "m", Input: []string{"image/png", "text/csv"}},
	} {
		_, err := w.server.Vacants.Create(t.Context(), vacants.CreateSpec{Name: name, Capability: "Looks", Agent: &a})
		must(t, err)
	}
	return w, agent
}

const (
	png    = "iVBORw0KGgo="
	pngSum = "4c4b6a3be1314ab86138bef4314dde022e600960d8689a2c8f8631802d20dab6"
)

var pngFile = substrate.File{Name: "a \"b\".png", MediaType: "image/png", Data: []byte("\x89PNG\r\n\x1a\n")}

func withParts(id, parts string) string {
	return fmt.Sprintf(`{"message":{"messageId":%q,"role":"ROLE_USER","parts":[%s]}}`, id, parts)
}

// A file reaches the agent by every way of a caller that signs nothing, and the signed text names it.
func TestFilesReachAnAgentThatTakesThem(t *testing.T) {
	w, agent := reading(t)
	image := `{"raw":"` + png + `","filename":"a \"b\".png","mediaType":"image/PNG; q=1"}`
	note := `[file "a \"b\".png", image/png, 8 bytes, sha256 ` + pngSum + `]`
	nameless := pngFile
	nameless.Name = ""
	for name, tt := range map[string]struct {
		send  func() answer
		text  string
		files []substrate.File
	}{
		"1.0": {func() answer {
			return w.rpc("/v/viewer", "SendMessage", withParts("f1", `{"text":"see"},`+image+`,{"data":{"a": 1.50}},{"url":"https://example.com/a.png","mediaType":"image/png"}`))
		}, "see " + note + " [file, application/json, 10 bytes, sha256 23ca677c678537da56740da929aa1be568e3cdf9fa01b726fdc57ba9ca372ce0] [file, image/png, at \"https://example.com/a.png\"]",
			[]substrate.File{pngFile, {MediaType: "application/json", Data: []byte(`{"a":1.50}`)}, {MediaType: "image/png", URL: "https://example.com/a.png"}}},
		"0.3": {func() answer {
			return w.do("POST", "/v/viewer", send03(`{"message":{"kind":"message","messageId":"f2","role":"user","parts":[{"kind":"file","file":{"name":"a \"b\".png","mimeType":"image/png","bytes":"`+png+`"}},{"kind":"data","data":{"b":[]}}]}}`))
		}, note + " [file, application/json, 8 bytes, sha256 ", []substrate.File{pngFile, {MediaType: "application/json", Data: []byte(`{"b":[]}`)}}},
		"an account": {func() answer { return w.rpc("/v/viewer", "SendMessage", withParts("f3", image), w.acme) }, note, []substrate.File{pngFile}},
		"a stream":   {func() answer { return w.rpc("/v/viewer", "SendStreamingMessage", withParts("f4", image)) }, note, []substrate.File{pngFile}},
		"OpenAI": {func() answer {
			return w.do("POST", "/v/viewer"+completions, `{"messages":[{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,`+png+`"}},{"type":"image_url","image_url":{"url":"https://example.com/b.webp"}}]}]}`)
		}, "see [file, image/png, 8 bytes, sha256 " + pngSum + "] [file, image/*, at \"https://example.com/b.webp\"]", []substrate.File{nameless, {MediaType: "image/*", URL: "https://example.com/b.webp"}}},
		"a model": {func() answer {
			return w.rpc("/v/artist", "SendMessage", withParts("f5", `{"raw":"`+base64.StdEncoding.EncodeToString([]byte("a;b"))+`","mediaType":"text/csv"},`+image))
		}, "[file, text/csv, 3 bytes, sha256 ", []substrate.File{pngFile}},
	} {
		agent.last = substrate.Turn{}
		if got := tt.send(); !strings.Contains(got.body, "seen") {
			t.Errorf("%s: %s", name, got.body)
		}
		if diff := cmp.Diff(tt.files, agent.last.Files); diff != "" {
			t.Errorf("%s: files (-want +got):\n%s", name, diff)
		}
		if !strings.HasPrefix(agent.last.Text, tt.text) {
			t.Errorf("%s: the agent reads %q, want %q", name, agent.last.Text, tt.text)
		}
	}
}

// What an agent does not take is refused before anything is stored, with what it takes.
func TestOtherContentIsRefused(t *testing.T) {
	w, agent := reading(t)
	file := func(media string, n int) string {
		return fmt.Sprintf(`{"raw":%q,"mediaType":%q}`, base64.StdEncoding.EncodeToString(make([]byte, n)), media)
	}
	for name, tt := range map[string]struct{ vacant, params, code, says string }{
		"a media type":          {"viewer", withParts("m", file("image/gif", 3)), "-32005", `parts[0]: this agent reads text, image/png, application/json, got a file of type "image/gif"`},
		"no media type":         {"viewer", withParts("m", `{"text":"x"},{"raw":"AA=="}`), "-32005", "parts[1]: this agent reads text, image/png, application/json, got raw without a media type (application/octet-stream)"},
		"a file of text":        {"viewer", withParts("m", file("text/plain", 3)), "-32005", "got a file of type \"text/plain\""},
		"an agent of text":      {"echo", withParts("m", file("image/png", 3)), "-32005", `parts[0]: this agent reads text, got a file of type "image/png"`},
		"data":                  {"artist", withParts("m", `{"data":{}}`), "-32005", "parts[0]: this agent reads text, image/png, text/csv, got data without a media type (application/json)"},
		"a URL for a model":     {"artist", withParts("m", `{"url":"https://example.com/a.png","mediaType":"image/png"}`), "-32005", "got a URL"},
		"a URL of another":      {"viewer", withParts("m", `{"url":"https://example.com/a.gif","mediaType":"image/gif"}`), "-32005", "got a URL"},
		"a byte too many":       {"viewer", withParts("m", `{"text":"x"},`+file("image/png", 256<<10)), "-32600", "parts: expected at most 262144 bytes of texts and files together, got 262145"},
		"base64 that is not":    {"viewer", withParts("m", `{"raw":"?","mediaType":"image/png"}`), "-32602", "parts[0].raw: expected base64"},
		"many parts":            {"viewer", withParts("m", strings.Repeat(file("image/png", 1)+",", 64)+file("image/png", 1)), "-32602", "parts: expected at most 64, got more"},
		"a file in an envelope": {"viewer", strings.Replace(params1(w.signer().envelope(w.echo.ID, 1, identity.Hash{}, "hi", "", ""), ""), `"parts":[`, `"parts":[`+file("image/png", 1)+`,`, 1), "-32602", "parts[0]: expected a text part, because an envelope signs only text, got raw"},
		"a long name":           {"viewer", withParts("m", `{"text":"x","filename":"`+strings.Repeat("\u2028", 100<<10)+`"}`), "-32600", "message: expected at most 352256 bytes in the form in which a task is stored, got "},
		"text that grows":       {"viewer", withParts("m", `{"text":"`+strings.Repeat("\u2028", 80<<10)+`"}`), "-32600", "message: expected at most 352256 bytes in the form in which a task is stored, got "},
		"too much text":         {"viewer", withParts("m", fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 300<<10))), "-32600", "parts: expected at most"},
	} {
		got := w.rpc("/v/"+tt.vacant, "SendMessage", tt.params)
		if body := refused(got.body); at(t, body, "error", "code") != tt.code || !strings.Contains(at(t, body, "error", "message"), tt.says) {
			t.Errorf("%s: %.400s, want %s %q", name, body, tt.code, tt.says)
		}
	}
	got := w.do("POST", "/v/echo"+completions, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,`+png+`"}}]}]}`)
	if got.status != 400 || !strings.Contains(got.body, `messages: expected content that this agent reads, which is text, got a file of type \"image/png\"`) {
		t.Errorf("an image for an agent of text: %d %s", got.status, got.body)
	}
	if n := agent.turns.Load(); n != 0 {
		t.Errorf("the agent ran %d times", n)
	}
}

// A message that comes again has its kept answer, also after its agent has stopped to take such files.
func TestAMessageThatComesAgainNeedsNoAgentThatTakesIt(t *testing.T) {
	w, agent := reading(t)
	message := withParts("f1", `{"raw":"`+png+`","mediaType":"image/png"}`)
	completion := `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + png + `"}}]}]}`
	send := map[string]func(id string) answer{
		"a message": func(id string) answer {
			return w.rpc("/v/viewer", "SendMessage", strings.Replace(message, "f1", id, 1), w.acme)
		},
		"a stream": func(id string) answer {
			return w.rpc("/v/viewer", "SendStreamingMessage", strings.Replace(message, "f1", "s-"+id, 1), w.acme)
		},
		"a completion": func(id string) answer {
			return w.do("POST", "/v/viewer"+completions, completion, w.acme, "Idempotency-Key: "+id)
		},
	}
	for name, f := range send {
		if got := f("f1"); !strings.Contains(got.body, "seen") {
			t.Fatalf("%s: %s", name, got.body)
		}
	}
	ran := agent.turns.Load()
	viewer, err := w.server.Vacants.GetByName(t.Context(), vacants.OperatorAsker(), "viewer")
	must(t, err)
	_, err = w.server.Vacants.Update(t.Context(), viewer.ID, vacants.Changes{Agent: &definition.Agent{Provider: substrate.KindHTTP, BaseURL: w.http.URL + "/agent", Memory: true}})
	must(t, err)
	if got := at(t, w.do("GET", "/v/viewer/.well-known/agent-card.json", "").body, "defaultInputModes"); got != `["text/plain","text"]` {
		t.Errorf("its card has the input modes %s", got)
	}
	for name, f := range send {
		if got := f("f1"); !strings.Contains(got.body, "seen") {
			t.Errorf("%s that comes again: %s", name, got.body)
		}
		if got := f("f2"); strings.Contains(got.body, "seen") || !strings.Contains(got.body, "this agent reads") {
			t.Errorf("another one, as %s: %s", name, got.body)
		}
	}
	if got := agent.turns.Load(); got != ran {
		t.Errorf("the agent ran %d times, want %d", got, ran)
	}
}

// The largest message is stored and read again, and its memory is a line.
func TestTheLargestFileIsStored(t *testing.T) {
	w, agent := reading(t)
	data := strings.Repeat("\xff", 256<<10)
	sent := `{"raw":"` + base64.StdEncoding.EncodeToString([]byte(data)) + `","mediaType":"image/png"}`
	first := w.rpc("/v/viewer", "SendMessage", withParts("large", sent), w.acme)
	id := at(t, first.body, "result", "task", "id")
	if len(agent.last.Files) != 1 || string(agent.last.Files[0].Data) != data {
		t.Fatalf("the agent got %d files", len(agent.last.Files))
	}
	if got := w.rpc("/v/viewer", "GetTask", fmt.Sprintf(`{"id":%q}`, id), w.acme); !strings.Contains(got.body, sent[8:1000]) {
		t.Errorf("the task is read as %.300s", got.body)
	}
	// The same message is the same task. With another byte it is another message.
	again := w.rpc("/v/viewer", "SendMessage", withParts("large", " "+sent), w.acme)
	other := w.rpc("/v/viewer", "SendMessage", withParts("large", strings.Replace(sent, "/////", "////+", 1)), w.acme)
	if at(t, again.body, "result", "task", "id") != id || at(t, other.body, "error", "code") != "-32602" || agent.turns.Load() != 1 {
		t.Errorf("again: %.200s; another: %.200s; the agent ran %d times", again.body, other.body, agent.turns.Load())
	}
	task := at(t, first.body, "result", "task", "contextId")
	next := fmt.Sprintf(`{"message":{"messageId":"next","contextId":%q,"role":"ROLE_USER","parts":[{"text":"and?"}]}}`, task)
	if got := w.rpc("/v/viewer", "SendMessage", next, w.acme); !strings.Contains(got.body, "seen") || len(agent.last.Files) != 0 {
		t.Errorf("the next message: %.300s with %d files", got.body, len(agent.last.Files))
	}
}

// A file that the agent takes no more when its turn begins is not given to the agent. The text
// still names it.
func TestAFileThatIsTakenNoMoreIsLeftOut(t *testing.T) {
	agent := &reader{}
	q := newQueuedWith(t, serve.Queues{}, func(c *serve.Config) {
		c.Substrates[substrate.KindHTTP] = func(string) (substrate.Substrate, error) { return agent, nil }
	})
	taking := func(input ...string) *definition.Agent {
		return &definition.Agent{Provider: substrate.KindHTTP, BaseURL: q.http.URL + "/agent", Input: input}
	}
	viewer, err := q.server.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "viewer", Capability: "Looks", Agent: taking("image/png", "application/json")})
	must(t, err)
	message := withParts("f1", `{"raw":"`+png+`","mediaType":"image/png"},{"data":{"a":1}}`)
	if got := q.rpc("/v/viewer", "SendMessage", strings.TrimSuffix(message, "}")+`,"configuration":{"returnImmediately":true}}`); at(t, got.body, "result", "task", "status", "state") != "TASK_STATE_SUBMITTED" {
		t.Fatal(got.body)
	}
	_, err = q.server.Vacants.Update(t.Context(), viewer.ID, vacants.Changes{Agent: taking("application/json")})
	must(t, err)
	q.skip.Add(int64(2 * time.Second))
	q.work(1)
	if diff := cmp.Diff([]substrate.File{{MediaType: "application/json", Data: []byte(`{"a":1}`)}}, agent.last.Files); diff != "" || !strings.Contains(agent.last.Text, "image/png") {
		t.Errorf("the agent reads %q; files (-want +got):\n%s", agent.last.Text, diff)
	}
}
