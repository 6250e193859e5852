package cloudweb_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/edge"
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/cloudweb"
)

const secret = "q4mZk2v9XcT7bN1sWgRj8pLdYfHa0uEoIiQyVtGz3KB"

// stageAPI has the functions that pages read, each behind the guard and the limits of a function.
type stageAPI struct {
	settings onlambda.Settings
	mu       sync.Mutex
	fetch    []string // function, path and sender of each read that passed
	headers  http.Header
	moved    string // where functions lead to, if anywhere
}

func newStageAPI(t *testing.T, rate edge.Rate) *stageAPI {
	t.Helper()
	s := &stageAPI{settings: onlambda.Settings{EdgeSecrets: []string{secret}, FunctionURLs: map[string]string{}}}
	for _, name := range []string{"agent", "message", "registry", "search"} {
		answers := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.fetch = append(s.fetch, fmt.Sprintf("%s %s %s of %s", name, r.Method, r.URL.RequestURI(), r.RemoteAddr))
			s.headers = r.Header.Clone()
			if s.moved != "" {
				http.Redirect(w, r, s.moved, http.StatusFound)
				return
			}
			if r.URL.Path == "/v1/search" {
				_ = json.NewEncoder(w).Encode(map[string]any{"matches": []any{}})
				return
			}
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"detail":"there is no such thing","code":"not_found"}`)
		})
		server := httptest.NewServer(edge.Guard([]string{secret}, edge.Limit(edge.Config{RequestRate: rate, Now: time.Now}, answers)))
		t.Cleanup(server.Close)
		s.settings.FunctionURLs[name] = server.URL
	}
	return s
}

// get reads a page for a reader.
func (s *stageAPI) get(method, path, reader string, log *slog.Logger) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "https://host.example"+path, nil)
	r.RemoteAddr = reader
	r.Header.Set("Cookie", "session=1")
	r.Header.Set("Authorization", "Bearer of-the-reader")
	w := httptest.NewRecorder()
	cloudweb.Handler(s.settings, log).ServeHTTP(w, r)
	return w
}

var quiet = slog.New(slog.DiscardHandler)

func TestPagesReadTheFunctionsForTheirReader(t *testing.T) {
	s := newStageAPI(t, edge.Rate{PerSecond: 1000, Burst: 1000})
	for _, reader := range []string{"198.51.100.7", "2001:db8::1"} {
		s.fetch = nil
		if w := s.get("GET", "/web/search?q=two+words&tag=a%2Fb", reader, quiet); w.Code != http.StatusOK {
			t.Errorf("search = %d %s", w.Code, w.Body)
		}
		if w := s.get("GET", "/web/vacants/nobody", reader, quiet); w.Code != http.StatusNotFound {
			t.Errorf("an unknown vacant = %d %s", w.Code, w.Body)
		}
		want := []string{"search GET /v1/search?limit=20&q=two+words&tag=a%2Fb of " + reader, "agent GET /v/nobody/.well-known/agent-card.json of " + reader}
		if diff := cmp.Diff(want, s.fetch); diff != "" {
			t.Errorf("what was read (-want +got):\n%s", diff)
		}
		for _, name := range []string{"Cookie", "Authorization", edge.SecretHeader} {
			if v := s.headers.Get(name); v != "" {
				t.Errorf("the handler of a function got %s: %s", name, v)
			}
		}
	}
}

// The functions count readers, as if each had asked them.
func TestAReaderOfTooManyPagesIsRefusedAndOthersAreNot(t *testing.T) {
	s := newStageAPI(t, edge.Rate{PerSecond: 0.001, Burst: 2})
	var got []int
	for _, reader := range []string{"198.51.100.7", "198.51.100.7", "198.51.100.7", "198.51.100.8"} {
		w := s.get("GET", "/web/search?q=x", reader, quiet)
		got = append(got, w.Code)
		if w.Code == http.StatusTooManyRequests && !strings.Contains(w.Body.String(), "too_many") {
			t.Errorf("the page of a refusal does not say why: %s", w.Body)
		}
	}
	if diff := cmp.Diff([]int{200, 200, 429, 200}, got); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
}

func TestTheSecretOfTheEdgeStaysInTheStage(t *testing.T) {
	s := newStageAPI(t, edge.Rate{})
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a redirect was followed, with %q", r.Header.Get(edge.SecretHeader))
	}))
	t.Cleanup(elsewhere.Close)
	s.moved = elsewhere.URL
	if w := s.get("GET", "/web/search?q=x", "198.51.100.7", quiet); w.Code < 500 {
		t.Errorf("a function that leads elsewhere: %d", w.Code)
	}
}

func TestAFunctionThatDoesNotAnswerIsNamedInTheLogOnly(t *testing.T) {
	s := newStageAPI(t, edge.Rate{})
	s.settings.FunctionURLs["search"] = "http://127.0.0.1:1"
	var log bytes.Buffer
	w := s.get("GET", "/web/search?q=x", "198.51.100.7", slog.New(slog.NewJSONHandler(&log, nil)))
	if w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "127.0.0.1") {
		t.Errorf("the page = %d %s", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), `"name":"search"`) || strings.Contains(log.String(), secret) {
		t.Errorf("the log = %s", &log)
	}
}

func TestWithoutAnEdgeThereAreNoPages(t *testing.T) {
	s := newStageAPI(t, edge.Rate{})
	s.settings.EdgeSecrets = nil
	for _, path := range []string{"/web/", "/web/search?q=x", "/"} {
		if w := s.get("GET", path, "198.51.100.7", quiet); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "CloudFront") || s.fetch != nil {
			t.Errorf("%s = %d %s; read %v", path, w.Code, w.Body, s.fetch)
		}
	}
}
