package substratetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const secret = "secret-of-a-test-0123456789"

// Model describes an adapter for a provider's models to this suite.
type Model struct {
	Kinds func(*outbound.Client) substrate.Kinds
	Kind  string
	Wire
}

func (m Model) Open(t testing.TB, url string) substrate.Substrate {
	t.Helper()
	allowAll := func(context.Context, outbound.Actor, string) error { return nil }
	s, err := m.Kinds(outbound.New(outbound.Options{AllowLoopback: true, Guard: allowAll})).Open(substrate.Spec{Kind: m.Kind, Argument: url + "/v1#m"})
	if err != nil {
		t.Fatal(err)
	}
	return secretSubstrate{s}
}

type secretSubstrate struct{ substrate.Substrate }

func (s secretSubstrate) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	r.Secret = substrate.NewSecret(secret)
	return s.Substrate.Infer(ctx, r)
}

func (m Model) Serve(t testing.TB, h http.HandlerFunc) substrate.Substrate {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return m.Open(t, server.URL)
}

func ServeEvents(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			_, _ = io.WriteString(w, e)
		}
	}
}

// Run runs the suite and the additional tests for models on servers. The package of the adapter
// needs the golden files that TestRequests reads.
func (m Model) Run(t *testing.T) {
	Run(t, func(t testing.TB, s Script) substrate.Substrate { return m.Serve(t, m.serveScript(s)) })
	answerBack := ServeEvents(m.Begin, m.Text("back"), m.End(m.Stop))
	t.Run("a server that is restarting", func(t *testing.T) {
		TestRestart(t, answerBack, func(url string) (substrate.Substrate, error) { return m.Open(t, url), nil })
	})
	t.Run("requests", func(t *testing.T) {
		TestRequests(t, answerBack, func(h http.HandlerFunc) substrate.Substrate { return m.Serve(t, h) })
	})
	t.Run("Retry-After", m.testRetryAfter)
	t.Run("a server that returns the secret", m.testRepeatedSecret)
	t.Run("the guard", m.testGuard)
	t.Run("wrong arguments", m.testWrongArguments)
	t.Run("unusual replies", func(t *testing.T) { m.TestOddities(t, m.Serve) })
	for name, events := range map[string][]string{
		"a model that never ends": slices.Repeat([]string{m.Text(strings.Repeat("x", 100))}, 60_000),
		"an event of 50 MB":       {"data: " + strings.Repeat("x", 50<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := substrate.ReadAnswer(m.Serve(t, ServeEvents(append([]string{m.Begin}, events...)...)).Infer(t.Context(), Question()))
			if !problem.Is(err, problem.SubstrateTooLarge) {
				t.Errorf("ReadAnswer() = %v, want it too large", err)
			}
		})
	}
}

func (m Model) serveScript(s Script) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// Once the body is read, the server cancels the request's context when the client disconnects.
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-time.After(s.Delay):
		case <-r.Context().Done():
			return
		}
		if s.Status != 0 {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(s.Status)
			_, _ = io.WriteString(w, s.Text)
			return
		}
		events := []string{m.Begin}
		for piece := range slices.Chunk([]rune(s.Text), 1000) {
			events = append(events, m.Text(string(piece)))
		}
		if !s.IsTruncated {
			events = append(events, m.End(m.Stop))
		}
		ServeEvents(events...)(w, r)
	}
}

func exampleRequests() map[string]substrate.Request {
	threaded := Question()
	threadID := "thread-1"
	threaded.ContextID = &threadID
	threaded.Turns = append([]substrate.Turn{{Role: substrate.RoleCaller, Text: "Before"}, {Role: substrate.RoleAgent, Text: "Said"}}, threaded.Turns...)
	withSettings := Question()
	withSettings.System, withSettings.MaxTokens, withSettings.Effort, withSettings.JSON, withSettings.MustAnswer = "You know things", 500, substrate.Low, true, true
	withSettings.Tools = []substrate.Tool{{Name: "look", Description: "Looks", Schema: json.RawMessage(`{"type":"object","properties":{"for":{"type":"string"}}}`)}}
	withSettings.Turns = append(withSettings.Turns,
		substrate.Turn{Role: substrate.RoleAgent, Text: "Let me see", Calls: []substrate.ToolCall{{ID: "c1", Name: "look", Arguments: `{"for":"a"}`, Opaque: "b3BhcXVl"}, {ID: "c2", Name: "look", Arguments: `{"for`}}},
		substrate.Turn{Role: substrate.RoleTools, Results: []substrate.ToolResult{{ID: "c1", Text: "found"}, {ID: "c2", Text: "no JSON", Failed: true}}})
	withImages := Question()
	withImages.Turns[0].Files = []substrate.File{{Name: "a.png", MediaType: "image/png", Data: []byte("\x89PNG")}, {MediaType: "image/jpeg", Data: []byte("\xff\xd8")}}
	return map[string]substrate.Request{"request": threaded, "agent": withSettings, "images": withImages}
}

// TestRequests compares the requests of an adapter with testdata/request.golden,
// testdata/agent.golden and testdata/images.golden. The requests must not contain data of this
// machine or of the vacant.
func TestRequests(t *testing.T, answer http.HandlerFunc, serve func(http.HandlerFunc) substrate.Substrate) {
	t.Helper()
	for _, provider := range []string{"OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE", "MISTRAL"} {
		t.Setenv(provider+"_API_KEY", "sk-of-the-environment")
		t.Setenv(provider+"_BASE_URL", "http://127.0.0.1:1")
	}
	for name, r := range exampleRequests() {
		var got string
		s := serve(func(w http.ResponseWriter, r *http.Request) {
			got = formatRequest(t, r)
			answer(w, r)
		})
		if _, err := substrate.ReadAnswer(s.Infer(t.Context(), r)); err != nil {
			t.Fatal(err)
		}
		file := "testdata/" + name + ".golden"
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("%v; got:\n%s", err, got)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

func formatRequest(t *testing.T, r *http.Request) string {
	body, _ := io.ReadAll(r.Body)
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		t.Errorf("body %s: %v", body, err)
	}
	prettyJSON, _ := json.MarshalIndent(value, "", "  ")
	got := fmt.Sprintf("%s %s\n", r.Method, r.URL)
	omittedHeaders := []string{"Content-Length"}
	if r.Header.Get("X-Amz-Date") != "" { // signed by the AWS SDK
		omittedHeaders = append(omittedHeaders, "Authorization", "X-Amz-Date", "Amz-Sdk-Invocation-Id", "Amz-Sdk-Request", "User-Agent")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		if !slices.Contains(omittedHeaders, name) {
			got += fmt.Sprintf("%s: %s\n", name, r.Header.Get(name))
		}
	}
	return got + "\n" + string(prettyJSON) + "\n"
}

func (m Model) testRetryAfter(t *testing.T) {
	s := m.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	_, err := substrate.ReadAnswer(s.Infer(t.Context(), Question()))
	if agentErr := new(call.AgentError); !errors.As(err, &agentErr) || agentErr.RetryAfter != 3*time.Second {
		t.Errorf("ReadAnswer() = %v, wait %v, want 3s", err, agentErr.RetryAfter)
	}
}

func (m Model) testRepeatedSecret(t *testing.T) {
	errorBody := fmt.Sprintf(`{"error":{"type":"authentication_error","status":"X","message":"no such key: %s"}}`, secret)
	for _, status := range []int{http.StatusOK, http.StatusUnauthorized, http.StatusInternalServerError} {
		s := m.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			if status == http.StatusOK {
				_, _ = io.WriteString(w, m.Begin+"data: "+strings.Replace(errorBody, `{"error"`, `{"type":"error","error"`, 1)+"\n\n")
				return
			}
			_, _ = io.WriteString(w, errorBody)
		})
		_, err := substrate.ReadAnswer(s.Infer(t.Context(), Question()))
		agentErr := new(call.AgentError)
		if !errors.As(err, &agentErr) || !strings.Contains(agentErr.Body, "no such key") {
			t.Fatalf("status %d: ReadAnswer() = %v with body %q, want the server's error", status, err, agentErr.Body)
		}
		if output := fmt.Sprintf("%v %+v %s", err, err, agentErr.Body); strings.Contains(output, secret) {
			t.Errorf("status %d: the secret is shown: %s", status, output)
		}
	}
}

func (m Model) testGuard(t *testing.T) {
	for _, argument := range []string{"m", "http://127.0.0.1:1/v1#m", "http://127.0.0.1:1#m", "http://127.0.0.1:1/a%20b/#m"} {
		spec := substrate.Spec{Kind: m.Kind, Argument: argument}
		var askedURL string
		kinds := m.Kinds(outbound.New(outbound.Options{AllowLoopback: true, Guard: func(_ context.Context, _ outbound.Actor, url string) error {
			askedURL = url
			return problem.New(problem.TreeOnly, "not among its tools")
		}}))
		s, err := kinds.Open(spec)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := substrate.ReadAnswer(secretSubstrate{s}.Infer(t.Context(), Question())); !problem.Is(err, problem.SubstrateMisconfigured) {
			t.Errorf("%s: %v, want it misconfigured", spec, err)
		}
		if askedURL != spec.Endpoint() || askedURL == "" {
			t.Errorf("%s: the guard is asked for %q, want %q", spec, askedURL, spec.Endpoint())
		}
		askedURL = ""
		if _, err := substrate.ReadAnswer(s.Infer(t.Context(), Question())); spec.NeedsSecret() && (askedURL != "" || !problem.Is(err, problem.SubstrateMisconfigured)) {
			t.Errorf("%s without its secret: %v, and the guard is asked for %q", spec, err, askedURL)
		}
	}
}

func (m Model) testWrongArguments(t *testing.T) {
	kinds := m.Kinds(outbound.New(outbound.Options{}))
	for _, argument := range []string{"", "#m", "http://x.example/v1", "http://x.example/v1#", "ftp://x.example#m",
		"http://me:secret@x.example#m", "http://bücher.example#m", "http://x.example?a=b#m", "http://x.example#two words", "two words",
		"http://x.example#\x00", "http://x.example#" + strings.Repeat("m", 257)} {
		if _, err := kinds.Open(substrate.Spec{Kind: m.Kind, Argument: argument}); !problem.Is(err, problem.Malformed) || strings.Contains(problem.AsError(err).Text(), "secret") {
			t.Errorf("%q: %v, want a refusal without the secret", argument, err)
		}
	}
}

// FuzzStream fuzzes the answers of a server. It checks that every answer ends with exactly one
// FinishReason or error, whatever the server sends.
func (m Model) FuzzStream(f *testing.F) {
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
	f.Cleanup(server.Close)
	s := m.Open(f, server.URL)
	f.Add([]byte(m.Begin + m.Text("x") + m.End(m.Stop)))
	f.Add([]byte("data: {\"error\":7}\n\n"))
	for _, o := range m.listOddities() {
		f.Add([]byte(o.body))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		body = data
		endCount := 0
		for e, err := range s.Infer(t.Context(), Question()) {
			if _, isLast := e.(substrate.FinishReason); isLast || err != nil {
				endCount++
			} else if endCount > 0 || e == nil {
				t.Fatalf("event %v after the end", e)
			}
			if err != nil && !problem.AsError(err).Kind.IsFailure() {
				t.Errorf("error %v of kind %s", err, problem.AsError(err).Kind)
			}
		}
		if endCount != 1 {
			t.Errorf("%d ends, want 1", endCount)
		}
	})
}
