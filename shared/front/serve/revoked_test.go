package serve_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/memhost"
)

// Two processes share one store, as on AWS. The one that answers was not told
// of the other's revocation, and its clock has not moved.
func TestAKeyRevokedByAnotherProcessIsRefusedByTheVeryNextCall(t *testing.T) {
	s, still := memory.New(), time.Now()
	open := func() *memhost.Host {
		return memhost.Open(t, func(c *serve.Config) { c.Store, c.Now = s, func() time.Time { return still } })
	}
	here, there := open(), open()
	made := map[string]identity.ID{}
	for _, name := range []string{"caller", "called", "other"} {
		made[name] = here.Create(vacants.CreateSpec{Name: name, Capability: "echoes", Substrate: "echo"}).ID
	}
	type pair struct{ from, to string }
	chains := map[pair]*envelope.Envelope{}
	call := func(from, to string) (int, string) {
		t.Helper()
		e := &envelope.Envelope{From: made[from], To: made[to], Seq: 1, Time: still.UTC().Truncate(time.Microsecond),
			Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"hi"}}}
		if last := chains[pair{from, to}]; last != nil {
			e.Seq, e.Prev = last.Seq+1, last.Hash()
		}
		if err := here.Vacants.WithSigner(t.Context(), made[from], func(k identity.Signer) error {
			_, err := e.Sign(t.Context(), k)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		chains[pair{from, to}] = e
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/a2a/message/send", bytes.NewReader(envelope.AppendRequest(nil, nil, e)))
		r.Header.Set("Content-Type", "application/json")
		here.MessageHandler().ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for _, p := range []pair{{"caller", "other"}, {"other", "called"}} {
		for range 2 { // the second is answered from the cache
			if status, body := call(p.from, p.to); status != http.StatusOK {
				t.Fatalf("a call before = %d %s, want 200", status, body)
			}
		}
	}
	for _, name := range []string{"caller", "called"} {
		_, _, err := there.Vacants.Revoke(t.Context(), made[name], "stolen")
		must(t, err)
	}
	if status, body := call("other", "called"); status != http.StatusGone || !strings.Contains(body, "SUNK") {
		t.Errorf("a call to a vacant whose key was revoked elsewhere = %d %s, want 410", status, body)
	}
	if status, body := call("caller", "other"); status != http.StatusForbidden || !strings.Contains(body, `"code":"revoked"`) {
		t.Errorf("a call by a key that was revoked elsewhere = %d %s, want 403", status, body)
	}
}
