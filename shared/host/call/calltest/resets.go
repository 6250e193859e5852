package calltest

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// resetTests covers resets and races with resets.
var resetTests = []contractTest{
	{"a reset on an empty stream begins epoch 1", testResetOfEmptyStream},
	{"a reset must be signed later than the previous reset", testSuccessiveResets},
	{"a replayed reset is refused in every later epoch", testReplayedReset},
	{"a reset that loses its position to a call is checked again", testResetLosesToCall},
	{"a call that loses its position to a reset is refused", testCallLosesToReset},
	{"a reset of unknown outcome is retried at its own position", testUnacknowledgedReset},
	{"of two resets signed at the same time one is accepted", testSimultaneousResets},
	{"a call that continues the old epoch is refused in the new epoch", testCallOfOldEpoch},
	{"the late answer of a closed epoch is not written", testLateAnswerOfClosedEpoch},
	{"a void of the new epoch neither decides an old call nor uses a number", testVoidOfNewEpoch},
	{"a reset is accepted for a sleeping vacant, not for a sunk or archived one", testResetByState},
	{"reset checks are made in the order that the protocol fixes", testResetRefusals},
}

func testResetOfEmptyStream(s *scene) {
	earlierCall := s.signAt(nil, "signed before", s.clock.NowFunc(0)().Add(-time.Second))
	r := s.signReset()
	out := s.sendReset(s.hostA, r)
	s.wantAnswer(out, r)
	if !out.ResetAt.Equal(s.clock.NowFunc(0)()) || out.Position != 1 {
		s.t.Fatalf("ResetAt = %v, Position = %d", out.ResetAt, out.Position)
	}
	s.wantRefusal(s.send(s.hostB, earlierCall), problem.BelowFloor, "")
	e := s.signAt(nil, "signed after", r.Time.Add(time.Microsecond))
	s.wantAnswer(s.send(s.hostB, e), e)
	s.wantRows("reset, call | answer 2")
}

func testSuccessiveResets(s *scene) {
	r := s.signReset()
	s.wantAnswer(s.sendReset(s.hostA, r), r)
	s.wantRefusal(s.sendReset(s.hostB, s.signAt(nil, envelope.ResetText, r.Time)), problem.BelowFloor, "")
	for range 3 {
		r = s.signAt(nil, envelope.ResetText, r.Time.Add(time.Microsecond))
		r.Seq, r.Prev[0] = 77, 1 // meaningless in a reset
		s.wantAnswer(s.sendReset(s.hostB, s.signAgain(r)), r)
	}
	s.wantRows("reset, reset, reset, reset | none")
}

func testReplayedReset(s *scene) {
	var accepted []*envelope.Envelope
	for range 3 {
		r := s.signReset()
		s.wantAnswer(s.sendReset(s.hostA, r), r)
		accepted = append(accepted, r)
		s.clock.Advance(time.Second)
		e := s.signCall(nil, "hi")
		s.wantAnswer(s.send(s.hostB, e), e)
		s.clock.Advance(time.Second)
		for _, r := range accepted {
			s.wantRefusal(s.sendReset(s.hostA, r), problem.BelowFloor, "")
			s.wantRefusal(s.sendReset(s.hostB, r), problem.BelowFloor, "")
			s.wantRefusal(s.send(s.hostA, r), problem.Replay, "")
		}
	}
}

func testResetLosesToCall(s *scene) {
	r := s.signReset()
	s.clock.Advance(time.Second)
	e := s.signCall(nil, "hi") // signed after the reset
	s.store.PrepareNext("Commit req", CallAfter(func() { s.wantAnswer(s.send(s.hostB, e), e) }))
	s.wantRefusal(s.sendReset(s.hostA, r), problem.BelowFloor, "")
	s.clock.Advance(time.Second)
	r = s.signReset()
	next := s.signCall(e, "next")
	s.store.PrepareNext("Commit req", CallAfter(func() { s.wantAnswer(s.send(s.hostB, next), next) }))
	s.wantRefusal(s.sendReset(s.hostA, r), problem.BelowFloor, "") // signed no later than next
	s.clock.Advance(time.Second)
	r = s.signReset()
	third := s.signAt(next, "signed before", r.Time.Add(-time.Microsecond))
	s.store.PrepareNext("Commit req", CallAfter(func() { s.wantAnswer(s.send(s.hostB, third), third) }))
	s.wantAnswer(s.sendReset(s.hostA, r), r) // at the second try, one position later
	s.wantRows("call, call, call, reset | answer 1, answer 2, answer 3")
}

func testCallLosesToReset(s *scene) {
	e := s.signCall(nil, "hi")
	s.wantAnswer(s.send(s.hostA, e), e)
	s.clock.Advance(time.Second)
	next := s.signCall(e, "next")
	r := s.signReset()
	s.store.PrepareNext("Commit req", CallAfter(func() { s.wantAnswer(s.sendReset(s.hostB, r), r) }))
	out := s.send(s.hostA, next)
	s.wantRefusal(out, problem.Gap, "")
	s.wantChainTip(out, nil)
	s.wantRuns(next, 0)
	s.wantRows("call, reset | answer 1")
}

func testUnacknowledgedReset(s *scene) {
	r := s.signReset()
	s.store.PrepareNext("Commit req", LoseAck, LoseRequest, LoseAck)
	s.wantAnswer(s.sendReset(s.hostA, r), r)
	s.wantRows("reset | none")
	r = s.signAt(nil, envelope.ResetText, r.Time.Add(time.Second))
	s.store.PrepareNext("Commit req", Repeat(LoseAck, 6)...)
	s.wantRefusal(s.sendReset(s.hostA, r), problem.Unavailable, "")
	s.wantRefusal(s.sendReset(s.hostA, r), problem.BelowFloor, "") // r was stored, so its time is the floor
	s.wantRows("reset, reset | none")
}

func testSimultaneousResets(s *scene) {
	first := s.signReset()
	second := s.signReset()
	second.IdempotencyKey = "another device"
	s.signAgain(second)
	s.store.PrepareNext("Commit req", CallAfter(func() { s.wantAnswer(s.sendReset(s.hostB, second), second) }))
	s.wantRefusal(s.sendReset(s.hostA, first), problem.BelowFloor, "")
	s.wantRows("reset | none")
}

func testCallOfOldEpoch(s *scene) {
	e := s.signCall(nil, "hi")
	s.wantAnswer(s.send(s.hostA, e), e)
	s.clock.Advance(time.Second)
	r := s.signReset()
	s.wantAnswer(s.sendReset(s.hostB, r), r)
	s.clock.Advance(time.Second)
	oldCall := s.signCall(e, "continues the old epoch")
	out := s.send(s.hostA, oldCall) // host a has cached the old tip, and the position is taken
	s.wantRefusal(out, problem.Gap, "")
	s.wantChainTip(out, nil)
	first := s.signCall(nil, "begins the new one")
	s.wantAnswer(s.send(s.hostA, first), first)
	out = s.send(s.hostB, oldCall) // its seq fits now, but its prev does not
	s.wantRefusal(out, problem.Fork, "")
	s.wantChainTip(out, first)
	s.wantRuns(oldCall, 0)
	s.wantRows("call, reset, call | answer 1, answer 3")
}

func testLateAnswerOfClosedEpoch(s *scene) {
	oldCall := s.signCall(nil, "slow")
	pending := s.startCall(s.hostA, oldCall)
	var delayed Delayed
	s.clock.Advance(time.Second)
	r := s.signReset()
	s.wantAnswer(s.sendReset(s.hostB, r), r)
	s.clock.Advance(time.Second)
	next := s.signCall(nil, "new")
	// The write of the old answer reaches the store after the answer of the new epoch.
	s.store.PrepareNext("Commit rsp", delayed.Step, CallAfter(func() { s.wantAnswer(s.send(s.hostB, next), next) }))
	s.wantRefusal(pending.finish(), problem.DeadlineExceeded, call.Unanswered)
	if err := delayed.Apply(s.ctx); err == nil {
		s.t.Fatal("the late answer was written at a taken position")
	}
	s.wantState(s.ask(s.hostA, oldCall), call.Unanswered, nil)
	s.wantRows("call, reset, call | answer 3")
}

func testVoidOfNewEpoch(s *scene) {
	s.setBehaviour("bad", failWithError)
	e := s.signCall(nil, "one")
	s.wantAnswer(s.send(s.hostA, e), e)
	slowCall := s.signCall(e, "slow")
	pending := s.startCall(s.hostA, slowCall)
	s.clock.Advance(time.Second)
	r := s.signReset()
	s.wantAnswer(s.sendReset(s.hostB, r), r)
	s.clock.Advance(time.Second)
	failedCall := s.signCall(nil, "bad")
	s.wantRefusal(s.send(s.hostB, failedCall), problem.BehaviourFailed, call.Unanswered)
	s.wantRows("call, call, reset, call | answer 1, void 4")
	reply := s.wantAnswer(pending.finish(), slowCall) // the void is of the new epoch and does not decide slowCall
	if reply.Seq != 2 {
		s.t.Fatalf("Seq = %d, want 2", reply.Seq)
	}
	next := s.signCall(failedCall, "two")
	if reply := s.wantAnswer(s.send(s.hostA, next), next); reply.Seq != 1 {
		s.t.Fatalf("Seq = %d, want 1", reply.Seq)
	}
	s.wantRows("call, call, reset, call, call | answer 1, void 4, answer 2, answer 5")
}

func testResetByState(s *scene) {
	for _, st := range []lifecycle.State{lifecycle.Hibernating, lifecycle.Stale} {
		s.setVacantState(st)
		s.clock.Advance(2 * time.Second)
		r := s.signReset()
		s.wantAnswer(s.sendReset(s.hostA, r), r)
	}
	for _, st := range []lifecycle.State{lifecycle.Sunk, lifecycle.Archived} {
		s.setVacantState(st)
		s.clock.Advance(2 * time.Second)
		out := s.sendReset(s.hostA, s.signReset())
		s.wantRefusal(out, problem.Gone, "")
		s.wantChainTip(out, nil)
	}
	s.wantRows("reset, reset | none")
}

// Each envelope has several defects. The host must report the defect that it checks first.
func testResetRefusals(s *scene) {
	s.setVacantState(lifecycle.Sunk)
	stranger := s.newKey().ID()
	e := s.signCall(nil, "not a reset")
	e.Time = e.Time.Add(-time.Hour)
	e.To = stranger
	s.signAgain(e)
	forged := *e
	forged.IdempotencyKey = "changed after signing"
	s.wantRefusal(s.sendReset(s.hostA, &forged), problem.BadSignature, "")
	s.wantRefusal(s.sendReset(s.hostA, e), problem.Malformed, "")
	e.Payload.Parts = []string{envelope.ResetText}
	out := s.sendReset(s.hostA, s.signAgain(e))
	s.wantRefusal(out, problem.ClockSkew, "")
	s.wantChainTip(out, nil)
	if now := s.clock.NowFunc(0)(); !out.HostTime.Equal(now) {
		s.t.Fatalf("HostTime = %v, want the host's clock %v", out.HostTime, now)
	}
	e.Time = e.Time.Add(time.Hour)
	s.wantRefusal(s.sendReset(s.hostA, s.signAgain(e)), problem.NotAddressed, "")
	s.wantRefusal(s.hostA.Reset(s.ctx, s.pair.Vacant, e), problem.NotAddressed, "")
	e.To = s.pair.Vacant
	s.wantRefusal(s.sendReset(s.hostA, s.signAgain(e)), problem.Gone, "")
	e.To = s.pair.Caller
	s.wantRefusal(s.sendReset(s.hostA, s.signAgain(e)), problem.Malformed, "") // sender and recipient are the same
	s.wantRows("none | none")
}
