package problem_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Whose fault each kind is: a new kind must be judged here, too.
func TestEachKindHasAnOutcome(t *testing.T) {
	failed := []string{
		"internal", "behaviour_failed", "unavailable", "deadline", "untrusted", "damaged", "substrate_unavailable",
		"substrate_misconfigured", "substrate_too_large", "substrate_busy", "substrate_refused", "budget_exceeded", "no_worker",
	}
	var got []string
	for _, k := range problem.Kinds() {
		o := problem.OutcomeOf(k.String(), 200) // the word counts, whatever the status is
		switch {
		case o == problem.Failed:
			got = append(got, k.String())
		case o == "" && k != problem.Pending, o != "" && o != problem.Refused:
			t.Errorf("the outcome of %s is %q, want refused or failed", k, o)
		}
	}
	slices.Sort(failed)
	slices.Sort(got)
	if diff := cmp.Diff(failed, got); diff != "" {
		t.Errorf("kinds that are failures (-want +got):\n%s", diff)
	}
}

func TestOtherVerdictsHaveTheOutcomeOfTheirStatus(t *testing.T) {
	for _, tt := range []struct {
		verdict string
		status  int
		want    problem.Outcome
	}{
		{"ok", 200, problem.Answered}, {"resent", 409, ""}, {"pending", 409, ""}, {"hung_up", 200, problem.Answered},
		{"TASK_NOT_FOUND", 404, problem.Refused}, {"INTERNAL_ERROR", 500, problem.Failed}, {"a word", 0, problem.Refused},
	} {
		if got := problem.OutcomeOf(tt.verdict, tt.status); got != tt.want {
			t.Errorf("OutcomeOf(%s, %d) = %q, want %q", tt.verdict, tt.status, got, tt.want)
		}
	}
}
