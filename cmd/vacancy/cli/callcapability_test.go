package cli

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// recorder is a server that records all requests.
type recorder struct {
	*httptest.Server
	mu  sync.Mutex
	saw []string
}

func record(t *testing.T, answer http.HandlerFunc) *recorder {
	r := &recorder{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.saw = append(r.saw, fmt.Sprintf("%s %s %v %s", req.Method, req.URL, req.Header, body))
		r.mu.Unlock()
		answer(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *recorder) requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.saw...)
}

// matchOf is a registry's row for a vacant with its own key at an endpoint.
func matchOf(t *testing.T, n byte, capability, endpoint string) map[string]any {
	t.Helper()
	k, err := identity.KeyFromSeed([]byte(strings.Repeat(string(rune(n)), ed25519.SeedSize)))
	must(t, err)
	c, err := card.New(k.ID(), capability, []string{"mock"}, endpoint)
	must(t, err)
	must(t, c.Sign(t.Context(), k))
	return map[string]any{"vacant_id": k.ID(), "capability_card_blob_hex": hex.EncodeToString(c.Blob()), "score": 0}
}

func TestNoRegistrySeesAPromptOrAKey(t *testing.T) {
	asleep := record(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusLocked)
		fmt.Fprint(w, `{"detail":"asleep","code":"not_accepting"}`)
	})
	rows := []any{
		matchOf(t, 'a', "translate plums", asleep.URL+"/a2a/message/send"),
		matchOf(t, 'b', "translate plums", asleep.URL),
		matchOf(t, 'c', "translate plums", "http://agent.example/a2a/message/send"), // in clear
	}
	registry := record(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/query_capability" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"matches": rows})
	})
	s := newShell(t)
	self := s.must("init", "me")
	for name, args := range map[string][]string{
		"call":  {"call", "--capability", "translate", "a ripe secret", "--registry", registry.URL},
		"route": {"route", "--call", "translate a ripe secret", "--registry", registry.URL},
	} {
		code, out, errs := s.run("", args...)
		if code != problem.ExitRefused || out != "" || !strings.Contains(errs, "2 vacants were tried and none is available") ||
			!strings.Contains(errs, "its endpoint at agent.example does not use https") {
			t.Errorf("%s = exit %d, %q, %s; want two tried, one left out", name, code, out, errs)
		}
	}
	if n := len(asleep.requests()); n < 4 || !strings.Contains(asleep.requests()[0], "a ripe secret") {
		t.Errorf("the vacants saw %d requests, want each call", n)
	}
	if len(registry.requests()) == 0 {
		t.Fatal("the registry was not asked")
	}
	id := strings.Fields(self)
	for _, saw := range registry.requests() {
		for _, secret := range append([]string{"ripe", "secret", "signature", "Vacancy-Caller"}, id...) {
			if len(secret) > 4 && strings.Contains(saw, secret) {
				t.Errorf("the registry saw %q in %s", secret, saw)
			}
		}
	}
}
