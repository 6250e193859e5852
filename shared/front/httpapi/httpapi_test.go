package httpapi_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func ok(w http.ResponseWriter, _ *http.Request) error {
	return httpapi.SendJSON(w, http.StatusCreated, map[string]string{"a": "<b>"})
}

// extended is an error with a member of its own.
type extended struct{ error }

func (e extended) Unwrap() error { return e.error }
func (e extended) Members() any  { return map[string]string{"more": "yes"} }

func TestRoutesAndErrors(t *testing.T) {
	var log bytes.Buffer
	api := httpapi.API{Name: "test", Log: slog.New(slog.NewTextHandler(&log, nil)), Now: time.Now}
	mux := api.Mux(map[string]httpapi.Methods{
		"/ok":    {http.MethodGet: ok, http.MethodPost: ok},
		"/panic": {http.MethodGet: func(http.ResponseWriter, *http.Request) error { panic("secret") }},
		"/field": {http.MethodGet: func(http.ResponseWriter, *http.Request) error { return problem.Invalid("seq", "1", "2") }},
		"/other": {http.MethodGet: func(http.ResponseWriter, *http.Request) error { return errors.New("secret") }},
		"/away":  {http.MethodGet: func(http.ResponseWriter, *http.Request) error { return problem.New(problem.Unavailable, "away") }},
		"/more": {http.MethodGet: func(http.ResponseWriter, *http.Request) error {
			return extended{problem.New(problem.Conflict, "two")}
		}},
	})
	for _, tt := range []struct {
		method, path string
		status       int
		body, header string
	}{
		{"GET", "/ok", 201, `{"a":"<b>"}` + "\n", "Cache-Control: no-store"},
		{"HEAD", "/ok", 201, `{"a":"<b>"}` + "\n", "Content-Length: 12"},
		{"DELETE", "/ok", 405, `"code":"method_not_allowed"`, "Allow: GET, POST"},
		{"GET", "/nowhere?q=secret", 404, `{"detail":"no such path","code":"not_found"}`, "X-Content-Type-Options: nosniff"},
		{"GET", "/panic", 500, `"code":"internal"`, ""},
		{"GET", "/other", 500, `"code":"internal"`, ""},
		{"GET", "/field", 400, `"code":"malformed","field":"seq"}`, ""},
		{"GET", "/away", 503, `"detail":"away"`, "Retry-After: 1"},
		{"GET", "/more", 409, `{"detail":"two","code":"conflict","more":"yes"}`, ""},
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.body) || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s %s = %d %s, want %d with %s", tt.method, tt.path, w.Code, w.Body, tt.status, tt.body)
		}
		if name, value, _ := strings.Cut(tt.header, ": "); tt.header != "" && w.Header().Get(name) != value {
			t.Errorf("%s %s: %s = %q, want %q", tt.method, tt.path, name, w.Header().Get(name), value)
		}
	}
	if got := log.String(); strings.Contains(got, "q=secret") || strings.Count(got, "\n") < 9 || !strings.Contains(got, "verdict=not_found") {
		t.Errorf("log =\n%s\nwant a line a request, and no query", got)
	}
}

func TestBodiesAreRefusedByMediaTypeEncodingAndSize(t *testing.T) {
	for _, tt := range []struct {
		media, encoding, body string
		want                  problem.Kind
	}{
		{"application/json; charset=utf-8", "", "{}", 0},
		{"application/json", "identity", "{}", 0},
		{"text/plain", "", "{}", problem.UnsupportedMedia},
		{"", "", "{}", problem.UnsupportedMedia},
		{"application/json", "gzip", "{}", problem.UnsupportedMedia},
		{"application/json", "", strings.Repeat("x", 11), problem.TooLarge},
	} {
		r := httptest.NewRequest("POST", "/", strings.NewReader(tt.body))
		r.Header.Set("Content-Type", tt.media)
		if tt.encoding != "" {
			r.Header.Set("Content-Encoding", tt.encoding)
		}
		b, err := httpapi.ReadBody(httptest.NewRecorder(), r, 10)
		if tt.want == 0 && (err != nil || string(b) != tt.body) || tt.want != 0 && !problem.Is(err, tt.want) {
			t.Errorf("ReadBody(%q, %q) = %q, %v, want kind %v", tt.media, tt.encoding, b, err, tt.want)
		}
	}
}

func TestAReadRefusalIsTheErrorThatWasRendered(t *testing.T) {
	r := httpapi.RefusalOf(problem.New(problem.Gone, "gone"))
	if err := r.Problem(); !problem.Is(err, problem.Gone) || problem.AsError(err).Text() != "gone" {
		t.Errorf("Problem() = %v, want the same kind and text", err)
	}
	if unknown := (&httpapi.Refusal{Code: "of_a_later_host"}).Problem(); !problem.Is(unknown, problem.Internal) {
		t.Errorf("Problem() of an unknown code = %v, want internal", unknown)
	}
}
