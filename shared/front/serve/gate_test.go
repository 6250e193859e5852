package serve_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/operator"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// With an operator key on the admin socket, a parent's own signature admits it
// to its own children and to nothing else.
func TestAParentNeedsNoOperatorForItsChildren(t *testing.T) {
	s := memory.New()
	vault, err := local.Open(filepath.Join(t.TempDir(), "seal.key"), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys := operator.Keys{Store: s, Now: time.Now, Rand: rand.Reader}
	operatorKey, err := keys.Rotate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h, err := serve.Config{Store: s, Vault: vault, AllowLoopback: true, URL: "http://127.0.0.1:1", Operator: keys,
		Log: quiet, Now: time.Now, Rand: rand.Reader}.Open()
	if err != nil {
		t.Fatal(err)
	}
	seed := bytes.Repeat([]byte{7}, identity.Size)
	key, err := identity.KeyFromSeed(bytes.Clone(seed))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Vacants.Create(t.Context(), vacants.Spec{Name: "parent", Capability: "leads", Substrate: "echo", Key: key}); err != nil {
		t.Fatal(err)
	}
	if key, err = identity.KeyFromSeed(seed); err != nil {
		t.Fatal(err)
	}
	r := composite.SpawnRequest{ParentID: key.ID(), Path: "D2", Name: "child", Nonce: fmt.Sprintf("%032x", 1), Time: time.Now()}
	if err := r.Sign(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	path := "/v1/admin/vacants/" + key.ID().String() + "/children"
	for _, c := range []struct {
		what, method, path, body, bearer string
		want                             int
	}{
		{"signed", "POST", path, string(r.Blob()), "", http.StatusCreated},
		{"signed, and a wrong key", "POST", path, string(r.Blob()), "vop_wrong", http.StatusUnauthorized},
		{"not signed", "POST", path, `{"path":"D2","name":"x"}`, "", http.StatusBadRequest},
		{"not signed, by the operator", "POST", path, `{"path":"D2","name":"x"}`, operatorKey, http.StatusCreated},
		{"a look", "GET", path, "", "", http.StatusUnauthorized},
		{"a look by the operator", "GET", path, "", operatorKey, http.StatusOK},
		{"something else", "POST", "/v1/admin/vacants/parent/publish", string(r.Blob()), "", http.StatusUnauthorized},
		{"the gate's policy", "PUT", "/v1/admin/gate", `{"limit":1000}`, "", http.StatusUnauthorized},
	} {
		q := httptest.NewRequest(c.method, "http://host.example"+c.path, strings.NewReader(c.body))
		q.Header.Set("Content-Type", "application/json")
		if c.bearer != "" {
			q.Header.Set("Authorization", "Bearer "+c.bearer)
		}
		w := httptest.NewRecorder()
		h.Admin().ServeHTTP(w, q)
		if w.Code != c.want {
			t.Errorf("%s: %s %s = %d %s, want %d", c.what, c.method, c.path, w.Code, w.Body, c.want)
		}
	}
}

// The admin socket accepts a graduation and returns its outcome; the same
// request at the public handler joins it.
func TestAServerWalksAGraduationAtBothHandlers(t *testing.T) {
	h := httpServer(t, memory.New(), "http://127.0.0.1:1", quiet)
	client, base := serve.InProcess(h.Admin())
	c := &admin.Client{HTTP: client, URL: base}
	parent, err := admin.CreateVacant.Call(t.Context(), c, op.Of(admin.Creation{Name: "parent", Capability: "leads"}))
	if err != nil {
		t.Fatal(err)
	}
	made, err := admin.SpawnChild.Call(t.Context(), c, admin.About("parent", admin.Spawning{Path: "D2", Name: "child", Capability: "follows"}))
	if err != nil {
		t.Fatal(err)
	}
	zeros := gate.DefaultPolicy()
	zeros.Detector = gate.ByZeros
	if _, err := admin.SetGate.Call(t.Context(), c, admin.ForTenant("", op.Encode(zeros))); err != nil {
		t.Fatal(err)
	}
	sub := graduation.Submission{Request: composite.Request{ParentID: parent.ID, ChildID: made.Vacant.ID, CapabilityText: "leads itself"}}
	for id, sign := range map[identity.ID]func(identity.Signer) error{
		parent.ID:      func(s identity.Signer) error { return sub.Request.SignParent(t.Context(), s) },
		made.Vacant.ID: func(s identity.Signer) error { return sub.Request.SignChild(t.Context(), s) },
	} {
		if err := h.Vacants.Sign(t.Context(), id, sign); err != nil {
			t.Fatal(err)
		}
	}
	blob, err := sub.Blob()
	if err != nil {
		t.Fatal(err)
	}
	var view graduation.View
	err = c.Call(t.Context(), "POST", admin.GraduationsPath, nil, blob, &view)
	if err != nil || view.State != graduation.Accepted || view.Position != 1 {
		t.Fatalf("Submit() = %+v, %v, want that it is accepted", view, err)
	}
	q := httptest.NewRequest("POST", "http://127.0.0.1:1/v1/graduations", bytes.NewReader(blob))
	q.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	serve.Handlers{Message: h.MessageHandler(), Gate: h.GateHandler(nil)}.Public().ServeHTTP(w, q)
	var again graduation.View
	if err := json.Unmarshal(w.Body.Bytes(), &again); err != nil || w.Code != http.StatusOK || again.ID != view.ID {
		t.Errorf("POST of the same = %d %s, want 200 with %s", w.Code, w.Body, view.ID)
	}
	var log bytes.Buffer
	h.LogGateWarnings(t.Context(), slog.New(slog.NewTextHandler(&log, nil)))
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "detector is zeros") {
		t.Errorf("WarnOfGate() says %q, want a warning", log.String())
	}
}
