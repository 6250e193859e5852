package httpagent_test

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/httpagent"
	"github.com/vacancy-host/vacancy/shared/host/substrate/substratetest"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// answer asks a substrate a question.
func answer(ctx context.Context, s substrate.Substrate) (string, error) {
	a, err := substrate.ReadAnswer(s.Infer(ctx, substrate.NewTextRequest(identity.ID{1}, identity.ID{2}, "hi")))
	return a.Text, err
}

// anybody is the guard of a vacant that may call everybody.
func anybody(context.Context, outbound.Actor, string) error { return nil }

func open(t testing.TB, h http.HandlerFunc) (substrate.Substrate, *httptest.Server) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	sub, err := httpagent.New(outbound.New(outbound.Options{AllowLoopback: true, Guard: anybody}))(s.URL + "/answer")
	if err != nil {
		t.Fatal(err)
	}
	return sub, s
}

func TestTheRequestCarriesTheQuestionAndNothingElse(t *testing.T) {
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	thread := "thread \u2028 1"
	e := envelope.Envelope{From: key.ID(), To: identity.ID{2}, Seq: 1, IdempotencyKey: "secret-key",
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"say \"hi\"", "\x00ü🦊"}, ContextID: &thread}}
	if _, err := e.Sign(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	var body map[string]any
	var header []string
	s, _ := open(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(b, &body); err != nil {
			t.Errorf("body %q: %v", b, err)
		}
		for name := range r.Header {
			header = append(header, name)
		}
		if r.Method != http.MethodPost || r.URL.Path != "/answer" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("request = %s %s %s", r.Method, r.URL, r.Header.Get("Content-Type"))
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"text":"yes"}`)
	})
	m, err := substrate.Behaviour(s)(t.Context(), nil, e)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(envelope.Message{Role: envelope.RoleAgent, Parts: []string{"yes"}}, m); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	want := map[string]any{"message": "say \"hi\" \x00ü🦊", "caller": key.ID().String(), "vacant": identity.ID{2}.String(), "context_id": thread, "id": e.Hash().String()}
	if diff := cmp.Diff(want, body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	slices.Sort(header)
	if diff := cmp.Diff([]string{"Accept", "Content-Length", "Content-Type", "User-Agent"}, header); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
}

// The agent's author checks it by three lines in any language: so does this.
func TestWithASecretTheRequestIsSigned(t *testing.T) {
	const secret = "secret-of-a-test-0123456789"
	s, _ := open(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		at, sum, ok := strings.Cut(strings.TrimPrefix(r.Header.Get("Vacancy-Signature"), "t="), ",v1=")
		mac := hmac.New(sha256.New, []byte(secret))
		fmt.Fprintf(mac, "%s.%s", at, body)
		if want := fmt.Sprintf("%x", mac.Sum(nil)); !ok || sum != want {
			t.Errorf("Vacancy-Signature: %s, want v1=%s", r.Header.Get("Vacancy-Signature"), want)
		}
		if sent, err := strconv.ParseInt(at, 10, 64); err != nil || time.Since(time.Unix(sent, 0)).Abs() > time.Minute {
			t.Errorf("signed at %s, want now", at)
		}
		if strings.Contains(fmt.Sprint(r.Header, string(body)), secret) {
			t.Errorf("the secret itself is in the request: %v %s", r.Header, body)
		}
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "AGENT_SECRET=%s", secret)
	})
	q := substrate.NewTextRequest(identity.ID{1}, identity.ID{2}, "hi")
	q.Secret = substrate.NewSecret(secret)
	_, err := substrate.ReadAnswer(s.Infer(t.Context(), q))
	var said *call.AgentError
	if !errors.As(err, &said) || said.Status != http.StatusInternalServerError || strings.Contains(fmt.Sprintf("%v %+v", err, said), secret) {
		t.Errorf("Infer() = %v, %+v; want what it answered without the secret", err, said)
	}
}

func TestAThreadThatIsNotNamedIsNull(t *testing.T) {
	s, _ := open(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(b), `"context_id":null,"id":"`+strings.Repeat("0", 64)+`","deadline_ms":`) {
			t.Errorf("body = %s, want a null context_id and a deadline", b)
		}
		var q struct {
			Deadline int64 `json:"deadline_ms"`
		}
		if err := json.Unmarshal(b, &q); err != nil || q.Deadline <= 58_000 || q.Deadline > 60_000 {
			t.Errorf("deadline_ms = %d, %v; want what is left of a minute", q.Deadline, err)
		}
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "fine")
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := answer(ctx, s); err != nil {
		t.Error(err)
	}
}

func TestAnswers(t *testing.T) {
	most := strings.Repeat("x", substrate.MaxText)
	for name, c := range map[string]struct {
		media, body string
		status      int
		want        string // the text, or with fails a part of the error
		fails       problem.Kind
	}{
		"json":                     {media: "application/json", body: ` {"text":"a\nb\u00fc","more":{"x":[1]}} `, want: "a\nbü"},
		"json with charset":        {media: "application/json; charset=UTF-8", body: `{"text":"a"}`, want: "a"},
		"plain":                    {media: "text/plain", body: "ü\x00", want: "ü\x00"},
		"plain with charset":       {media: `text/plain; charset="utf-8"`, body: "ü", want: "ü"},
		"plain, 300 KB":            {media: "text/plain", body: most, want: most},
		"json, 300 KB":             {media: "application/json", body: `{"text":"` + most + `"}`, want: most},
		"json, 300 KB all escaped": {media: "application/json", body: `{"text":"` + strings.Repeat(`\u0041`, substrate.MaxText) + `"}`, want: strings.Repeat("A", substrate.MaxText)},

		"json without a media type": {media: " ", body: "\n" + `{"text":"a"}`, want: "a"},
		"json after a mark":         {media: "application/json", body: "\uFEFF" + `{"text":"a"}`, want: "a"},
		"plain after a mark":        {media: "text/plain", body: "\uFEFFa", want: "a"},
		"both without":              {media: " ", body: "\uFEFF" + `{"text":"a"}`, want: "a"},
		"odd members aside":         {media: "application/json", body: `{"odd":"\ud800","odd":{"a":1,"a":1e999},"usage":{"input_tokens":"\ud800"},"text":"a"}`, want: "a"},
		"events after a mark":       {media: "text/event-stream", body: "\uFEFFevent: delta\ndata: {\"text\":\"a\"}\n\nevent: done\ndata: {}\n\n", want: "a"},

		"plain above 300 KB":  {media: "text/plain", body: most + "x", want: "expected at most 307200 bytes, got 307201", fails: problem.SubstrateTooLarge},
		"json above 300 KB":   {media: "application/json", body: `{"text":"` + most + `x"}`, want: "expected at most 307200 bytes", fails: problem.SubstrateTooLarge},
		"endless":             {media: "text/plain", body: strings.Repeat(most, 8), want: "expected at most", fails: problem.SubstrateTooLarge},
		"no UTF-8":            {media: "text/plain", body: "\xff", want: "expected UTF-8", fails: problem.SubstrateMisconfigured},
		"json, no UTF-8":      {media: "application/json", body: "{\"text\":\"\xff\"}", want: "not UTF-8", fails: problem.SubstrateMisconfigured},
		"latin-1":             {media: "text/plain; charset=iso-8859-1", body: "x", want: "in UTF-8", fails: problem.SubstrateMisconfigured},
		"html":                {media: "text/html", body: "<p>", want: `got "text/html"`, fails: problem.SubstrateMisconfigured},
		"no media type":       {media: " ", body: "x", want: "Content-Type", fails: problem.SubstrateMisconfigured},
		"not an object":       {media: "application/json", body: `["a"]`, want: "member text", fails: problem.SubstrateMisconfigured},
		"broken json":         {media: "application/json", body: `{"text":"a"`, want: "member text", fails: problem.SubstrateMisconfigured},
		"trailing data":       {media: "application/json", body: `{"text":"a"}{}`, want: "member text", fails: problem.SubstrateMisconfigured},
		"duplicate":           {media: "application/json", body: `{"text":"a","text":"b"}`, want: "member text", fails: problem.SubstrateMisconfigured},
		"lone surrogate":      {media: "application/json", body: `{"text":"\ud800"}`, want: "member text", fails: problem.SubstrateMisconfigured},
		"no text":             {media: "application/json", body: `{"answer":"a"}`, want: "expected a string, got nothing", fails: problem.SubstrateMisconfigured},
		"text is a number":    {media: "application/json", body: `{"text":1}`, want: "a string", fails: problem.SubstrateMisconfigured},
		"status 500":          {status: 500, media: "text/plain", body: "x", want: "expected 200, got 500", fails: problem.SubstrateUnavailable},
		"status 503":          {status: 503, media: "text/plain", body: "x", want: "expected 200, got 503", fails: problem.SubstrateUnavailable},
		"status 429":          {status: 429, media: "text/plain", body: "x", want: "expected 200, got 429", fails: problem.SubstrateBusy},
		"status 404":          {status: 404, media: "text/plain", body: "x", want: "expected 200, got 404", fails: problem.SubstrateMisconfigured},
		"status 201":          {status: 201, media: "text/plain", body: "x", want: "expected 200, got 201", fails: problem.SubstrateMisconfigured},
		"status 204, no text": {status: 204, want: "expected 200, got 204", fails: problem.SubstrateMisconfigured},
		"redirect":            {status: 302, want: "a redirect, status 302, which is not followed", fails: problem.SubstrateMisconfigured},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := open(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/answer" {
					t.Error("the redirect was followed")
				}
				if c.media != "" {
					w.Header()["Content-Type"] = []string{c.media}
				}
				w.Header().Set("Location", "/elsewhere")
				if c.status > 0 {
					w.WriteHeader(c.status)
				}
				io.WriteString(w, c.body)
			})
			got, err := answer(t.Context(), s)
			if c.fails == 0 {
				if err != nil || got != c.want {
					t.Errorf("Answer() = %.40q, %v, want %.40q", got, err, c.want)
				}
				return
			}
			if !problem.Is(err, c.fails) || !strings.Contains(problem.AsError(err).Text(), c.want) {
				t.Errorf("Answer() = %v, want %v that says %q", err, c.fails, c.want)
			}
			var agent *call.AgentError
			if whole := name != "redirect"; errors.As(err, &agent) != whole || whole && (agent.Status != max(c.status, 200) || len(agent.Body) > substrate.MaxExcerptBytes) {
				t.Errorf("Answer() = %+v in its chain, want what came", agent)
			}
		})
	}
}

func TestATimeOutIsADeadlineAndAnythingElseAFailure(t *testing.T) {
	s, server := open(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := answer(ctx, s); !problem.Is(err, problem.DeadlineExceeded) {
		t.Errorf("Answer() of a slow endpoint = %v, want a deadline", err)
	}
	over, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if _, err := answer(over, s); !problem.Is(err, problem.DeadlineExceeded) {
		t.Errorf("Answer() without time left = %v, want a deadline", err)
	}
	server.Close()
	if _, err := answer(t.Context(), s); !problem.Is(err, problem.SubstrateUnavailable) {
		t.Errorf("Answer() of nobody = %v, want it unavailable", err)
	}
}

func TestAnAgentThatIsStartingAgainLosesNoCall(t *testing.T) {
	agent := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, "back")
	}
	substratetest.TestRestart(t, agent, func(url string) (substrate.Substrate, error) {
		return httpagent.New(outbound.New(outbound.Options{AllowLoopback: true, Guard: anybody}))(url)
	})
}

func TestAnAddressInsideIsRefusedOutsideDev(t *testing.T) {
	public := httpagent.New(outbound.New(outbound.Options{Guard: anybody}))
	for _, url := range []string{"http://127.0.0.1:1/", "http://169.254.169.254/latest/meta-data/", "http://[::1]/", "http://10.0.0.1/"} {
		s, err := public(url)
		if err != nil {
			t.Fatalf("New(%s) = %v", url, err)
		}
		if _, err := answer(t.Context(), s); !problem.Is(err, problem.SubstrateMisconfigured) || !strings.Contains(err.Error(), "expected a public address") {
			t.Errorf("Answer() from %s = %v, want a refused address", url, err)
		}
	}
}

func TestTheURLIsCheckedWhenTheSubstrateIsMade(t *testing.T) {
	for _, url := range []string{"", "example.com", "ftp://example.com", "http://u:p@example.com/", "/path",
		"https://\uff4dodel.example/a", "https://model\u3002example/a", "https://b\u00fccher.example/a"} {
		if _, err := httpagent.New(outbound.New(outbound.Options{}))(url); !problem.Is(err, problem.Malformed) || problem.AsError(err).Field != "substrate" {
			t.Errorf("New(%q) = %v, want a refusal that names the substrate", url, err)
		}
	}
}

func TestContract(t *testing.T) {
	substratetest.Run(t, func(t testing.TB, script substratetest.Script) substrate.Substrate {
		s, _ := open(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // the server sees the client leave from here on
			select {
			case <-time.After(script.Delay):
			case <-r.Context().Done():
				return
			}
			w.Header().Set("Content-Type", "text/plain")
			switch {
			case script.Status != 0:
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(script.Status)
			case script.IsTruncated:
				w.Header().Set("Content-Length", "100")
			}
			_, _ = io.WriteString(w, script.Text)
		})
		return s
	})
}

// sent is an event of a stream.
func sent(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }

func TestAnAnswerMayTellItsThoughtsAndUsage(t *testing.T) {
	used := substrate.Usage{InputTokens: 12, OutputTokens: 7, CachedTokens: 3}
	const usage = `{"input_tokens":12,"output_tokens":7,"cached_tokens":3,"more":[]}`
	for _, tt := range []struct {
		what, media, body string
		want              []substrate.Event
		fails             problem.Kind
	}{
		{"usage", "application/json", `{"usage":` + usage + `,"text":"a"}`, []substrate.Event{substrate.Text("a"), used, substrate.FinishStop}, 0},
		{"no usage", "application/json", `{"usage":null,"text":"a"}`, []substrate.Event{substrate.Text("a"), substrate.FinishStop}, 0},
		{"a stream", "text/event-stream; charset=utf-8", ": hi\n\n" + sent("thought", `{"text":"hm"}`) + sent("delta", `{"text":"a"}`) + sent("delta", `{"text":""}`) + sent("delta", `{"text":"b\n"}`) + sent("later", "7") + sent("usage", usage) + sent("done", "{}") + sent("delta", "after"),
			[]substrate.Event{substrate.Thought("hm"), substrate.Text("a"), substrate.Text("b\n"), used, substrate.FinishStop}, 0},
		{"a stream of nothing", "text/event-stream", sent("done", ""), []substrate.Event{substrate.FinishStop}, 0},

		{"usage that is none", "application/json", `{"usage":7,"text":"a"}`, []substrate.Event{substrate.Text("a"), substrate.FinishStop}, 0},
		{"usage below 0", "application/json", `{"usage":{"input_tokens":-1},"text":"a"}`, []substrate.Event{substrate.Text("a"), substrate.FinishStop}, 0},
		{"absurd usage", "application/json", `{"usage":{"input_tokens":9e99},"text":"a"}`, []substrate.Event{substrate.Text("a"), substrate.Usage{InputTokens: 1 << 40}, substrate.FinishStop}, 0},
		{"usage in other forms", "application/json", `{"usage":{"input_tokens":12.0,"output_tokens":"7","cached_tokens":[]},"text":"a"}`, []substrate.Event{substrate.Text("a"), substrate.Usage{InputTokens: 12, OutputTokens: 7}, substrate.FinishStop}, 0},
		{"streamed usage that is none", "text/event-stream", sent("usage", "[]") + sent("usage", "x") + sent("delta", `{"text":"a"}`) + sent("done", ""), []substrate.Event{substrate.Text("a"), substrate.FinishStop}, 0},
		{"no done", "text/event-stream", sent("delta", `{"text":"a"}`), []substrate.Event{substrate.Text("a")}, problem.SubstrateUnavailable},
		{"a cut event", "text/event-stream", sent("delta", `{"text":"a"}`) + "event: done\ndata: x", []substrate.Event{substrate.Text("a")}, problem.SubstrateUnavailable},
		{"an error", "text/event-stream", sent("delta", `{"text":"a"}`) + sent("error", `{"message":"out of memory"}`) + sent("done", ""), []substrate.Event{substrate.Text("a")}, problem.SubstrateUnavailable},
		{"a delta that is none", "text/event-stream", sent("delta", "a"), nil, problem.SubstrateMisconfigured},
		{"too much in all", "text/event-stream", strings.Repeat(sent("delta", `{"text":"`+strings.Repeat("x", 100<<10)+`"}`), 4) + sent("done", ""),
			slices.Repeat([]substrate.Event{substrate.Text(strings.Repeat("x", 100<<10))}, 3), problem.SubstrateTooLarge},
		{"an event of 5 MB", "text/event-stream", sent("delta", `{"text":"`+strings.Repeat("x", 5<<20)+`"}`) + sent("done", ""), nil, problem.SubstrateTooLarge},
	} {
		t.Run(tt.what, func(t *testing.T) {
			s, _ := open(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.media)
				_, _ = io.WriteString(w, tt.body)
			})
			var got []substrate.Event
			var failure error
			for e, err := range s.Infer(t.Context(), substratetest.Question()) {
				if failure = err; err == nil {
					got = append(got, e)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if agent := new(call.AgentError); tt.fails != 0 && (!problem.Is(failure, tt.fails) || !errors.As(failure, &agent) || agent.Status != 200) || tt.fails == 0 && failure != nil {
				t.Errorf("Infer() ends with %v, want %s and what came", failure, tt.fails)
			}
		})
	}
}

// The agent sends a piece when the one before was passed on.
func TestAnAgentThatStreamsIsPassedOnAsItSends(t *testing.T) {
	heard := make(chan struct{})
	s, _ := open(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range []string{sent("thought", `{"text":"hm"}`), sent("delta", `{"text":"a"}`), sent("usage", `{"input_tokens":1}`), sent("delta", `{"text":"b"}`), sent("done", "")} {
			_, _ = io.WriteString(w, e)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-heard:
			case <-r.Context().Done():
				t.Errorf("nobody heard %q", e)
				return
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []substrate.Event
	for e, err := range s.Infer(ctx, substratetest.Question()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
		heard <- struct{}{}
	}
	if diff := cmp.Diff([]substrate.Event{substrate.Thought("hm"), substrate.Text("a"), substrate.Usage{InputTokens: 1}, substrate.Text("b"), substrate.FinishStop}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestTheContractByStreams(t *testing.T) {
	substratetest.Run(t, func(t testing.TB, script substratetest.Script) substrate.Substrate {
		s, _ := open(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case <-time.After(script.Delay):
			case <-r.Context().Done():
				return
			}
			if script.Status != 0 {
				w.WriteHeader(script.Status)
				_, _ = io.WriteString(w, script.Text)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			for part := range slices.Chunk([]rune(script.Text), 1000) {
				b, _ := json.Marshal(map[string]string{"text": string(part)})
				_, _ = io.WriteString(w, sent("delta", string(b)))
			}
			if !script.IsTruncated {
				_, _ = io.WriteString(w, sent("done", ""))
			}
		})
		return s
	})
}

// An agent whose vacant remembers is told what was said before.
func TestAnAgentIsToldTheHistory(t *testing.T) {
	var body struct {
		Message string              `json:"message"`
		History []map[string]string `json:"history"`
	}
	s, _ := open(t, func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "fine")
	})
	q := substratetest.Question()
	q.Turns = append([]substrate.Turn{{Role: substrate.RoleCaller, Text: "a\"b"}, {Role: substrate.RoleAgent, Text: "c"}}, q.Turns...)
	if _, err := substrate.ReadAnswer(s.Infer(t.Context(), q)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]map[string]string{{"role": "caller", "text": "a\"b"}, {"role": "agent", "text": "c"}}, body.History); diff != "" || body.Message != q.Text() {
		t.Errorf("message %q, history (-want +got):\n%s", body.Message, diff)
	}
}

// Files come beside the message, with their bytes or their URL.
func TestAnAgentGetsFiles(t *testing.T) {
	var files json.RawMessage
	s, _ := open(t, func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Files json.RawMessage }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		files = body.Files
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "fine")
	})
	q := substratetest.Question()
	q.Turns[0].Files = []substrate.File{{Name: "a\"\n.png", MediaType: "image/png", Data: []byte{0xff, 0xfe}}, {MediaType: "application/json", Data: []byte("{}")}, {URL: "https://example.com/?a\"b"}, {Name: "empty", MediaType: "text/csv"}}
	if _, err := substrate.ReadAnswer(s.Infer(t.Context(), q)); err != nil {
		t.Fatal(err)
	}
	want := `[{"name":"a\"\n.png","media_type":"image/png","data":"//4="},{"media_type":"application/json","data":"e30="},{"url":"https://example.com/?a\"b"},{"name":"empty","media_type":"text/csv","data":""}]`
	if string(files) != want {
		t.Errorf("files %s, want %s", files, want)
	}
}

// Whatever an agent streams, an answer ends with one event or one error.
func FuzzStream(f *testing.F) {
	f.Add([]byte(sent("thought", `{"text":"a"}`) + sent("usage", `{"input_tokens":1}`) + sent("done", "")))
	f.Add([]byte(sent("delta", `{"text":"a"}`) + sent("usage", `{"input_tokens":1.0,"output_tokens":"x"}`) + sent("usage", "[]") + sent("done", "")))
	f.Add([]byte(sent("delta", `{"text":"a"}`) + sent("error", "") + "event: done\ndata"))
	var body []byte
	s, _ := open(f, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(body)
	})
	f.Fuzz(func(t *testing.T, in []byte) {
		body = in
		ends := 0
		for e, err := range s.Infer(t.Context(), substratetest.Question()) {
			if _, last := e.(substrate.FinishReason); last || err != nil {
				ends++
			}
			if err != nil && !problem.AsError(err).Kind.IsFailure() {
				t.Errorf("error %v of kind %s", err, problem.AsError(err).Kind)
			}
		}
		if ends != 1 {
			t.Errorf("%d ends, want 1", ends)
		}
	})
}
