package calltest

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// modelDefectTests covers the defects (holes) that model checking found in the first draft of the
// design.
var modelDefectTests = []contractTest{
	{"Hole01_an answer write of unknown outcome is retried at its own position", testHole01},
	{"Hole01_an accept of unknown outcome is retried at its own position", testHole01Accept},
	{"Hole01_an answer of unknown outcome is not sent, and a resend finds it", testHole01UnknownOutcome},
	{"Hole02_a late answer finds the void", testHole02VoidFirst},
	{"Hole02_a void finds the late answer", testHole02AnswerFirst},
	{"Hole02_all rows since the accept are read before a void", testHole02Between},
	{"Hole03_state unanswered is reported only after its row is written", testHole03},
	{"Hole04_a refund is committed with its void row", testHole04},
	{"Hole04_a failed call is refunded once, whichever host voids it", testHole04Race},
	{"Hole05_no answer is written after an answer of a newer epoch", testHole05},
	{"Hole05_a priced call of a closed epoch is voided and refunded", testHole05PricedCall},
	{"Hole05_a reset without a later answer does not close the old epoch", testHole05ResetAlone},
	{"Hole06_a call signed before a reset is refused after it", testHole06Call},
	{"Hole06_a reset is accepted once", testHole06Reset},
	{"Hole06_a call signed in year 1 does not lower the floor", testHole06Year1},
	{"Hole07_an envelope signed more than 300 s in the future is refused", testHole07},
	{"Hole08_a refusal for payment reports a call that was already charged", testHole08Balance},
	{"Hole08_a refusal because of the vacant's state reports an accepted call", testHole08State},
	{"Hole09_the tip names the accepted envelope with the same number", testHole09},
	{"Hole10_an answer is found across a reset", testHole10},
	{"Hole10_seven epochs back are searched, the eighth is too old", testHole10TooOld},
	{"Hole11_an ask never runs a behaviour", testHole11},
	{"Hole12_a valid reset is refused on the call route", testHole12},
	{"Hole13_an answer is refused as a request", testHole13},
	{"Hole14_a call is never refused because of a cached tip", testHole14},
	{"Hole14_a cached state is read again before a refusal", testHole14State},
	{"Hole15_an answer is sent only after its row is written", testHole15},
	{"Hole15_two answers in a race have two numbers", testHole15Race},
}

// The answer is stored, but the acknowledgement is lost. The host must not mistake its own row for
// the row of another host.
func testHole01(s *scene) {
	e := s.signCall(nil, "hi")
	s.store.PrepareNext("Commit rsp", LoseAck, LoseAck)
	first := s.wantAnswer(s.send(s.hostA, e), e)
	s.wantRows("call | answer 1")
	s.wantState(s.send(s.hostB, e), call.Answered, first)
}

func testHole01Accept(s *scene) {
	e := s.signCall(nil, "hi")
	s.store.PrepareNext("Commit req", LoseAck, LoseRequest, LoseAck)
	s.wantAnswer(s.send(s.hostA, e), e)
	s.wantRuns(e, 1)
	s.wantRows("call | answer 1")
}

func testHole01UnknownOutcome(s *scene) {
	e := s.signCall(nil, "hi")
	s.store.PrepareNext("Commit rsp", Repeat(LoseAck, 6)...)
	s.wantRefusal(s.send(s.hostA, e), problem.Unavailable, "")
	out := s.send(s.hostB, e)
	s.wantRefusal(out, problem.Replay, call.Answered)
	s.wantSignedReply(out.Reply, e)
	s.wantRuns(e, 1)
}

// A void at position 1 and a late answer at position 2 must not both decide one request.
func testHole02VoidFirst(s *scene) {
	e := s.signCall(nil, "slow")
	pending := s.startCall(s.hostA, e)
	s.clock.Advance(voidDelay + time.Second)
	s.wantRefusal(s.send(s.hostB, e), problem.Replay, call.Unanswered)
	out := pending.finish()
	s.wantRefusal(out, problem.DeadlineExceeded, call.Unanswered)
	s.wantChainTip(out, e)
	s.wantRows("call | void 1")
	s.wantState(s.ask(s.hostA, e), call.Unanswered, nil)
}

func testHole02AnswerFirst(s *scene) {
	e := s.signCall(nil, "slow")
	pending := s.startCall(s.hostA, e)
	s.clock.Advance(voidDelay + time.Second)
	var late call.Outcome
	s.store.PrepareNext("Commit rsp", CallAfter(func() { late = pending.finish() })) // before the void is written
	out := s.send(s.hostB, e)
	s.wantState(out, call.Answered, s.wantAnswer(late, e))
	s.wantRows("call | answer 1")
}

// Two later calls are answered before the first. A resend of the first must read past their rows.
func testHole02Between(s *scene) {
	first := s.signCall(nil, "slow")
	pending := s.startCall(s.hostA, first)
	second := s.signCall(first, "quick")
	s.wantAnswer(s.send(s.hostB, second), second)
	third := s.signCall(second, "quicker")
	s.wantAnswer(s.send(s.hostB, third), third)
	reply := s.wantAnswer(pending.finish(), first)
	s.clock.Advance(voidDelay + time.Second)
	s.wantState(s.send(s.hostB, first), call.Answered, reply)
	s.wantRows("call, call, call | answer 2, answer 3, answer 1")
	if reply.Seq != 3 {
		s.t.Fatalf("Seq = %d, want 3: numbers follow the order of the answers", reply.Seq)
	}
}

// A passed deadline does not decide a request. Only a row may decide it.
func testHole03(s *scene) {
	e := s.signCall(nil, "slow")
	pending := s.startCall(s.hostA, e)
	s.clock.Advance(voidDelay)
	s.wantRefusal(s.send(s.hostB, e), problem.Replay, call.Pending)
	s.wantState(s.ask(s.hostB, e), call.Pending, nil)
	s.clock.Advance(time.Second)
	s.store.PrepareNext("Commit rsp", Repeat(LoseRequest, 6)...) // the void cannot be written
	s.wantRefusal(s.send(s.hostB, e), problem.Unavailable, "")
	s.store.PrepareNext("Commit rsp", Repeat(LoseRequest, 6)...)
	s.wantRefusal(s.ask(s.hostB, e), problem.Unavailable, "")
	reply := s.wantAnswer(pending.finish(), e)
	s.wantState(s.send(s.hostB, e), call.Answered, reply)
}

// If the refund and its row were separate commits, the call would be refunded twice when the row is
// lost or retried.
func testHole04(s *scene) {
	s.useLedger(30)
	e := s.signCall(nil, "slow")
	pending := s.startCall(s.hostA, e)
	s.wantBalance(20)
	s.clock.Advance(voidDelay + time.Second)
	s.store.PrepareNext("Commit rsp", LoseAck, LoseRequest, CallTwice)
	s.wantRefusal(s.send(s.hostB, e), problem.Replay, call.Unanswered)
	s.wantBalance(30)
	s.wantRefusal(pending.finish(), problem.DeadlineExceeded, call.Unanswered)
	remaining, err := s.ledger.Sweep(s.ctx, s.hostA, s.pair.Caller)
	s.must(err)
	s.wantBalance(30)
	if remaining != 0 {
		s.t.Fatalf("Sweep() leaves %d reminders, want 0", remaining)
	}
}

func testHole04Race(s *scene) {
	s.useLedger(30)
	e := s.signCall(nil, "bad")
	s.setBehaviour("bad", failWithError)
	// While the executor voids the failed call, the sweeper of a host with a fast clock has already
	// voided it.
	fastHost := s.newHost(time.Hour)
	s.store.PrepareNext("Commit rsp", CallAfter(func() {
		remaining, err := s.ledger.Sweep(s.ctx, fastHost, s.pair.Caller)
		s.must(err)
		if remaining != 0 {
			s.t.Errorf("Sweep() leaves %d reminders, want 0", remaining)
		}
	}))
	s.wantRefusal(s.send(s.hostA, e), problem.BehaviourFailed, call.Unanswered)
	s.wantBalance(30)
	s.wantRows("call | void 1")
}

// While a call of epoch 0 runs, a reset and an answer of epoch 1 are written. An answer of epoch 0
// must not follow.
func testHole05(s *scene) {
	oldCall := s.signCall(nil, "slow")
	pending := s.startCall(s.hostA, oldCall)
	s.clock.Advance(time.Second)
	r := s.signReset()
	s.wantAnswer(s.sendReset(s.hostB, r), r)
	s.clock.Advance(time.Second)
	next := s.signCall(nil, "new")
	if reply := s.wantAnswer(s.send(s.hostB, next), next); reply.Seq != 1 {
		s.t.Fatalf("Seq = %d, want 1 in the new epoch", reply.Seq)
	}
	s.wantRefusal(pending.finish(), problem.DeadlineExceeded, call.Unanswered)
	s.wantState(s.ask(s.hostB, oldCall), call.Unanswered, nil)
	s.wantRows("call, reset, call | answer 3")
}

func testHole05PricedCall(s *scene) {
	s.useLedger(30)
	oldCall := s.signCall(nil, "slow")
	pending := s.startCall(s.hostA, oldCall)
	s.clock.Advance(time.Second)
	r := s.signReset()
	s.wantAnswer(s.sendReset(s.hostB, r), r)
	s.clock.Advance(time.Second)
	next := s.signCall(nil, "new")
	s.wantAnswer(s.send(s.hostB, next), next)
	s.wantState(s.ask(s.hostB, oldCall), call.Pending, nil) // its price is not refunded yet
	s.wantRefusal(pending.finish(), problem.DeadlineExceeded, call.Unanswered)
	s.wantRows("call, reset, call | answer 3, void 1")
	s.wantBalance(20)
}

func testHole05ResetAlone(s *scene) {
	oldCall := s.signCall(nil, "slow")
	pending := s.startCall(s.hostA, oldCall)
	s.clock.Advance(time.Second)
	r := s.signReset()
	s.wantAnswer(s.sendReset(s.hostB, r), r)
	reply := s.wantAnswer(pending.finish(), oldCall)
	s.wantState(s.send(s.hostB, oldCall), call.Answered, reply)
	s.clock.Advance(time.Second)
	next := s.signCall(nil, "new")
	if reply := s.wantAnswer(s.send(s.hostB, next), next); reply.Seq != 1 || !reply.Prev.IsZero() {
		s.t.Fatalf("the first answer of the new epoch has seq %d and prev %.8s", reply.Seq, reply.Prev)
	}
	s.wantRows("call, reset, call | answer 1, answer 3")
}

// After a call and a reset, the same call must not be accepted again.
func testHole06Call(s *scene) {
	e := s.signCall(nil, "hi")
	reply := s.wantAnswer(s.send(s.hostA, e), e)
	s.clock.Advance(time.Second)
	unsent := s.signCall(nil, "never arrived") // signed before the reset
	s.clock.Advance(time.Second)
	r := s.signReset()
	s.wantAnswer(s.sendReset(s.hostB, r), r)
	for _, h := range []*call.Host{s.hostA, s.hostB} {
		out := s.send(h, e)
		s.wantRefusal(out, problem.BelowFloor, call.Answered)
		s.wantState(out, call.Answered, reply)
		s.wantChainTip(out, nil)
		if !out.Floor.Equal(r.Time) {
			s.t.Fatalf("Floor = %v, want %v", out.Floor, r.Time)
		}
		s.wantRefusal(s.send(h, unsent), problem.BelowFloor, "")
	}
	s.wantRuns(e, 1)
	atFloor := s.signAt(nil, "at the floor", r.Time)
	s.wantRefusal(s.send(s.hostA, atFloor), problem.BelowFloor, "")
	later := s.signAt(nil, "after it", r.Time.Add(time.Microsecond))
	s.wantAnswer(s.send(s.hostA, later), later)
	s.wantRows("call, reset, call | answer 1, answer 3")
}

func testHole06Reset(s *scene) {
	e := s.signCall(nil, "hi")
	s.wantAnswer(s.send(s.hostA, e), e)
	s.clock.Advance(time.Second)
	r := s.signReset()
	s.wantAnswer(s.sendReset(s.hostA, r), r)
	for _, h := range []*call.Host{s.hostA, s.hostB} {
		out := s.sendReset(h, r)
		s.wantRefusal(out, problem.BelowFloor, "")
		s.wantChainTip(out, nil)
	}
	s.clock.Advance(time.Second)
	next := s.signCall(nil, "next")
	s.wantAnswer(s.send(s.hostB, next), next)
	s.wantRefusal(s.sendReset(s.hostA, r), problem.BelowFloor, "")
	s.wantState(s.ask(s.hostA, r), call.Unknown, nil)
	s.wantRows("call, reset, call | answer 1, answer 3")
}

// A call signed in year 1 follows a call signed today. The distance to the floor overflows a
// Duration.
func testHole06Year1(s *scene) {
	e := s.signCall(nil, "hi")
	s.wantAnswer(s.send(s.hostA, e), e)
	r := s.signAt(nil, envelope.ResetText, e.Time.Add(time.Second))
	s.wantAnswer(s.sendReset(s.hostA, r), r)
	c1 := s.signAt(nil, "one", r.Time.Add(time.Second))
	s.wantAnswer(s.send(s.hostA, c1), c1)
	c2 := s.signAt(c1, "two", time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC))
	s.wantAnswer(s.send(s.hostB, c2), c2)
	s.wantRefusal(s.sendReset(s.hostA, r), problem.BelowFloor, "")
	out := s.sendReset(s.hostB, r)
	s.wantRefusal(out, problem.BelowFloor, "")
	if !out.Floor.Equal(c1.Time) {
		s.t.Fatalf("Floor = %v, want %v", out.Floor, c1.Time)
	}
}

// A call signed far in the future must not raise the floor, because a reset must be signed later
// than the floor.
func testHole07(s *scene) {
	now := s.clock.NowFunc(0)()
	futureCall := s.signAt(nil, "far", now.Add(call.MaxSkew+time.Microsecond))
	out := s.send(s.hostA, futureCall)
	s.wantRefusal(out, problem.ClockSkew, "")
	s.wantChainTip(out, nil)
	if !out.HostTime.Equal(now) {
		s.t.Fatalf("HostTime = %v, want the host's clock %v", out.HostTime, now)
	}
	s.wantRefusal(s.sendReset(s.hostA, s.signAt(nil, envelope.ResetText, now.Add(call.MaxSkew+time.Microsecond))), problem.ClockSkew, "")
	s.wantRefusal(s.sendReset(s.hostA, s.signAt(nil, envelope.ResetText, now.Add(-call.MaxSkew-time.Microsecond))), problem.ClockSkew, "")
	s.wantRows("none | none")
	s.wantState(s.ask(s.hostA, futureCall), call.Unknown, nil) // the limit does not apply to asks
	limitCall := s.signAt(nil, "edge", now.Add(call.MaxSkew))
	s.wantAnswer(s.send(s.hostA, limitCall), limitCall)
	s.clock.Advance(time.Second) // within the limit, a reset succeeds a second later
	r := s.signAt(nil, envelope.ResetText, limitCall.Time.Add(time.Microsecond))
	s.wantAnswer(s.sendReset(s.hostB, r), r)
	s.wantRows("call, reset | answer 1")
}

// The call is charged, its reply is lost and the balance is 0. The resend must not get 402.
func testHole08Balance(s *scene) {
	s.useLedger(callPrice)
	e := s.signCall(nil, "hi")
	reply := s.wantAnswer(s.send(s.hostA, e), e)
	s.wantBalance(0)
	for _, h := range []*call.Host{s.hostA, s.hostB} {
		out := s.send(h, e)
		s.wantRefusal(out, problem.PaymentRequired, call.Answered)
		s.wantState(out, call.Answered, reply)
		s.wantChainTip(out, e)
	}
	next := s.signCall(e, "more")
	out := s.send(s.hostA, next)
	s.wantRefusal(out, problem.PaymentRequired, "")
	s.wantChainTip(out, e)
	s.wantRows("call | answer 1")
}

func testHole08State(s *scene) {
	e := s.signCall(nil, "hi")
	reply := s.wantAnswer(s.send(s.hostA, e), e)
	for _, c := range []struct {
		state lifecycle.State
		kind  problem.Kind
	}{
		{lifecycle.Hibernating, problem.NotAccepting},
		{lifecycle.Stale, problem.NotAccepting},
		{lifecycle.Sunk, problem.Gone},
		{lifecycle.Archived, problem.Gone},
	} {
		s.setVacantState(c.state)
		s.clock.Advance(2 * time.Second)
		out := s.send(s.hostA, e)
		s.wantRefusal(out, c.kind, call.Answered)
		s.wantState(out, call.Answered, reply)
		s.wantChainTip(out, e)
		s.wantRefusal(s.send(s.hostB, s.signCall(e, "more")), c.kind, "")
		s.wantState(s.ask(s.hostB, e), call.Answered, reply)
	}
	s.wantRows("call | answer 1")
}

// One copy of a call is refused with 423, the caller signs a second call, and the other copy of the
// first is accepted. The refusal of the second call must name the accepted call as the tip.
func testHole09(s *scene) {
	e := s.signCall(nil, "first try")
	s.setVacantState(lifecycle.Hibernating)
	s.wantRefusal(s.send(s.hostA, e), problem.NotAccepting, "")
	s.setVacantState(lifecycle.Active)
	secondTry := s.signCall(nil, "second try")
	s.clock.Advance(2 * time.Second)
	reply := s.wantAnswer(s.send(s.hostB, e), e) // the other copy
	out := s.send(s.hostA, secondTry)
	s.wantRefusal(out, problem.Replay, "")
	s.wantChainTip(out, e)
	s.wantState(s.ask(s.hostA, e), call.Answered, reply)
	s.wantState(s.ask(s.hostA, secondTry), call.Unknown, nil)
	next := s.signCall(e, "third")
	s.wantAnswer(s.send(s.hostA, next), next)
}

// The call is answered, its reply is lost, and another device resets the chain.
func testHole10(s *scene) {
	e := s.signCall(nil, "hi")
	reply := s.wantAnswer(s.send(s.hostA, e), e)
	second := s.signCall(e, "there")
	s.wantAnswer(s.send(s.hostA, second), second)
	s.clock.Advance(time.Second)
	r := s.signReset()
	s.wantAnswer(s.sendReset(s.hostB, r), r)
	s.clock.Advance(time.Second)
	other := s.signCall(nil, "from another device")
	s.wantAnswer(s.send(s.hostB, other), other)
	out := s.send(s.hostA, e)
	s.wantRefusal(out, problem.Replay, call.Answered)
	s.wantState(out, call.Answered, reply)
	s.wantChainTip(out, other)
	s.wantState(s.ask(s.hostB, e), call.Answered, reply)
}

func testHole10TooOld(s *scene) {
	e := s.signCall(nil, "hi")
	reply := s.wantAnswer(s.send(s.hostA, e), e)
	for n := 1; n <= 7; n++ {
		s.clock.Advance(time.Second)
		r := s.signReset()
		s.wantAnswer(s.sendReset(s.hostA, r), r)
		if n%2 == 0 { // some epochs have calls, others do not
			s.clock.Advance(time.Second)
			c := s.signCall(nil, "epoch")
			s.wantAnswer(s.send(s.hostB, c), c)
		}
		out := s.ask(s.hostB, e)
		s.wantState(out, call.Answered, reply)
	}
	s.clock.Advance(time.Second)
	r := s.signReset()
	s.wantAnswer(s.sendReset(s.hostA, r), r)
	out := s.ask(s.hostB, e)
	s.wantState(out, call.Unknown, nil)
	if !out.HasUnsearchedEpochs {
		s.t.Fatal("HasUnsearchedEpochs = false, want true: eight epochs back are not read")
	}
	s.wantRefusal(s.send(s.hostA, e), problem.BelowFloor, "")
	s.wantRuns(e, 1)
}

// The call is refused with 409, and another device with a slower clock resets the chain. A resend
// of the call would run it, but an ask must not.
func testHole11(s *scene) {
	abandoned := s.signAt(nil, "abandoned", s.clock.NowFunc(0)().Add(10*time.Second))
	abandoned.Seq = 1
	first := s.signCall(nil, "first")
	s.wantAnswer(s.send(s.hostA, first), first)
	s.wantRefusal(s.send(s.hostA, abandoned), problem.Replay, "")
	s.clock.Advance(time.Second)
	r := s.signReset() // ten seconds behind
	s.wantAnswer(s.sendReset(s.hostB, r), r)
	for _, h := range []*call.Host{s.hostA, s.hostB} {
		out := s.ask(h, abandoned)
		s.wantState(out, call.Unknown, nil)
		s.wantChainTip(out, nil)
		if !out.Floor.Equal(r.Time) || !abandoned.Time.After(out.Floor) {
			s.t.Fatalf("Floor = %v, want %v, before %v", out.Floor, r.Time, abandoned.Time)
		}
	}
	s.wantRuns(abandoned, 0)
	s.wantRows("call, reset | answer 1")
}

// The first reset of a new pair is sent to message/send.
func testHole12(s *scene) {
	s.useLedger(30)
	r := s.signReset()
	out := s.send(s.hostA, r)
	s.wantRefusal(out, problem.Malformed, "")
	s.wantChainTip(out, nil)
	padded := s.signAt(nil, "  "+envelope.ResetText+"\n", s.clock.NowFunc(0)())
	s.wantRefusal(s.send(s.hostA, padded), problem.Malformed, "")
	s.wantRows("none | none")
	s.wantBalance(30)
	s.wantAnswer(s.sendReset(s.hostA, r), r)
	s.wantRefusal(s.send(s.hostB, r), problem.BelowFloor, "") // an accepted reset is refused on all routes
	s.clock.Advance(time.Second)
	secondReset := s.signReset()
	s.wantRefusal(s.send(s.hostB, secondReset), problem.Malformed, "") // its seq fits the new epoch
	s.wantRuns(secondReset, 0)
	s.wantRows("reset | none")
}

// An answer that is sent to the other side's host must not run as a request.
func testHole13(s *scene) {
	e := s.signCall(nil, "hi")
	reply := s.wantAnswer(s.send(s.hostA, e), e)
	s.wantRefusal(s.send(s.hostA, reply), problem.Malformed, "")
	s.wantRefusal(s.sendReset(s.hostA, reply), problem.Malformed, "")
	s.wantRefusal(s.ask(s.hostA, reply), problem.Malformed, "")

	signChanged := func(change func(*envelope.Envelope)) *envelope.Envelope {
		env := s.signCall(e, "next")
		change(env)
		return s.signAgain(env)
	}
	agentRole := signChanged(func(env *envelope.Envelope) { env.Payload.Role = envelope.RoleAgent })
	s.wantRefusal(s.send(s.hostA, agentRole), problem.Malformed, "")
	s.wantState(s.ask(s.hostA, agentRole), call.Unknown, nil)
	replyKey := signChanged(func(env *envelope.Envelope) { env.IdempotencyKey = envelope.ReplyKey(identity.Hash{1}) })
	s.wantRefusal(s.send(s.hostA, replyKey), problem.Malformed, "")
	s.wantRefusal(s.ask(s.hostA, replyKey), problem.Malformed, "")
	shortReplyKey := signChanged(func(env *envelope.Envelope) { env.IdempotencyKey = "re:" })
	s.wantRefusal(s.send(s.hostA, shortReplyKey), problem.Malformed, "")

	s.clock.Advance(time.Second)
	r := s.signReset()
	r.IdempotencyKey = "re:anything"
	s.wantRefusal(s.sendReset(s.hostA, s.signAgain(r)), problem.Malformed, "")
	r.IdempotencyKey, r.Payload.Role = "", envelope.RoleAgent // a reset's role is not checked
	s.wantAnswer(s.sendReset(s.hostA, s.signAgain(r)), r)
	s.clock.Advance(time.Second)
	tool := s.signCall(nil, "a tool speaks")
	tool.Payload.Role = envelope.RoleTool
	s.wantAnswer(s.send(s.hostA, s.signAgain(tool)), tool)
	s.wantRows("call, reset, call | answer 1, answer 3")
}

// A warm instance must not refuse the caller's valid next call.
func testHole14(s *scene) {
	first := s.signCall(nil, "first")
	s.wantAnswer(s.send(s.hostA, first), first)
	second := s.signCall(first, "second")
	s.wantAnswer(s.send(s.hostB, second), second)
	third := s.signCall(second, "third")
	s.wantAnswer(s.send(s.hostA, third), third) // host a caches this call
	s.clock.Advance(time.Second)
	r := s.signReset()
	s.wantAnswer(s.sendReset(s.hostA, r), r)
	s.clock.Advance(time.Second)
	fourth := s.signCall(nil, "fourth")
	s.wantAnswer(s.send(s.hostB, fourth), fourth) // host b caches this call
	futureCall := s.signAt(fourth, "far ahead", s.clock.NowFunc(0)().Add(time.Hour))
	out := s.send(s.hostA, futureCall) // host a has older tips in its cache
	s.wantRefusal(out, problem.ClockSkew, "")
	s.wantChainTip(out, fourth)
}

func testHole14State(s *scene) {
	e := s.signCall(nil, "hi")
	s.setVacantState(lifecycle.Hibernating)
	s.wantRefusal(s.send(s.hostA, e), problem.NotAccepting, "")
	s.setVacantState(lifecycle.Active)
	s.wantAnswer(s.send(s.hostA, e), e) // host a cached the state less than a second ago
}

// Two hosts that race for a position must not send two signed answers with one sequence number.
func testHole15(s *scene) {
	e := s.signCall(nil, "hi")
	s.store.PrepareNext("Commit rsp", Repeat(LoseRequest, 6)...)
	out := s.send(s.hostA, e)
	s.wantRefusal(out, problem.Unavailable, "")
	s.wantRows("call | none")
	next := s.signCall(e, "next")
	if reply := s.wantAnswer(s.send(s.hostB, next), next); reply.Seq != 1 {
		s.t.Fatalf("Seq = %d, want 1: no other answer was sent", reply.Seq)
	}
	s.clock.Advance(voidDelay + time.Second)
	s.wantState(s.ask(s.hostB, e), call.Unanswered, nil)
	s.wantRows("call, call | answer 2, void 1")
}

func testHole15Race(s *scene) {
	first := s.signCall(nil, "first")
	second := s.signCall(first, "second")
	var other call.Outcome
	s.store.PrepareNext("Commit rsp", CallAfter(func() { other = s.send(s.hostB, second) }))
	firstReply := s.wantAnswer(s.send(s.hostA, first), first)
	otherReply := s.wantAnswer(other, second)
	if otherReply.Seq != 1 || firstReply.Seq != 2 || firstReply.Prev != otherReply.Hash() {
		s.t.Fatalf("answers are numbered %d and %d", otherReply.Seq, firstReply.Seq)
	}
	// Repeat the race with a late write. When it is applied, its position is taken.
	third := s.signCall(second, "third")
	fourth := s.signCall(third, "fourth")
	var delayed Delayed
	s.store.PrepareNext("Commit rsp", delayed.Step, CallAfter(func() { other = s.send(s.hostB, fourth) }))
	firstReply = s.wantAnswer(s.send(s.hostA, third), third)
	otherReply = s.wantAnswer(other, fourth)
	if otherReply.Seq != 3 || firstReply.Seq != 4 {
		s.t.Fatalf("answers are numbered %d and %d, want 3 and 4", otherReply.Seq, firstReply.Seq)
	}
	if err := delayed.Apply(s.ctx); err == nil {
		s.t.Fatal("a late write was applied at a taken position")
	}
	s.wantRows("call, call, call, call | answer 2, answer 1, answer 4, answer 3")
}
