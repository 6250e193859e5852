package registry_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

func TestRereadIsTheReadingOfBeforeUntilTheStoreSaysOtherwise(t *testing.T) {
	r, k := open(memory.New(), newClock()), key(1)
	before, err := r.Reread(t.Context(), k.ID(), nil)
	if err != nil || before.Registered {
		t.Fatalf("Reread() of nobody = %+v, %v, want one not registered", before, err)
	}
	mustPublish(t, r, k, draft{})
	first, err := r.Reread(t.Context(), k.ID(), before)
	if err != nil || first == before || !first.Registered {
		t.Fatalf("Reread() after a publish = %+v, %v, want the registration", first, err)
	}
	if diff := cmp.Diff(get(t, r, k.ID()), first.Registration, asKept); diff != "" {
		t.Errorf("Reread() (-Get +Reread):\n%s", diff)
	}
	if again, err := r.Reread(t.Context(), k.ID(), first); again != first || err != nil {
		t.Errorf("Reread() of what is unchanged = %p, %v, want the very reading %p", again, err, first)
	}
	if other, err := r.Reread(t.Context(), key(2).ID(), first); err != nil || other.Registered {
		t.Errorf("Reread() of another id = %+v, %v, want one not registered", other, err)
	}
	mustPublish(t, r, k, draft{Seq: 2, Visibility: lifecycle.Hidden})
	hidden, err := r.Reread(t.Context(), k.ID(), first)
	if err != nil || hidden.Registration.Visibility != lifecycle.Hidden {
		t.Errorf("Reread() of what was hidden = %+v, %v, want it hidden", hidden, err)
	}
	if first.Registration.Visibility != lifecycle.Public {
		t.Error("the reading of before was written into")
	}
}
