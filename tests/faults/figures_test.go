package faults

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/tests/caller"
	"github.com/vacancy-host/vacancy/tests/roundtrips"
)

// hold makes requests overlap that can, however fast the server is.
const hold = 50 * time.Millisecond

// A call through the whole host, from the HTTP handler to the tables and back,
// waits for three requests with empty caches, and for two if the pair is
// cached.
func TestCallTakesThreeRoundTripsColdAndTwoWarm(t *testing.T) {
	h := newFixture(t)
	// The first call of a day also makes the day's key, which is not counted
	// here.
	h.answered("the first of the day")

	counter := &roundtrips.Counter{Hold: hold}
	// The record is cached for a second; this clock stands still.
	still := time.Now()
	handler := h.handler(h.Store(h.Endpoint, counter.Option), func() time.Time { return still })
	for _, tt := range []struct {
		name       string
		trips      int
		operations []string
	}{
		{"cold", 3, []string{"GetItem", "GetItem", "GetItem", "PutItem", "PutItem", "Query", "Query"}},
		// The keys' revocation is read beside the first write.
		{"warm", 2, []string{"GetItem", "PutItem", "PutItem"}},
		{"warm again", 2, []string{"GetItem", "PutItem", "PutItem"}},
	} {
		counter.Reset()
		e := h.caller.Call(tt.name, still)
		if a := h.post(handler, caller.SendPath, e); a.Status != 200 {
			t.Fatalf("%s: %v, want 200", tt.name, a)
		}
		h.caller.Accepted(e)
		got := counter.Operations()
		slices.Sort(got)
		if diff := cmp.Diff(tt.operations, got); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", tt.name, diff)
		}
		if got := counter.Trips(); got != tt.trips {
			t.Errorf("%s: %d round trips, want %d", tt.name, got, tt.trips)
		}
	}
}

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
