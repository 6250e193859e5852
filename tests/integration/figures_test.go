package integration

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/admin"
)

// The figures of PROTOCOL §6, as the deployed function counts them: two write
// units for a call; three round trips with empty caches, two when the pair is
// cached.
func TestACallCostsTwoWritesAndAtMostThreeRoundTrips(t *testing.T) {
	s := shared(t)
	p := s.pair(t, s.vacant(t))
	s.kill(t, "message")
	began := time.Now().Add(-time.Second)
	for _, text := range []string{"cold", "warm", "warmer"} {
		p.say(text)
	}
	all := of(p, s.lines(t, "message", began, func(all []line) bool { return len(of(p, all)) == 3 }))
	for i, want := range []struct {
		trips int
		cold  bool
	}{{3, true}, {2, false}, {2, false}} {
		l := all[i]
		if l.WCU != 2 || l.Trips != want.trips || l.Cold != want.cold || l.Status != 200 || l.Seq != int64(i+1) {
			t.Errorf("call %d: %s; want 2 write units, %d round trips, cold %t", i+1, l.raw, want.trips, want.cold)
		}
		if l.EMF == nil || l.Request == "" {
			t.Errorf("call %d: %s; want a metrics block and the request's id", i+1, l.raw)
		}
	}
	t.Logf("cold: %s", all[0].raw)
	t.Logf("warm: %s", all[1].raw)
}

// A function is stopped between two calls and cannot measure the time in
// between: its caches have expired.
func TestAFrozenFunctionForgetsWhatIsOld(t *testing.T) {
	s := shared(t)
	p := s.pair(t, s.vacant(t))
	s.kill(t, "message")
	p.say("the state is remembered now")
	frozen := 0
	all, err := s.aws.Instances(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if i.Function == s.function("message") && i.PID > 0 && state(t, i.PID) == "T" {
			frozen++
		}
	}
	if frozen == 0 {
		t.Errorf("no process of the function is stopped, of %+v", all)
	}
	if _, err := admin.PauseVacant.Call(t.Context(), s.admin(t), admin.One{Vacant: p.To.String()}); err != nil {
		t.Fatal(err)
	}
	s.forget()
	p.refused("a call after the freeze", p.send(p.Call("is it awake", time.Now())), 423, "not_accepting")
	if _, err := admin.ResumeVacant.Call(t.Context(), s.admin(t), admin.One{Vacant: p.To.String()}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Second) // longer than some keep idle connections
	p.say("after a longer one")
}

// state is the letter of a process's state: T is stopped.
func state(t *testing.T, pid int) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-o", "state=", "-p", fmt.Sprint(pid)).Output()
	if err != nil || len(out) == 0 {
		t.Fatalf("ps: %v", err)
	}
	return string(out[:1])
}
