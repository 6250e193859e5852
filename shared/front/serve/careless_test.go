package serve_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/plain"
	"github.com/vacancy-host/vacancy/shared/front/protocol"
	"github.com/vacancy-host/vacancy/shared/front/serve"
)

// A protocol that checks nothing, logs nothing and panics is as safe as the others.
func TestACarelessProtocolIsProtected(t *testing.T) {
	reached := 0
	toy := plain.Protocol{
		Protocol: &protocol.Protocol{
			LogMessage: "toy", MaxBody: 10,
			HasPath: func(path string, _ bool) bool { return path == "/toy" },
			Refuse:  func(w http.ResponseWriter, err error) { httpapi.FailLine(w, err) },
		},
		Serve: func(x *plain.Exchange) error {
			reached++
			body, err := io.ReadAll(x.Body)
			switch string(body) {
			case "panic":
				panic("careless")
			case "late":
				_, _ = io.WriteString(x.ResponseWriter, "begun")
				panic("careless")
			case "lock":
				x.WriteHeader(http.StatusUnauthorized)
			case "fail":
				http.Error(x.ResponseWriter, "no", http.StatusTeapot)
			default:
				return err
			}
			return nil
		},
	}
	before := protocol.All
	protocol.All = append([]*protocol.Protocol{toy.Protocol}, before...)
	t.Cleanup(func() { protocol.All = before })
	var log bytes.Buffer
	service := plain.New(plain.Config{Now: time.Now, Log: slog.New(slog.NewTextHandler(&log, nil))})
	public := httpapi.WithRequestIDs(serve.Handlers{
		Message: serve.NotFound, Plain: service, Protocols: []plain.Protocol{toy},
		MetadataURL: func(*http.Request) string { return "https://host.example/metadata" },
	}.Public())
	for _, tt := range []struct {
		name, body, origin string
		status             int
		want, header       string // of the answer
		line               string // of the log
		unreached          bool
	}{
		{name: "a request", body: "hi", status: 200, line: "level=INFO msg=toy path=/v/x/toy verdict=ok"},
		{name: "a page of another site", body: "hi", origin: "https://evil.example", status: 403, want: "this host refuses requests from pages of other sites\n", unreached: true},
		{name: "a large body", body: strings.Repeat("a", 11), status: 413, want: "body: expected at most 10 bytes\n", line: "status=413"},
		{name: "a panic", body: "panic", status: 500, want: "internal error\n", line: "level=ERROR msg=toy path=/v/x/toy cause=\"internal error: panic: careless"},
		{name: "a panic after the prefix of the answer", body: "late", status: 200, want: "begun", line: "level=ERROR"},
		{name: "a refusal without a challenge", body: "lock", status: 401, header: `resource_metadata="https://host.example/metadata"`, line: "verdict=refused status=401"},
		{name: "a refusal", body: "fail", status: 418, want: "no\n", line: "verdict=refused status=418"},
	} {
		log.Reset()
		reached = 0
		r := httptest.NewRequest("POST", "/v/x/toy", strings.NewReader(tt.body))
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		w := httptest.NewRecorder()
		public.ServeHTTP(w, r)
		if w.Code != tt.status || w.Body.String() != tt.want || !strings.Contains(w.Header().Get("WWW-Authenticate"), tt.header) || (reached == 0) != tt.unreached {
			t.Errorf("%s: %d %q, challenge %q, reached: %d", tt.name, w.Code, w.Body, w.Header().Get("WWW-Authenticate"), reached)
		}
		if lines := log.String(); !strings.Contains(lines, tt.line) || tt.line != "" && strings.Count(lines, "\n") != 1 || w.Header().Get(httpapi.RequestHeader) == "" {
			t.Errorf("%s: request %q has the lines %q, want one with %q", tt.name, w.Header().Get(httpapi.RequestHeader), lines, tt.line)
		}
	}
}
