package vacants_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

func TestAHostBackFromABackupRefusesWhatWasSignedUntilThen(t *testing.T) {
	s, va, c := memory.New(), vault(t), newClock()
	v := host(t, s, va, c.now, hostURL)
	open, closed := create(t, v, "open"), create(t, v, "closed")
	do(t, v, closed.ID, "sink")
	if all, err := v.RaiseFloors(t.Context()); all.Vacants != 1 || !all.LatestFloor.Equal(c.now().Add(call.MaxSkew)) || err != nil {
		t.Fatalf("RaiseFloors() = %+v, %v, want the one that is open", all, err)
	}
	ahead := c.now().Add(call.MaxSkew)
	now := canon.FormatTime(ahead)
	want := []string{`GENESIS {"name":"open","vacant_id":"` + open.ID.String() + `"}`, `RESTORED {"signed_after":"` + now + `"}`}
	if diff := cmp.Diff(want, story(t, v, open.ID)); diff != "" {
		t.Errorf("logbook (-want +got):\n%s", diff)
	}
	if n := len(log(t, v, closed.ID)); n != 2 {
		t.Errorf("the closed one has %d entries, want 2 as before", n)
	}
	// Another instance over the same store knows it too.
	got, ok, err := answering(host(t, s, va, c.now, hostURL)).Vacant(t.Context(), open.ID, true)
	if err != nil || !ok || !got.Floor.Equal(ahead) {
		t.Errorf("Vacant() = floor %v, %t, %v, want floor %s", got.Floor, ok, err, now)
	}
}

func TestOnlyAVacantFromElsewhereHasAFloorFromTheStart(t *testing.T) {
	c := newClock()
	v := host(t, memory.New(), vault(t), c.now, hostURL)
	if r := create(t, v, "new"); !r.Floor.IsZero() {
		t.Errorf("a new vacant's floor = %v, want none", r.Floor)
	}
	r, err := v.Create(t.Context(), vacants.CreateSpec{Name: "moved", Capability: "c", Substrate: "echo", Key: newKey(t)})
	if err != nil || !r.Floor.Equal(c.now().Add(call.MaxSkew)) {
		t.Errorf("Create() with a key = floor %v, %v, want %v", r.Floor, err, c.now().Add(call.MaxSkew))
	}
}
