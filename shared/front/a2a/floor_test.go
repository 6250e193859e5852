package a2a_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// A vacant that was imported does not know what its callers had answered before. The host
// signs for plain callers now, so they are answered.
func TestAnImportedVacantRefusesMessagesSignedBefore(t *testing.T) {
	w := newWorld(t)
	key, err := identity.NewKey(rand.Reader)
	must(t, err)
	s := w.signer()
	old := s.envelope(key.ID(), 1, [32]byte{}, "pay the bill", "m1", "")
	_, err = w.server.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "moved", Capability: "repeats", Substrate: "echo", Key: key})
	must(t, err)
	got := w.rpc("/v/moved", "SendMessage", params1(old, ""))
	if at(t, got.body, "error", "code") != "-32602" || !strings.Contains(got.body, `"reason":"FLOOR"`) || !strings.Contains(got.body, `"floor":"`) {
		t.Errorf("a message signed before: %s", got.body)
	}
	if got := w.rpc("/v/moved", "SendMessage", message("hi", "")); at(t, got.body, "result", "task", "status", "state") != "TASK_STATE_COMPLETED" {
		t.Errorf("a plain message: %s", got.body)
	}
	w.skip.Store(int64(6 * time.Minute)) // past the time by which a signer's clock may be ahead
	late := s.envelope(key.ID(), 1, [32]byte{}, "pay the bill", "m1", "")
	late.Time = w.now().UTC().Truncate(time.Microsecond)
	_, err = late.Sign(t.Context(), s.key)
	must(t, err)
	if got := w.rpc("/v/moved", "SendMessage", params1(late, "")); at(t, got.body, "result", "task", "status", "state") != "TASK_STATE_COMPLETED" {
		t.Errorf("a message signed after: %s", got.body)
	}
}
