package vacants_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The index lists open vacants as their records say. The next start lists the
// open vacants of an earlier release.
func TestOpenVacantsAreListedAsTheirRecordsSay(t *testing.T) {
	s, va, at := memory.New(), vault(t), newClock()
	opened := func(v *vacants.Directory) []identity.ID {
		t.Helper()
		ids, err := v.Open(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	want := func(what string, want ...identity.ID) {
		t.Helper()
		if diff := cmp.Diff(want, opened(host(t, s, va, at.now, hostURL))); diff != "" {
			t.Errorf("%s: open vacants (-want +got):\n%s", what, diff)
		}
	}
	v := host(t, s, va, at.now, hostURL)
	want("none")
	a, b := create(t, v, "a"), create(t, v, "b")
	want("created", a.ID, b.ID)
	if _, err := v.Pause(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	want("paused", a.ID, b.ID)
	if _, err := v.Sink(t.Context(), b.ID); err != nil {
		t.Fatal(err)
	}
	want("sunk", a.ID)
}
