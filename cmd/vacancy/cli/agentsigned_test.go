package cli

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/tests/memhost"
)

// tampered is an answer whose writes go through a function; nil breaks the connection.
type tampered struct {
	http.ResponseWriter
	with func([]byte) []byte
}

func (w tampered) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w tampered) Write(b []byte) (int, error) {
	changed := w.with(b)
	if changed == nil {
		panic(http.ErrAbortHandler)
	}
	_, err := w.ResponseWriter.Write(changed)
	return len(b), err
}

// tampering serves a vacant named echo behind somebody who changes the streams; it returns
// the vacant's URL.
func tampering(t *testing.T, with func([]byte) []byte) string {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	url := "http://" + s.Listener.Addr().String()
	host := memhost.Open(t, func(c *serve.Config) { c.URL, c.AllowLoopback, c.OwnMachine, c.Now = url, true, true, time.Now })
	host.Serve()
	host.Work()
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && !strings.Contains(r.URL.Path, "/a2a/") {
			w = tampered{w, with}
		}
		host.Public.ServeHTTP(w, r)
	})
	s.Start()
	t.Cleanup(s.Close)
	host.Create(vacants.CreateSpec{Name: "echo", Capability: "Repeats", Substrate: "echo"})
	return url + "/v/echo"
}

func TestAStreamCountsByItsSignedAnswer(t *testing.T) {
	in := func(frame, text, instead string) func([]byte) []byte {
		return func(b []byte) []byte {
			if bytes.Contains(b, []byte(frame)) {
				return bytes.ReplaceAll(b, []byte(text), []byte(instead))
			}
			return b
		}
	}
	for name, tt := range map[string]struct {
		with       func([]byte) []byte
		code       int
		out, errs  string
		afterwards string // what --ask says then
	}{
		"as it is":                 {in("", "", ""), 0, ": pay 1 coin", "", "no call waits for an outcome"},
		"other text in the pieces": {in(`"artifactUpdate"`, "pay 1 coin", "pay 9 coin"), problem.ExitUntrusted, ": pay 9 coin", "differs from the answer that", "no call waits for an outcome"},
		"other text in the answer": {in(`"statusUpdate"`, "pay 1 coin", "pay 9 coin"), problem.ExitUntrusted, "", "signature did not verify", ": pay 1 coin"},
		"no envelope":              {in(`"statusUpdate"`, "urn:vacant:v1", "urn:vacant:v2"), problem.ExitFailed, "", "without a signed answer", "no call waits for an outcome"},
		"a connection that breaks": {func(b []byte) []byte {
			if bytes.Contains(b, []byte(`"statusUpdate"`)) {
				return nil
			}
			return b
		}, problem.ExitPending, "", "--ask", ": pay 1 coin"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShell(t)
			url := tampering(t, tt.with)
			code, out, errs := s.run("pay 1 coin\n", "call", url, "--stream")
			if code != tt.code || !strings.Contains(out, tt.out) || !strings.Contains(errs, tt.errs) {
				t.Errorf("exit %d, %q, %q; want %d, %q, %q", code, out, errs, tt.code, tt.out, tt.errs)
			}
			if _, out, errs := s.run("", "call", url, "--ask"); !strings.Contains(out, tt.afterwards) {
				t.Errorf("--ask: %q, %q; want %q", out, errs, tt.afterwards)
			}
		})
	}
}
