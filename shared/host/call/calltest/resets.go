package calltest

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// resets covers resets and races with resets.
var resets = []fact{
	{"a reset on an empty stream begins epoch 1", resetEmpty},
	{"a reset must be signed later than the previous reset", resetChain},
	{"a replayed reset is refused in every later epoch", resetReplayed},
	{"a reset that loses its position to a call is checked again", resetLosesToCall},
	{"a call that loses its position to a reset is refused", callLosesToReset},
	{"a reset of unknown outcome is retried at its own position", resetUnacked},
	{"of two resets signed at the same time one is accepted", resetTwins},
	{"a call that continues the old epoch is refused in the new epoch", oldContinuation},
	{"the late answer of a closed epoch is not written", lateOfClosed},
	{"a void of the new epoch neither decides an old call nor uses a number", voidAcrossEpochs},
	{"a reset is accepted for a sleeping vacant, not for a sunk or archived one", resetStates},
	{"reset checks are made in the order that the protocol fixes", resetRefusals},
}

func resetEmpty(s *scene) {
	old := s.sign(nil, "signed before", s.clock.NowFunc(0)().Add(-time.Second))
	r := s.reset()
	out := s.resetAt(s.a, r)
	s.wantAnswer(out, r)
	if !out.ResetAt.Equal(s.clock.NowFunc(0)()) || out.Position != 1 {
		s.t.Fatalf("ResetAt = %v, Position = %d", out.ResetAt, out.Position)
	}
	s.wantRefusal(s.send(s.b, old), problem.Floor, "")
	e := s.sign(nil, "signed after", r.Time.Add(time.Microsecond))
	s.wantAnswer(s.send(s.b, e), e)
	s.wantRows("reset, call | answer 2")
}

func resetChain(s *scene) {
	r := s.reset()
	s.wantAnswer(s.resetAt(s.a, r), r)
	s.wantRefusal(s.resetAt(s.b, s.sign(nil, envelope.ResetText, r.Time)), problem.Floor, "")
	for range 3 {
		r = s.sign(nil, envelope.ResetText, r.Time.Add(time.Microsecond))
		r.Seq, r.Prev[0] = 77, 1 // meaningless in a reset
		s.wantAnswer(s.resetAt(s.b, s.resign(r)), r)
	}
	s.wantRows("reset, reset, reset, reset | none")
}

func resetReplayed(s *scene) {
	var used []*envelope.Envelope
	for range 3 {
		r := s.reset()
		s.wantAnswer(s.resetAt(s.a, r), r)
		used = append(used, r)
		s.clock.Advance(time.Second)
		e := s.call(nil, "hi")
		s.wantAnswer(s.send(s.b, e), e)
		s.clock.Advance(time.Second)
		for _, r := range used {
			s.wantRefusal(s.resetAt(s.a, r), problem.Floor, "")
			s.wantRefusal(s.resetAt(s.b, r), problem.Floor, "")
			s.wantRefusal(s.send(s.a, r), problem.Replay, "")
		}
	}
}

func resetLosesToCall(s *scene) {
	r := s.reset()
	s.clock.Advance(time.Second)
	e := s.call(nil, "hi") // signed after the reset
	s.store.Next("Commit req", After(func() { s.wantAnswer(s.send(s.b, e), e) }))
	s.wantRefusal(s.resetAt(s.a, r), problem.Floor, "")
	s.clock.Advance(time.Second)
	r = s.reset()
	next := s.call(e, "next")
	s.store.Next("Commit req", After(func() { s.wantAnswer(s.send(s.b, next), next) }))
	s.wantRefusal(s.resetAt(s.a, r), problem.Floor, "") // signed no later than next
	s.clock.Advance(time.Second)
	r = s.reset()
	third := s.sign(next, "signed before", r.Time.Add(-time.Microsecond))
	s.store.Next("Commit req", After(func() { s.wantAnswer(s.send(s.b, third), third) }))
	s.wantAnswer(s.resetAt(s.a, r), r) // at the second try, one position later
	s.wantRows("call, call, call, reset | answer 1, answer 2, answer 3")
}

func callLosesToReset(s *scene) {
	e := s.call(nil, "hi")
	s.wantAnswer(s.send(s.a, e), e)
	s.clock.Advance(time.Second)
	next := s.call(e, "next")
	r := s.reset()
	s.store.Next("Commit req", After(func() { s.wantAnswer(s.resetAt(s.b, r), r) }))
	out := s.send(s.a, next)
	s.wantRefusal(out, problem.Gap, "")
	s.chain(out, nil)
	s.wantRuns(next, 0)
	s.wantRows("call, reset | answer 1")
}

func resetUnacked(s *scene) {
	r := s.reset()
	s.store.Next("Commit req", LoseAck, NotApplied, LoseAck)
	s.wantAnswer(s.resetAt(s.a, r), r)
	s.wantRows("reset | none")
	r = s.sign(nil, envelope.ResetText, r.Time.Add(time.Second))
	s.store.Next("Commit req", Repeat(LoseAck, 6)...)
	s.wantRefusal(s.resetAt(s.a, r), problem.Unavailable, "")
	s.wantRefusal(s.resetAt(s.a, r), problem.Floor, "") // stored, and replaced by a newer reset
	s.wantRows("reset, reset | none")
}

func resetTwins(s *scene) {
	first := s.reset()
	two := s.reset()
	two.IdempotencyKey = "another device"
	s.resign(two)
	s.store.Next("Commit req", After(func() { s.wantAnswer(s.resetAt(s.b, two), two) }))
	s.wantRefusal(s.resetAt(s.a, first), problem.Floor, "")
	s.wantRows("reset | none")
}

func oldContinuation(s *scene) {
	e := s.call(nil, "hi")
	s.wantAnswer(s.send(s.a, e), e)
	s.clock.Advance(time.Second)
	r := s.reset()
	s.wantAnswer(s.resetAt(s.b, r), r)
	s.clock.Advance(time.Second)
	old := s.call(e, "continues the old epoch")
	out := s.send(s.a, old) // host a has cached the old tip, and the position is taken
	s.wantRefusal(out, problem.Gap, "")
	s.chain(out, nil)
	first := s.call(nil, "begins the new one")
	s.wantAnswer(s.send(s.a, first), first)
	out = s.send(s.b, old) // its seq fits now, but its prev does not
	s.wantRefusal(out, problem.Fork, "")
	s.chain(out, first)
	s.wantRuns(old, 0)
	s.wantRows("call, reset, call | answer 1, answer 3")
}

func lateOfClosed(s *scene) {
	old := s.call(nil, "slow")
	x := s.start(s.a, old)
	var late Delayed
	s.clock.Advance(time.Second)
	r := s.reset()
	s.wantAnswer(s.resetAt(s.b, r), r)
	s.clock.Advance(time.Second)
	next := s.call(nil, "new")
	// The answer is sent but arrives after the answer of the new epoch.
	s.store.Next("Commit rsp", late.Step, After(func() { s.wantAnswer(s.send(s.b, next), next) }))
	s.wantRefusal(x.finish(), problem.Deadline, call.Unanswered)
	if err := late.Land(s.ctx); err == nil {
		s.t.Fatal("the late answer was written at a taken position")
	}
	s.wantState(s.ask(s.a, old), call.Unanswered, nil)
	s.wantRows("call, reset, call | answer 3")
}

func voidAcrossEpochs(s *scene) {
	s.act("bad", failWithError)
	e := s.call(nil, "one")
	s.wantAnswer(s.send(s.a, e), e)
	bad := s.call(e, "slow")
	x := s.start(s.a, bad)
	s.clock.Advance(time.Second)
	r := s.reset()
	s.wantAnswer(s.resetAt(s.b, r), r)
	s.clock.Advance(time.Second)
	failed := s.call(nil, "bad")
	s.wantRefusal(s.send(s.b, failed), problem.BehaviourFailed, call.Unanswered)
	s.wantRows("call, call, reset, call | answer 1, void 4")
	reply := s.wantAnswer(x.finish(), bad) // a void of the new epoch does not decide it
	if reply.Seq != 2 {
		s.t.Fatalf("Seq = %d, want 2", reply.Seq)
	}
	next := s.call(failed, "two")
	if reply := s.wantAnswer(s.send(s.a, next), next); reply.Seq != 1 {
		s.t.Fatalf("Seq = %d, want 1", reply.Seq)
	}
	s.wantRows("call, call, reset, call, call | answer 1, void 4, answer 2, answer 5")
}

func resetStates(s *scene) {
	for _, st := range []lifecycle.State{lifecycle.Hibernating, lifecycle.Stale} {
		s.state(st)
		s.clock.Advance(2 * time.Second)
		r := s.reset()
		s.wantAnswer(s.resetAt(s.a, r), r)
	}
	for _, st := range []lifecycle.State{lifecycle.Sunk, lifecycle.Archived} {
		s.state(st)
		s.clock.Advance(2 * time.Second)
		out := s.resetAt(s.a, s.reset())
		s.wantRefusal(out, problem.Gone, "")
		s.chain(out, nil)
	}
	s.wantRows("reset, reset | none")
}

// Each envelope has the defect that is expected to be refused and all defects that are checked later.
func resetRefusals(s *scene) {
	s.state(lifecycle.Sunk)
	stranger := s.key().ID()
	e := s.call(nil, "not a reset")
	e.Time = e.Time.Add(-time.Hour)
	e.To = stranger
	s.resign(e)
	forged := *e
	forged.IdempotencyKey = "changed after signing"
	s.wantRefusal(s.resetAt(s.a, &forged), problem.BadSignature, "")
	s.wantRefusal(s.resetAt(s.a, e), problem.Malformed, "")
	e.Payload.Parts = []string{envelope.ResetText}
	out := s.resetAt(s.a, s.resign(e))
	s.wantRefusal(out, problem.Clock, "")
	s.chain(out, nil)
	if now := s.clock.NowFunc(0)(); !out.Now.Equal(now) {
		s.t.Fatalf("Now = %v, want the host's clock %v", out.Now, now)
	}
	e.Time = e.Time.Add(time.Hour)
	s.wantRefusal(s.resetAt(s.a, s.resign(e)), problem.NotAddressed, "")
	s.wantRefusal(s.a.Reset(s.ctx, s.pair.Vacant, e), problem.NotAddressed, "")
	e.To = s.pair.Vacant
	s.wantRefusal(s.resetAt(s.a, s.resign(e)), problem.Gone, "")
	e.To = s.pair.Caller
	s.wantRefusal(s.resetAt(s.a, s.resign(e)), problem.Malformed, "") // sender and recipient are the same
	s.wantRows("none | none")
}
