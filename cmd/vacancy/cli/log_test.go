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
	reg := registry.New(registry.Config{Store: s, Now: time.Now, Rand: rand.Reader, AllowRemote: true})
	l, err := translog.NewForRegistry(translog.Config{
		Store: s, Now: time.Now, Rand: rand.Reader,
		Identity: func(context.Context) (identity.Signer, error) { return key, nil },
	}, reg)
	must(t, err)
	handler := registryapi.NewRegistryHandler(registryapi.Config{Registry: reg, Log: l, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
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
		must(h.t, err)
		c, err := card.New(key.ID(), "writes", nil, "https://vacant.example/a2a/message/send")
		if err == nil {
			err = c.Sign(h.t.Context(), key)
		}
		if err == nil {
			_, err = client.PublishAs(h.t.Context(), key, registryclient.Draft{Card: c, State: lifecycle.Active, Visibility: lifecycle.Public}, rand.Reader)
		}
		must(h.t, err)
	}
	if _, err := h.log.Seal(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	return h
}

// The host shows one log and later another at the same URL. TestEveryLieOfAHostIsFound of the package witness has the
// other lies.
func TestLogVerifyEndsWithSixOnALie(t *testing.T) {
	key, err := identity.NewKey(rand.Reader)
	must(t, err)
	stranger, err := identity.NewKey(rand.Reader)
	must(t, err)
	for name, tt := range map[string]struct {
		later func(*loggedHost) http.Handler
		exit  int
		want  string
		fork  bool
	}{
		"a log that grew": {func(h *loggedHost) http.Handler { return h.publish(2).handler }, problem.ExitOK, "", false},
		"a forked log": {func(*loggedHost) http.Handler { return newLoggedHost(t, key).publish(3).handler },
			problem.ExitUntrusted, "signed two different logs of 3 events", true},
		"another key": {func(*loggedHost) http.Handler { return newLoggedHost(t, stranger).publish(3).handler },
			problem.ExitUntrusted, "--forget", false},
		"a page that is no answer": {func(h *loggedHost) http.Handler {
			mux := http.NewServeMux()
			mux.Handle("/", h.publish(1).handler)
			mux.HandleFunc("/v1/proof/", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })
			return mux
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
