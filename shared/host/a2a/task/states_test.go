package task

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestATaskPassesOnlyToTheStatesOfTheTable(t *testing.T) {
	for from, next := range map[State]string{
		Submitted:     "working failed canceled",
		Working:       "completed input-required auth-required rejected failed canceled",
		InputRequired: "submitted working failed canceled",
		AuthRequired:  "submitted working failed canceled",
		Completed:     "", Canceled: "", Failed: "", Rejected: "", "unknown": "",
	} {
		for _, to := range append(States(), "unknown") {
			if want := slices.Contains(strings.Fields(next), string(to)); from.canBecome(to) != want {
				t.Errorf("a task that is %s can become %s: %t, want %t", from, to, !want, want)
			}
		}
		wantTerminal, wantWaits := next == "" && from != "unknown", strings.HasPrefix(next, "submitted")
		if from.IsTerminal() != wantTerminal || from.AwaitsMessage() != wantWaits || from.IsActive() != (strings.Contains(next, "failed") && !wantWaits) {
			t.Errorf("%s: terminal %t, waits %t, active %t", from, from.IsTerminal(), from.AwaitsMessage(), from.IsActive())
		}
	}
	if len(transitions) != len(States()) {
		t.Errorf("the table has %d states, want %d", len(transitions), len(States()))
	}
}

func TestTheEngineHasSixNamesForTheStates(t *testing.T) {
	names := map[State]string{
		Submitted: "pending", Working: "working", InputRequired: "input_required", Completed: "completed", Failed: "failed", Canceled: "cancelled",
		Rejected: "failed", AuthRequired: "input_required", "unknown": "failed",
	}
	for s, name := range names {
		if s.TeamStateName() != name {
			t.Errorf("%s is named %s, want %s", s, s.TeamStateName(), name)
		}
	}
	for _, s := range []State{Submitted, Working, InputRequired, Completed, Failed, Canceled} {
		if back, err := ParseTeamStateName(s.TeamStateName()); err != nil || back[0] != s {
			t.Errorf("%s is parsed as %v, %v, want %s first", s.TeamStateName(), back, err, s)
		}
	}
	if all, err := ParseTeamStateName("failed"); err != nil || !slices.Equal(all, []State{Failed, Rejected}) {
		t.Errorf("failed is parsed as %v, %v", all, err)
	}
	for _, name := range []string{"", "submitted", "canceled", "rejected", "unknown"} {
		if all, err := ParseTeamStateName(name); !errors.As(err, new(*problem.Error)) {
			t.Errorf("%q is parsed as %v, %v, want an error", name, all, err)
		}
	}
}
