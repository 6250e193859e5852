package integration

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/admin"
)

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
	if _, err := admin.PauseVacant.Call(t.Context(), s.admin(t), admin.VacantRef{Vacant: p.To.String()}); err != nil {
		t.Fatal(err)
	}
	s.forget()
	p.refused("a call after the freeze", p.send(p.Call("is it awake", time.Now())), 423, "not_accepting")
	if _, err := admin.ResumeVacant.Call(t.Context(), s.admin(t), admin.VacantRef{Vacant: p.To.String()}); err != nil {
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
