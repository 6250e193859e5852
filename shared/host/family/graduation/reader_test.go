package graduation_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// A request by a reader who is not a party costs one row. It does not read the status or ask the
// state machine, and it does not end an overdue attempt.
func TestAStrangersQuestionCostsOneRow(t *testing.T) {
	f, asked := &fates{}, 0
	h := fixtureOver(t, memory.New(), f.before, func(c *graduation.Config) {
		c.RunningStep = func(context.Context, *graduation.Attempt) gate.StepName { asked++; return gate.StepConsent }
	})
	sub := h.family(t)
	st, err := h.gate.Begin(t.Context(), sub)
	must(t, err)
	stranger := newKey(t).ID()
	question := func(when string) {
		t.Helper()
		var calls []string
		f.arm(func(_ int, op string) storetest.Fault { calls = append(calls, op); return storetest.NoFault })
		_, err := h.gate.StatusFor(t.Context(), stranger, st.ID)
		f.arm(nil)
		wantKind(t, "StatusFor() of a stranger "+when, err, problem.NotFound)
		if diff := cmp.Diff([]string{"Rows"}, calls); diff != "" || asked > 0 {
			t.Errorf("StatusFor() of a stranger %s asks the machine %d times and the store (-want +got):\n%s", when, asked, diff)
		}
	}
	question("while it is open")
	h.clock.Advance(graduation.AttemptTimeout)
	question("when it is overdue")

	for name, who := range map[string]identity.ID{"the parent": sub.Request.ParentID, "the child": st.Child} {
		if got, err := h.gate.StatusFor(t.Context(), who, st.ID); err != nil || got.Phase != graduation.Failed {
			t.Errorf("StatusFor() of %s = %s, %v, want failed", name, got.Phase, err)
		}
	}
	_, err = h.gate.StatusFor(t.Context(), stranger, graduation.ID{Child: st.Child, Position: 2})
	wantKind(t, "StatusFor() of no attempt", err, problem.NotFound)
}
