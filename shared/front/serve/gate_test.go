package serve_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/keys/operator"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// With an operator key on the admin socket, a parent's own signature admits it
// to its own children and to nothing else.
func TestAParentNeedsNoOperatorForItsChildren(t *testing.T) {
	s := memory.New()
	keys := operator.Keys{Store: s, Now: time.Now, Rand: rand.Reader}
	operatorKey, err := keys.Rotate(t.Context())
	must(t, err)
	h := httpServer(t, s, "http://127.0.0.1:1", quiet, func(c *serve.Config) { c.Operator = keys })
	seed := bytes.Repeat([]byte{7}, identity.Size)
	key, err := identity.KeyFromSeed(bytes.Clone(seed))
	must(t, err)
	_, err = h.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "parent", Capability: "leads", Substrate: "echo", Key: key})
	must(t, err)
	key, err = identity.KeyFromSeed(seed)
	must(t, err)
	r := composite.SpawnRequest{ParentID: key.ID(), BirthPath: "D2", Name: "child", Nonce: fmt.Sprintf("%032x", 1), Time: time.Now()}
	must(t, r.Sign(t.Context(), key))
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
