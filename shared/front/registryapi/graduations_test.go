package registryapi_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/host/substrate/resources"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/readproof"
)

// missing returns evidence that contains only the edge.
type missing struct{}

func (missing) Collect(_ context.Context, child, parent identity.ID) (gate.Evidence, error) {
	return gate.Evidence{Child: child, Parent: parent, Pairs: []gate.Pair{{OtherID: parent, Role: gate.RoleParent,
		Child: gate.Observation{ID: child, Closed: true}, Other: gate.Observation{ID: parent}}}}, nil
}

// gateScene is a gate with its handler, and a parent and a child whose keys the test knows.
type gateScene struct {
	*testing.T
	handler       http.Handler
	vacants       *vacants.Directory
	parent, child *identity.Key
	now           time.Time
}

func newGate(t *testing.T, collector ...graduation.Collector) *gateScene {
	t.Helper()
	var seen graduation.Collector = missing{}
	if len(collector) > 0 {
		seen = collector[0]
	}
	s := &gateScene{T: t, parent: newKey(t), child: newKey(t), now: time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)}
	clock := func() time.Time { return s.now }
	vault, err := local.Open(filepath.Join(t.TempDir(), "seal.key"), rand.Reader)
	must(s, err)
	st := memory.New()
	v := hosttest.NewVacants(t, st, clock, "https://"+authority, vacants.Config{
		Vault: vault, Resources: &resources.Resources{Substrates: substrate.Kinds{echo.Kind: echo.New}},
	})
	reg := v.Registry
	for name, key := range map[string]*identity.Key{"parent": s.parent, "child": s.child} {
		_, err := v.Create(t.Context(), vacants.CreateSpec{Name: name, Capability: "says what it hears", Substrate: "echo", Key: key})
		must(s, err)
	}
	m := composite.Manifest{ParentID: s.parent.ID(), ChildID: s.child.ID(), BirthPath: "D2", ClosedByDefault: true,
		Reachability: composite.ParentOnly, OutboundPolicy: composite.NoExternal, SchemaVersion: composite.SchemaV2}
	must(s, m.SignParent(t.Context(), s.parent))
	must(s, m.SignChild(t.Context(), s.child))
	must(s, v.StoreManifest(t.Context(), m))
	s.vacants = v
	s.handler = registryapi.NewGraduationHandler(registryapi.GraduationConfig{
		Gate:      graduation.New(graduation.Config{Store: st, Vacants: v, Registry: reg, Evidence: seen, Now: clock, Rand: rand.Reader}),
		IsRevoked: reg.IsRevoked, TrustHostHeader: true, Now: clock, Logger: slog.New(slog.DiscardHandler),
	})
	return s
}

// request returns the body of a graduation request for child, signed by both parties.
func (s *gateScene) request(parent, child identity.Signer, text string) []byte {
	s.Helper()
	r := composite.GraduationRequest{ParentID: parent.ID(), ChildID: child.ID(), CapabilityText: text}
	must(s, r.SignParent(s.Context(), parent))
	must(s, r.SignChild(s.Context(), child))
	sub := graduation.Submission{Request: r}
	b, err := sub.Blob()
	must(s, err)
	return b
}

// send sends a request signed by as, and returns the status, body and headers.
func (s *gateScene) send(method, target string, body []byte, as identity.Signer) (int, string, http.Header) {
	s.Helper()
	r := httptest.NewRequest(method, "http://"+authority+target, bytes.NewReader(body))
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if as != nil {
		value, err := readproof.Sign(s.Context(), as, readproof.Request{Authority: authority, Method: method, Target: target}, s.now)
		must(s, err)
		r.Header.Set(readproof.Header, value)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	got, err := io.ReadAll(w.Result().Body)
	must(s, err)
	return w.Code, string(got), w.Header()
}

func (s *gateScene) view(body string) (v graduation.View) {
	s.Helper()
	must(s, json.Unmarshal([]byte(body), &v))
	return v
}

func TestARequestThatBothSignedGraduatesAndItsOutcomeIsKept(t *testing.T) {
	s := newGate(t)
	body := s.request(s.parent, s.child, "drafts contracts")
	status, text, header := s.send("POST", "/v1/graduations", body, nil)
	v := s.view(text)
	if want := "/v1/graduations/" + s.child.ID().String() + "-1"; status != http.StatusOK || v.Phase != graduation.Accepted || header.Get("Location") != want {
		t.Fatalf("POST = %d %s at %s, want 200 accepted at %s", status, text, header.Get("Location"), want)
	}
	if v.Findings != nil || strings.Contains(text, `"findings"`) {
		t.Errorf("POST = %s, want no findings for who need not be one of the two", text)
	}
	again, same, _ := s.send("POST", "/v1/graduations", body, nil)
	if diff := cmp.Diff(text, same); again != status || diff != "" {
		t.Errorf("POST again = %d (-first +again):\n%s", again, diff)
	}
	for name, key := range map[string]*identity.Key{"the parent": s.parent, "the child": s.child} {
		status, text, header := s.send("GET", header.Get("Location"), nil, key)
		if v := s.view(text); status != http.StatusOK || v.Phase != graduation.Accepted || v.Findings == nil || header.Get("Cache-Control") != "no-store" {
			t.Errorf("GET by %s = %d %s, want 200 with findings, for no cache", name, status, text)
		}
	}
	m, err := composite.ParseManifest(v.Outcome.Manifest)
	if err != nil || m.Verify() != nil || m.ClosedByDefault {
		t.Errorf("POST = the manifest %s, want an open one that verifies", v.Outcome.Manifest)
	}
}

func TestAnAttemptIsThereForItsPartiesAlone(t *testing.T) {
	s := newGate(t)
	_, _, header := s.send("POST", "/v1/graduations", s.request(s.parent, s.child, "drafts contracts"), nil)
	is, never := header.Get("Location"), strings.TrimSuffix(header.Get("Location"), "-1")+"-2"
	for name, key := range map[string]identity.Signer{"nobody": nil, "a stranger": newKey(t), "one of the two": s.parent} {
		path := is
		if key == s.parent {
			path = never
		}
		status, text, _ := s.send("GET", path, nil, key)
		want := `{"detail":"graduation ` + strings.TrimPrefix(path, "/v1/graduations/") + ` is not known","code":"not_found"}` + "\n"
		if status != http.StatusNotFound || text != want {
			t.Errorf("GET %s by %s = %d %s, want 404 %s", path, name, status, text, want)
		}
	}
	status, _, _ := s.send("GET", "/v1/graduations/all", nil, s.parent)
	if status != http.StatusNotFound {
		t.Errorf("GET of no attempt = %d, want 404", status)
	}
}

// A request without the family's signatures must get the same answer for a closed child as for an
// unknown id.
func TestRefusalsDoNotRevealChildren(t *testing.T) {
	s := newGate(t)
	nobody, forger := newKey(t), newKey(t)
	answers := map[string]string{}
	for name, child := range map[string]*identity.Key{"a closed child": s.child, "nobody": nobody} {
		r := composite.GraduationRequest{ParentID: s.parent.ID(), ChildID: child.ID(), CapabilityText: "drafts contracts"}
		sig, err := forger.Sign(t.Context(), r.SignedBytes())
		must(s, err)
		r.SignatureParent, r.SignatureChild = sig, sig
		sub := graduation.Submission{Request: r}
		body, err := sub.Blob()
		must(s, err)
		status, text, _ := s.send("POST", "/v1/graduations", body, nil)
		if status != http.StatusForbidden {
			t.Errorf("POST of a forged request for %s = %d, want 403", name, status)
		}
		answers[name] = text
	}
	if diff := cmp.Diff(answers["nobody"], answers["a closed child"]); diff != "" {
		t.Errorf("POST of a forged request (-nobody +a closed child):\n%s", diff)
	}
}

func TestInvalidGraduationRequestNamesItsField(t *testing.T) {
	s := newGate(t)
	body := s.request(s.parent, s.child, "drafts contracts")
	for name, c := range map[string]struct {
		body   string
		status int
		says   string
	}{
		"no JSON":               {"contracts", http.StatusUnprocessableEntity, "schema"},
		"nothing":               {"{}", http.StatusUnprocessableEntity, "request"},
		"a member of its own":   {strings.TrimSuffix(string(body), "}") + `,"when":1}`, http.StatusUnprocessableEntity, "when"},
		"a member twice":        {strings.TrimSuffix(string(body), "}") + "," + string(body)[1:], http.StatusUnprocessableEntity, "request"},
		"another intent":        {strings.Replace(string(body), "vacant:graduation:v1", "vacant:graduation:v2", 1), http.StatusUnprocessableEntity, "intent"},
		"a text of nothing":     {strings.Replace(string(body), "drafts contracts", " ", 1), http.StatusUnprocessableEntity, "capability_text"},
		"a text with a control": {strings.Replace(string(body), "drafts contracts", `\u001f`, 1), http.StatusUnprocessableEntity, "capability_text"},
		"another text":          {strings.Replace(string(body), "drafts contracts", "drafts wills", 1), http.StatusForbidden, "graduation request signatures did not verify"},
		"too much":              {`{"request":"` + strings.Repeat("x", graduation.MaxSubmissionBytes) + `"}`, http.StatusRequestEntityTooLarge, "too_large"},
	} {
		t.Run(name, func(t *testing.T) {
			status, text, _ := s.send("POST", "/v1/graduations", []byte(c.body), nil)
			if status != c.status || !strings.Contains(text, c.says) {
				t.Errorf("POST = %d %s, want %d with %q", status, text, c.status, c.says)
			}
		})
	}
	for target, method := range map[string]string{"/v1/graduations": "GET", "/v1/graduations/" + s.child.ID().String() + "-1": "POST"} {
		if status, _, header := s.send(method, target, nil, nil); status != http.StatusMethodNotAllowed || header.Get("Allow") == "" {
			t.Errorf("%s %s = %d, want 405 with what is allowed", method, target, status)
		}
	}
}

// alike returns evidence that a child is its sibling under another name.
type alike struct{ sibling identity.ID }

func (a alike) Collect(_ context.Context, child, parent identity.ID) (gate.Evidence, error) {
	week := make([]float64, gate.ActivityHours)
	for i := range week {
		week[i] = float64(i % 24)
	}
	return gate.Evidence{Child: child, Parent: parent, Pairs: []gate.Pair{
		{OtherID: parent, Role: gate.RoleParent, Child: gate.Observation{ID: child}, Other: gate.Observation{ID: parent}},
		{OtherID: a.sibling, Role: gate.RoleSibling, Child: gate.Observation{ID: child, Activity: week}, Other: gate.Observation{ID: a.sibling, Activity: week}},
	}}, nil
}

// A sibling may be closed, so only the parent and the child may learn which sibling was compared.
func TestWithWhomAChildWasComparedIsToldToTheTwoAlone(t *testing.T) {
	sibling := newKey(t).ID()
	s := newGate(t, alike{sibling})
	status, text, header := s.send("POST", "/v1/graduations", s.request(s.parent, s.child, "drafts contracts"), nil)
	if v := s.view(text); status != http.StatusAccepted || v.Phase != graduation.Refused || v.Refusal.Error != "GraduationCollusionError" || strings.Contains(text, sibling.Short()) {
		t.Errorf("POST = %d %s, want it refused without a word of the sibling", status, text)
	}
	_, text, _ = s.send("GET", header.Get("Location"), nil, s.child)
	if v := s.view(text); !strings.Contains(v.Refusal.Detail, "against sibling "+sibling.Short()) || v.Findings == nil || v.Findings.PairFindings[1].OtherID != sibling {
		t.Errorf("GET by the child = %s, want the sibling named", text)
	}
}
