package vacants_test

import (
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The texts of other callers, threads and vacants stay.
func TestOneThreadOfOneCallerIsForgotten(t *testing.T) {
	callers, threads := []identity.ID{{1}, {2}}, []string{"one", "two"}
	for name, tt := range map[string]struct {
		caller *identity.ID
		thread *string
	}{"all": {}, "a caller": {&callers[0], nil}, "a thread": {nil, &threads[0]}, "a thread of a caller": {&callers[0], &threads[0]}} {
		v := fresh(t)
		var made []vacants.Record
		for _, name := range []string{"sage", "other"} {
			r, err := v.Create(t.Context(), vacants.CreateSpec{Name: name, Capability: "knows", Substrate: "echo"})
			must(t, err)
			made = append(made, r)
		}
		must(t, errorOf(v.ForgetAnswers(t.Context(), made[0].ID, tt.caller, tt.thread)))
		for _, r := range made {
			for _, caller := range callers {
				for _, thread := range threads {
					until, err := v.ForgottenUntil(t.Context(), r.ID, caller, thread)
					want := r.ID == made[0].ID && (tt.caller == nil || caller == *tt.caller) && (tt.thread == nil || thread == *tt.thread)
					if err != nil || until.IsZero() == want {
						t.Errorf("after %s of sage is forgotten, thread %s of caller %d of %s is forgotten until %v, %v, want forgotten %t", name, thread, caller[0], r.Name, until, err, want)
					}
				}
			}
		}
	}
}
