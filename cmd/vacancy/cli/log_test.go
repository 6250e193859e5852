package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// loggedHost is a registry with a log. A test may replace its answers.
type loggedHost struct {
	t       *testing.T
	key     *identity.Key
	log     *translog.Log
	handler http.Handler
}

func newLoggedHost(t *testing.T, key *identity.Key) *loggedHost {
	t.Helper()
	s := memory.New()
	reg := registry.New(registry.Config{Store: s, Now: time.Now, Rand: rand.Reader, Elsewhere: true})
	l, err := translog.OfRegistry(translog.Config{
		Store: s, Now: time.Now, Rand: rand.Reader,
		Identity: func(context.Context) (identity.Signer, error) { return key, nil },
	}, reg)
	if err != nil {
		t.Fatal(err)
	}
	handler := registryapi.Registry(registryapi.Config{Registry: reg, Log: l, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	return &loggedHost{t, key, l, handler}
}

// publish publishes n new vacants and seals the log.
func (h *loggedHost) publish(n int) *loggedHost {
	h.t.Helper()
	server := httptest.NewServer(h.handler)
	defer server.Close()
	client := &registryclient.Client{Transport: dispatch.NewHTTP(dispatch.HTTPOptions{Timeout: time.Minute}), URL: server.URL, Now: time.Now}
	for range n {
		key, err := identity.NewKey(rand.Reader)
		if err != nil {
			h.t.Fatal(err)
		}
		c, err := card.New(key.ID(), "writes", nil, "https://vacant.example/a2a/message/send")
		if err == nil {
			err = c.Sign(h.t.Context(), key)
		}
		if err == nil {
			_, err = client.PublishAs(h.t.Context(), key, registryclient.Draft{Card: c, State: lifecycle.Active, Visibility: lifecycle.Public}, rand.Reader)
		}
		if err != nil {
			h.t.Fatal(err)
		}
	}
	if _, err := h.log.Seal(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	return h
}

// The host shows one log and later another at the same URL.
func TestLogVerifyEndsWithSixOnALie(t *testing.T) {
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	alter := func(h *loggedHost, path string, change func([]byte) []byte) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasPrefix(r.URL.Path, path) {
				h.handler.ServeHTTP(w, r)
				return
			}
			in := httptest.NewRecorder()
			h.handler.ServeHTTP(in, r)
			_, _ = w.Write(change(in.Body.Bytes()))
		})
	}
	for name, tt := range map[string]struct {
		later func(*loggedHost) http.Handler
		exit  int
		want  string
		fork  bool
	}{
		"a log that grew": {func(h *loggedHost) http.Handler { return h.publish(2).handler }, problem.ExitOK, "", false},
		"a forked log": {func(*loggedHost) http.Handler { return newLoggedHost(t, key).publish(3).handler },
			problem.ExitUntrusted, "signed two different logs of 3 events", true},
		"a rewritten log": {func(*loggedHost) http.Handler { return newLoggedHost(t, key).publish(5).handler },
			problem.ExitUntrusted, "does not prove that its log of 5 events begins with the 3", true},
		"a log that was taken back": {func(*loggedHost) http.Handler { return newLoggedHost(t, key).publish(2).handler },
			problem.ExitUntrusted, "was taken back: it had 3 events and has 2 now", true},
		"another key": {func(*loggedHost) http.Handler { return newLoggedHost(t, stranger).publish(3).handler },
			problem.ExitUntrusted, "--forget", false},
		"an altered leaf": {func(h *loggedHost) http.Handler {
			return alter(h.publish(1), "/v1/log/leaves", func(b []byte) []byte {
				at := bytes.LastIndexByte(b, '"') - 1 // the last digit of the last hash
				if b[at]++; b[at] == '9'+1 || b[at] == 'f'+1 {
					b[at] = '0'
				}
				return b
			})
		}, problem.ExitUntrusted, "but its checkpoint has the root", false},
		"hidden leaves": {func(h *loggedHost) http.Handler {
			return alter(h.publish(1), "/v1/log/leaves", func([]byte) []byte { return []byte(`{"from":1,"event_hashes_hex":[]}`) })
		}, problem.ExitUntrusted, "signed for 4 events, and shows only 0", false},
		"an altered event": {func(h *loggedHost) http.Handler {
			return alter(h.publish(1), "/v1/event/4", func(b []byte) []byte {
				return bytes.Replace(b, []byte(`"actor_seq":1`), []byte(`"actor_seq":2`), 1)
			})
		}, problem.ExitUntrusted, "event 4 as the host shows it is not the one that is sealed", false},
		"a page that is no answer": {func(h *loggedHost) http.Handler {
			return alter(h.publish(1), "/v1/proof", func([]byte) []byte { return []byte("<html>") })
		}, problem.ExitUntrusted, "cannot be read", false},
		"nobody at home": {func(*loggedHost) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
		}, problem.ExitUnavailable, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			host := newLoggedHost(t, key).publish(3)
			var shown atomic.Value
			shown.Store(http.HandlerFunc(host.handler.ServeHTTP))
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				shown.Load().(http.HandlerFunc)(w, r)
			}))
			defer server.Close()
			dir := t.TempDir()
			run := func(args ...string) (int, string, string) {
				var out, errs bytes.Buffer
				code := Run(t.Context(), kit.Seams{}, append([]string{"log", "verify", server.URL, "--json"}, args...), strings.NewReader(""), &out, &errs, []string{"VACANCY_HOME=" + dir})
				return code, out.String(), errs.String()
			}
			if code, _, errs := run(); code != problem.ExitOK {
				t.Fatalf("log verify = %d %s, want 0", code, errs)
			}
			shown.Store(http.HandlerFunc(tt.later(host).ServeHTTP))
			code, out, errs := run()
			if code != tt.exit || !strings.Contains(errs, tt.want) {
				t.Errorf("log verify = %d %s, want %d and %q", code, errs, tt.exit, tt.want)
			}
			var report struct {
				Size uint64 `json:"tree_size"`
			}
			if json.Unmarshal([]byte(out), &report); code == problem.ExitOK && report.Size != 5 {
				t.Errorf("log verify reports %s, want 5 events", out)
			}
			forks, err := filepath.Glob(filepath.Join(dir, "logs", "*.fork"))
			if err != nil || (len(forks) == 1) != tt.fork {
				t.Errorf("kept as proof: %v, %v, want one: %v", forks, err, tt.fork)
			}
			if !tt.fork {
				return
			}
			// The log must continue what was verified before; only --forget
			// starts again.
			if code, _, errs := run(); code != problem.ExitUntrusted || !strings.Contains(errs, filepath.Base(forks[0])) {
				t.Errorf("log verify again = %d %s, want 6 and where the proof is", code, errs)
			}
			if b, err := os.ReadFile(forks[0]); err != nil || strings.Count(string(b), "\nvacancy/")+1 < 2 {
				t.Errorf("the proof = %q, %v, want both checkpoints", b, err)
			}
			if code, _, errs := run("--forget"); code != problem.ExitOK {
				t.Errorf("log verify --forget = %d %s, want 0", code, errs)
			}
		})
	}
}
