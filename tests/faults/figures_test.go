package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/tests/caller"
	"github.com/vacancy-host/vacancy/tests/roundtrips"
)

// hold makes requests overlap that can, however fast the server is.
const hold = 50 * time.Millisecond

// The units that DynamoDB reports for a call. The text is in both rows: in the
// answer's after the echo's own words.
func TestCallConsumesTwoWriteUnitsBelowOneKilobyte(t *testing.T) {
	h := newFixture(t)
	h.answered("the first of the day")
	counter := &roundtrips.Counter{}
	handler := h.handler(h.Store(h.Endpoint, counter.Option), time.Now)
	t.Log("text, bytes   write units   read units (the first call knows nothing)")
	for _, tt := range []struct {
		text  int
		units float64
	}{{500, 2}, {1 << 10, 4}, {4 << 10, 10}, {16 << 10, 34}, {64 << 10, 130}} {
		counter.Reset()
		e := h.caller.Call(strings.Repeat("x", tt.text), time.Now())
		if a := h.post(handler, caller.SendPath, e); a.Status != 200 {
			t.Fatalf("a call of %d bytes: %v, want 200", tt.text, a)
		}
		h.caller.Accepted(e)
		t.Logf("%11d %13v %18v", tt.text, counter.WriteUnits(), counter.ReadUnits())
		if got := counter.WriteUnits(); got != tt.units {
			t.Errorf("a call of %d bytes consumed %v write units, want %v", tt.text, got, tt.units)
		}
	}
}
