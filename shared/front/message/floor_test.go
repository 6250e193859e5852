package message_test

import (
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// A vacant that was imported, or restored from a backup, does not know what its
// callers had answered before.
func TestAVacantWithAFloorRefusesWhatWasSignedBefore(t *testing.T) {
	h := newTestServer(t, noon.Add(time.Hour), seed(1))
	h.floors[h.sole()] = noon
	at := func(when time.Time, text string) func(*envelope.Envelope) {
		return func(e *envelope.Envelope) { e.Time, e.Payload.Parts = when, []string{text} }
	}
	for _, path := range []string{message.SendPath, message.ResetPath} {
		text := "pay the bill"
		if path == message.ResetPath {
			text = envelope.ResetText
			h.set(noon.Add(time.Minute)) // a reset lives 300 s
		}
		_, old := signed(t, h, at(noon, text))
		res := h.post(path, "application/json", old)
		if got := membersOf(t, res); res.StatusCode != 409 || got["code"] != "floor" || got["floor"] != "2026-06-01T12:00:00+00:00" {
			t.Errorf("POST %s of what was signed at the floor = %d %v, want 409 floor", path, res.StatusCode, got)
		}
		_, late := signed(t, h, at(noon.Add(time.Microsecond), text))
		if res := h.post(path, "application/json", late); res.StatusCode != 200 {
			t.Errorf("POST %s of what was signed later = %d: %s, want 200", path, res.StatusCode, bodyOf(t, res))
		}
	}
}
