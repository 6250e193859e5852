package discovery_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/discovery"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/dispatchtest"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/memorybook"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// recording is a session against a registry of the reference.
type recording struct {
	Name  string
	Input struct{ Seeds map[string]string }

	Expect struct {
		Steps []struct {
			Kind, Method, Path string
			Query              map[string]any
			Status             int
			Body               json.RawMessage
		}
	}
}

func recordings(t *testing.T) []recording {
	t.Helper()
	b, err := os.ReadFile("testdata/registry_http.json")
	must(t, err)
	var file struct{ Cases []recording }
	if err := json.Unmarshal(b, &file); err != nil || len(file.Cases) != 4 {
		t.Fatalf("%d recordings, %v, want 4", len(file.Cases), err)
	}
	return file.Cases
}

// registryOf answers like the recorded registry. A search that was not recorded
// returns the rows that contain the reference's substring.
func (r *recording) registryOf(t *testing.T) *httptest.Server {
	return dispatchtest.NewServer(t, func(w http.ResponseWriter, req *http.Request) {
		for _, s := range r.Expect.Steps {
			same := s.Method == req.Method && s.Path == req.URL.Path && len(s.Query) <= 1
			for _, name := range []string{"capability", "family"} {
				asked, there := s.Query[name]
				same = same && there == req.URL.Query().Has(name) && (!there || asked == req.URL.Query().Get(name))
			}
			if same && s.Kind == "search" && s.Query["limit"] == nil {
				w.WriteHeader(s.Status)
				_, _ = w.Write(s.Body)
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"detail":"Not Found"}`))
	})
}

// recordedClient calls the vacants of a recording, each on a host of the
// reference.
func recordedClient(t *testing.T, r *recording, at string) *discovery.Client {
	c := dispatchtest.NewClock()
	hosts := map[string]*dispatchtest.Wire{}
	for id, seed := range r.Input.Seeds {
		s, err := hex.DecodeString(seed)
		must(t, err)
		h := dispatchtest.NewHost(t, c.Now)
		h.Key, err = identity.KeyFromSeed(s)
		must(t, err)
		h.Reference = true
		hosts[id[:6]+".example"] = &dispatchtest.Wire{Host: h}
	}
	return &discovery.Client{
		Caller:     &dispatch.Caller{Signer: dispatchtest.NewKey(t, 1), Book: &memorybook.Book{}, Now: c.Now, Rand: &dispatchtest.Random{Seed: 7}, Wait: c.Wait},
		Registries: []*registryclient.Client{{Transport: dispatch.NewHTTP(dispatch.HTTPOptions{}), URL: at}},
		Policy:     discovery.ByScore,
		Route: func(_ string, callee *card.Card) (dispatch.Transport, error) {
			u, err := url.Parse(callee.Endpoint)
			if err != nil || hosts[u.Host] == nil {
				return nil, problem.New(problem.NotFound, "no host at %s", callee.Endpoint)
			}
			return hosts[u.Host], nil
		},
	}
}

func TestARecordedRegistryOfTheReferenceIsSearchedAndDispatchedFrom(t *testing.T) {
	for _, r := range recordings(t) {
		t.Run(r.Name, func(t *testing.T) {
			s := r.registryOf(t)
			searched := 0
			for _, step := range r.Expect.Steps {
				q, _ := step.Query["capability"].(string)
				if step.Kind != "search" || step.Status != 200 || len(step.Query) != 1 || !slices.Contains([]string{"translate", "review", "code", "republished", "zzz"}, q) {
					continue
				}
				searched++
				var body struct {
					Matches []struct {
						ID   string `json:"vacant_id"`
						Blob string `json:"capability_card_blob_hex"`
						Text string `json:"declared_capabilities_json"`
					}
				}
				must(t, json.Unmarshal(step.Body, &body))
				client := recordedClient(t, &r, s.URL)
				found, err := client.Search(t.Context(), words(q))
				if err != nil {
					t.Fatalf("Search(%q) = %v", q, err)
				}
				if len(found.Matches)+len(found.DroppedMatches) != len(body.Matches) {
					t.Errorf("Search(%q) = %d matches and %d dropped, want %d in all", q, len(found.Matches), len(found.DroppedMatches), len(body.Matches))
				}
				var got, want []string
				for _, m := range found.Matches {
					got = append(got, m.ID.String())
				}
				for _, m := range body.Matches {
					if slices.Contains(got, m.ID) {
						want = append(want, m.ID)
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("Search(%q) = %v, want the reference's order %v", q, got, want)
				}
				out, err := client.CallCapability(t.Context(), words(q), dispatchtest.UserMessage("hi"))
				if len(found.Matches) == 0 {
					dispatchtest.WantKind(t, err, problem.NotFound)
					continue
				}
				if err != nil || out.Reply == nil || out.Chosen.ID.String() != want[0] {
					t.Errorf("CallCapability(%q) = %s, %v, want the first's answer", q, out.Chosen.ID.Short(), err)
				}
			}
			if searched < 3 {
				t.Errorf("%d recorded searches were made, want at least 3", searched)
			}
		})
	}
}

func TestARegistryThatAnswersGarbageTooMuchOrLate(t *testing.T) {
	deep := strings.Repeat("[", 100_000)
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter, gone <-chan struct{})
		kind   problem.Kind
	}{
		"a page":             {func(w http.ResponseWriter, gone <-chan struct{}) { fmt.Fprint(w, "<html>") }, problem.Untrusted},
		"nothing":            {func(w http.ResponseWriter, gone <-chan struct{}) {}, problem.Untrusted},
		"another shape":      {func(w http.ResponseWriter, gone <-chan struct{}) { fmt.Fprint(w, `{"matches":7}`) }, problem.Untrusted},
		"a member twice":     {func(w http.ResponseWriter, gone <-chan struct{}) { fmt.Fprint(w, `{"matches":[],"matches":[]}`) }, problem.Untrusted},
		"nested without end": {func(w http.ResponseWriter, gone <-chan struct{}) { fmt.Fprint(w, deep) }, problem.Untrusted},
		"a redirect": {func(w http.ResponseWriter, gone <-chan struct{}) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(302)
		}, problem.Usage},
		"its own error": {func(w http.ResponseWriter, gone <-chan struct{}) { w.WriteHeader(500) }, problem.Unavailable},
		"a refusal": {func(w http.ResponseWriter, gone <-chan struct{}) {
			w.WriteHeader(422)
			fmt.Fprint(w, `{"detail":"no \u001b[2J"}`)
		}, problem.InvalidMember},
		"late":                 {func(w http.ResponseWriter, gone <-chan struct{}) { <-gone }, problem.DeadlineExceeded},
		"a drop at a time":     {func(w http.ResponseWriter, gone <-chan struct{}) { drip(w, gone) }, problem.DeadlineExceeded},
		"more than can be had": {func(w http.ResponseWriter, gone <-chan struct{}) { flood(w) }, problem.TooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			s := dispatchtest.NewServer(t, func(w http.ResponseWriter, r *http.Request) { c.answer(w, r.Context().Done()) })
			client := &discovery.Client{
				Registries:    []*registryclient.Client{{Transport: dispatch.NewHTTP(dispatch.HTTPOptions{}), URL: s.URL}},
				SearchTimeout: 200 * time.Millisecond,
			}
			if name == "more than can be had" {
				client.SearchTimeout = time.Minute
			}
			_, err := client.Search(context.Background(), words("translate"))
			dispatchtest.WantKind(t, err, c.kind)
			if strings.Contains(err.Error(), "\x1b") {
				t.Errorf("Search() = %q, want nothing that moves a cursor", err)
			}
		})
	}
}

func drip(w http.ResponseWriter, end <-chan struct{}) {
	for {
		select {
		case <-end:
			return
		case <-time.After(20 * time.Millisecond):
			fmt.Fprint(w, " ")
			if http.NewResponseController(w).Flush() != nil {
				return
			}
		}
	}
}

func flood(w http.ResponseWriter) {
	space := make([]byte, 64<<10)
	for range registryclient.MaxAnswerBytes/len(space) + 2 {
		if _, err := w.Write(space); err != nil {
			return
		}
	}
}
