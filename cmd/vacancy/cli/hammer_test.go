package cli

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

// hammered is a host whose clock is the shell's.
func hammered(t *testing.T, s *shell, between func(http.Handler) http.Handler) string {
	h := hosttest.New(t, memory.New())
	h.Time = s.clock()
	server := httptest.NewServer(between(message.Handler(message.Config{Host: h.Host, Directory: h.Vacants, Log: slog.New(slog.DiscardHandler), Now: h.Now})))
	t.Cleanup(server.Close)
	return server.URL
}

func asItIs(h http.Handler) http.Handler { return h }

func TestHammerCountsVerifiedCalls(t *testing.T) {
	s := newShell(t)
	url := hammered(t, s, asItIs)
	var r struct {
		Calls  uint64                     `json:"calls"`
		Errors map[string]json.RawMessage `json:"errors"`
		P99    float64                    `json:"p99_ms"`
	}
	out := s.must("hammer", url, "--calls", "50", "--pairs", "5", "--for", "20s", "--json")
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Calls != 50 || len(r.Errors) != 0 || r.P99 <= 0 {
		t.Errorf("hammer --json = %s, %v; want 50 calls", out, err)
	}
	if out := s.must("hammer", url, "--calls", "5", "--pairs", "1", "--for", "20s"); !strings.HasPrefix(out, "5 calls answered and verified in ") {
		t.Errorf("hammer = %s", out)
	}
}

func TestHammerEndsByWhatItFound(t *testing.T) {
	s := newShell(t)
	forged := hammered(t, s, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r)
			w.WriteHeader(rec.Code)
			_, _ = w.Write([]byte(strings.Replace(rec.Body.String(), "echo from", "Echo from", 1)))
		})
	})
	code, out, errs := s.run("", "hammer", forged, "--calls", "3", "--pairs", "1")
	if code != problem.ExitUntrusted || !strings.Contains(out, "3 untrusted") || !strings.Contains(errs, "3 answers did not verify") {
		t.Errorf("hammer of a forger = exit %d, %q, %q; want 6", code, out, errs)
	}
	url := hammered(t, s, asItIs)
	for args, want := range map[string]int{
		url + " --vacant " + strings.Repeat("00", 32): problem.ExitUsage, // nobody's key
		url + " --vacant " + strings.Repeat("ab", 32): problem.ExitRefused,
		url + " --vacant demo":                        problem.ExitUsage,
		url + " --pairs 0":                            problem.ExitUsage,
		url + " --for 2h":                             problem.ExitUsage,
		"nowhere":                                     problem.ExitNotFound,
		"http://192.0.2.7":                            problem.ExitRefused,
	} {
		code, out, errs := s.run("", append([]string{"hammer"}, strings.Fields(args)...)...)
		if code != want || out != "" && want == problem.ExitUsage || errs == "" {
			t.Errorf("hammer %s = exit %d, %q, %q; want %d", args, code, out, errs, want)
		}
	}
	_, _, errs = s.run("", "hammer", "http://192.0.2.7")
	if !strings.Contains(errs, "--i-operate-this-host") {
		t.Errorf("hammer of another's host says %q, want the flag named", errs)
	}
}
