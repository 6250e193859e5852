package integration

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/caller"
)

func TestAChainOfAHundredIsAnsweredInOrder(t *testing.T) {
	s := shared(t)
	p := s.pair(t, s.vacant(t))
	for i := range int64(100) {
		_, a := p.say(fmt.Sprintf("call %d", i+1))
		if a.Reply.Seq != i+1 {
			t.Fatalf("reply %d has seq %d", i+1, a.Reply.Seq)
		}
	}
	s.wholeOverHTTP(t)
}

// An envelope that does not fit is refused with its code, and the chain is
// unchanged.
func TestCallsOutOfOrderAreRefused(t *testing.T) {
	s := shared(t)
	p := s.pair(t, s.vacant(t))
	e, _ := p.say("one")
	p.say("two")

	old := caller.New(t, p.To) // the same key, from the beginning
	old.Key = p.Key
	fresh := old.Call("another first", time.Now())
	p.refused("a place that is taken, sent by other bytes", p.send(fresh), http.StatusConflict, "replay")
	old.Accepted(e)
	p.refused("the second place again", p.send(old.Call("another second", time.Now())), http.StatusConflict, "replay")

	ahead := p.Call("left out", time.Now())
	fork := old.Call("never sent", time.Now())
	p.Accepted(ahead)
	gap := p.Call("after a gap", time.Now())
	p.refused("a place too far", p.send(gap), http.StatusConflict, "gap")
	old.Accepted(fork)
	p.refused("the right place on another history", p.send(old.Call("forked", time.Now())), http.StatusConflict, "fork")

	forged := *ahead
	forged.Signature = append([]byte{}, ahead.Signature...)
	forged.Signature[3] ^= 1
	p.refused("a signature that is not the caller's", p.send(&forged), http.StatusUnauthorized, "bad_signature")

	if a := p.send(ahead); a.Status != http.StatusOK {
		t.Errorf("the call that fits: %v, want 200", a)
	}
	s.whole(t)
}

func TestUnknownVacantIsMisdirected(t *testing.T) {
	s := shared(t)
	nobody, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := s.pair(t, nobody.ID())
	a := p.send(p.Call("is anybody there", time.Now()))
	p.refused("a vacant that is nowhere", a, http.StatusMisdirectedRequest, "misdirected")

	// A hosted vacant, at the address of another.
	q := s.pair(t, s.vacant(t))
	a = q.post("/v/"+s.vacant(t).String()+caller.SendPath, q.Call("wrong handler", time.Now()))
	q.refused("a vacant at another's address", a, http.StatusMisdirectedRequest, "misdirected")
}

// New calls depend on the vacant's state. Earlier answers are returned to
// resends until the vacant is deleted.
func TestStatesRefuseCallsAndKeepAnswers(t *testing.T) {
	s := shared(t)
	p := s.pair(t, s.vacant(t))
	e, answered := p.say("while it was active")
	api := s.admin(t)
	change := func(command string, to op.Op[admin.One, admin.Vacant]) {
		t.Helper()
		if _, err := to.Call(t.Context(), api, admin.One{Vacant: p.To.String()}); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		s.forget()
	}
	for _, step := range []struct {
		command string
		to      op.Op[admin.One, admin.Vacant]
		status  int
		code    string
	}{
		{"pause", admin.PauseVacant, http.StatusLocked, "not_accepting"},
		{"resume", admin.ResumeVacant, http.StatusOK, ""},
		{"sink", admin.SinkVacant, http.StatusGone, "gone"},
		{"archive", admin.ArchiveVacant, http.StatusGone, "gone"},
	} {
		change(step.command, step.to)
		next := p.Call("after "+step.command, time.Now())
		a := p.send(next)
		if a.Status != step.status || a.Code != step.code {
			t.Errorf("after %s: %v, want %d %q", step.command, a, step.status, step.code)
		}
		if a.Status == http.StatusOK {
			p.Accepted(next)
		}
		again := p.send(e)
		if again.State != "answered" || string(again.Raw) != string(answered.Raw) {
			t.Errorf("the answered call again after %s: %v, want its answer", step.command, again)
		}
	}
	if _, exit := s.vacancy(t, "delete", p.To.String(), "--host", "aws", "--yes"); exit != 0 {
		t.Fatalf("delete of an archived vacant: exit %d", exit)
	}
	s.forget()
	if a := p.send(p.Call("to nobody", time.Now())); a.Status < 400 || a.Status >= 500 {
		t.Errorf("a call after delete: %v, want a refusal", a)
	}
	s.whole(t)
}

func TestAResetBeginsFreshAndTheOldAnswersStay(t *testing.T) {
	s := shared(t)
	p := s.pair(t, s.vacant(t))
	e, first := p.say("before")
	reset := p.Reset(time.Now())
	if a := p.send(reset); a.Status != http.StatusOK {
		t.Fatalf("reset: %v", a)
	}
	p.refused("the same reset again", p.send(reset), http.StatusConflict, "floor")
	p.Accepted(reset)
	if _, a := p.say("after"); a.Reply.Seq != 1 {
		t.Errorf("the first reply after a reset has seq %d, want 1", a.Reply.Seq)
	}
	if a := p.send(e); a.State != "answered" || string(a.Raw) != string(first.Raw) {
		t.Errorf("a call of the epoch before: %v, want its answer", a)
	}
	s.whole(t)
}

func TestTheSameBytesGetTheSameAnswerAndAskTellsTheState(t *testing.T) {
	s := shared(t)
	p := s.pair(t, s.vacant(t))
	unknown := p.Call("never sent", time.Now())
	if a := p.post(caller.AskPath, unknown); a.Status != http.StatusOK || a.State != "unknown" {
		t.Errorf("ask for what was never sent: %v, want unknown", a)
	}
	e, first := p.say("once")
	for range 3 {
		a := p.send(e)
		if a.Status != http.StatusConflict || a.State != "answered" || string(a.Raw) != string(first.Raw) {
			t.Errorf("sent again: %v, want 409 with the answer of the first time", a)
		}
	}
	if a := p.post(caller.AskPath, e); a.Status != http.StatusOK || a.State != "answered" || string(a.Raw) != string(first.Raw) {
		t.Errorf("asked: %v, want 200 with the answer", a)
	}
	s.whole(t)
}
