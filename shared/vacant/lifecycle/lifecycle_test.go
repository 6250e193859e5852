package lifecycle

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/problem"
)

type expectation struct {
	State               State                     `json:"state"`
	Error               string                    `json:"error"`
	Message             string                    `json:"message"`
	CanBeCalled         bool                      `json:"can_be_called"`
	CanReview           bool                      `json:"can_review"`
	IsRunnable          bool                      `json:"is_runnable"`
	RequiresRevive      bool                      `json:"requires_revive"`
	HeartbeatPeriod     json.RawMessage           `json:"heartbeat_period_s"`
	HeartbeatKind       string                    `json:"heartbeat_kind"`
	HeartbeatPayload    map[string]any            `json:"heartbeat_payload"`
	EffectiveVisibility map[Visibility]Visibility `json:"effective_visibility"`
}

type vector struct {
	Name  string
	Input struct {
		State State
		Event *Event
	}
	Expect expectation
}

func vectors(t *testing.T) []vector {
	t.Helper()
	b, err := os.ReadFile("testdata/lifecycle.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []vector }
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != 48 {
		t.Fatalf("lifecycle.json has %d cases, want 48", len(file.Cases))
	}
	return file.Cases
}

func TestEveryCellOfTheTableIsAsTheReferenceHasIt(t *testing.T) {
	cells := 0
	for _, c := range vectors(t) {
		if c.Input.Event == nil {
			continue
		}
		cells++
		t.Run(c.Name, func(t *testing.T) {
			got, err := c.Input.State.Next(*c.Input.Event)
			if c.Expect.Error == "" {
				if err != nil || got != c.Expect.State {
					t.Errorf("Next() = %v, %v, want %v", got, err, c.Expect.State)
				}
				return
			}
			if got != c.Input.State || !problem.Is(err, problem.Conflict) || problem.AsError(err).Text() != c.Expect.Message {
				t.Errorf("Next() = %v, %v, want %v unchanged and %q", got, err, c.Input.State, c.Expect.Message)
			}
		})
	}
	if want := len(States()) * len(events()); cells != want {
		t.Errorf("vectors have %d cells, want %d", cells, want)
	}
}

func TestPredicatesHeartbeatAndVisibilityAreAsTheReferenceHasThem(t *testing.T) {
	lastActive := time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC)
	states := 0
	for _, c := range vectors(t) {
		if c.Input.Event != nil {
			continue
		}
		states++
		t.Run(c.Name, func(t *testing.T) {
			s, want := c.Input.State, c.Expect
			if parsed, err := ParseState(string(s)); parsed != s || err != nil {
				t.Errorf("ParseState(%q) = %q, %v", s, parsed, err)
			}
			got := expectation{
				CanBeCalled: s.CanBeCalled(), IsRunnable: s.CanBeCalled(), CanReview: s.CanReview(),
				RequiresRevive: s.RequiresRevival(), HeartbeatKind: s.HeartbeatKind(),
				EffectiveVisibility: map[Visibility]Visibility{},
			}
			for v := range want.EffectiveVisibility {
				got.EffectiveVisibility[v] = s.EffectiveVisibility(v)
			}
			period, err := s.HeartbeatPeriod()
			got.HeartbeatPeriod = refused(t, err)
			if err == nil {
				got.HeartbeatPeriod, _ = json.Marshal(period.Seconds())
			}
			payload, err := s.HeartbeatPayload(lastActive)
			if err != nil {
				payload = refused(t, err)
			}
			if err := json.Unmarshal(payload, &got.HeartbeatPayload); err != nil {
				t.Errorf("HeartbeatPayload() = %s: %v", payload, err)
			}
			want.HeartbeatPeriod = compact(t, want.HeartbeatPeriod)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", s, diff)
			}
		})
	}
	if states != len(States()) {
		t.Errorf("vectors have %d states, want %d", states, len(States()))
	}
}

// refused returns the form of err in the vectors.
func refused(t *testing.T, err error) json.RawMessage {
	t.Helper()
	if err == nil {
		return nil
	}
	if !problem.Is(err, problem.Conflict) {
		t.Errorf("error = %v, want one of kind conflict", err)
	}
	b, _ := json.Marshal(map[string]string{"error": "InvalidEventError", "message": problem.AsError(err).Text()})
	return b
}

func compact(t *testing.T, raw json.RawMessage) json.RawMessage {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	b, _ := json.Marshal(v)
	return b
}

func TestClosedIsSunkAndArchivedOnly(t *testing.T) {
	got := map[State]bool{}
	for _, s := range States() {
		got[s] = s.IsRetired()
	}
	want := map[State]bool{Local: false, Active: false, Hibernating: false, Stale: false, Sunk: true, Archived: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Closed() (-want +got):\n%s", diff)
	}
}

func TestAWordThatIsNoStateIsRefusedEverywhere(t *testing.T) {
	for _, s := range []State{"", "active", "ACTIVE ", "PAUSED"} {
		if _, err := ParseState(string(s)); !problem.Is(err, problem.Malformed) {
			t.Errorf("ParseState(%q) = %v, want malformed", s, err)
		}
		if got, err := s.Next(Tick); got != s || err == nil {
			t.Errorf("%q.Next(TICK) = %q, %v, want it unchanged and an error", s, got, err)
		}
		if _, err := s.HeartbeatPeriod(); err == nil {
			t.Errorf("%q has a heartbeat period", s)
		}
		if _, err := s.HeartbeatPayload(time.Time{}); err == nil {
			t.Errorf("%q has a heartbeat payload", s)
		}
		if s.CanBeCalled() || s.CanReview() || s.IsRetired() || s.RequiresRevival() {
			t.Errorf("%q allows something", s)
		}
	}
	if _, err := Active.Next("EXPLODE"); err == nil {
		t.Error("an unknown event moved a vacant")
	}
}

// events returns all events in the order of their constants.
func events() []Event {
	return []Event{Tick, Heartbeat, CallReceived, ReviewReceived, ReviveRequested, ArchiveRequested, SpawnRequested}
}
