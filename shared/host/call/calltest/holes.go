package calltest

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// modelDefects covers the defects that model checking found in the first draft of the design, which
// the model calls holes. Each test runs a trace that would violate the contract without the rule in
// the test's name.
var modelDefects = []fact{
	{"Hole01_an answer write of unknown outcome is retried at its own position", hole01},
	{"Hole01_an accept of unknown outcome is retried at its own position", hole01Accept},
	{"Hole01_an answer of unknown outcome is not sent, and a resend finds it", hole01UnknownOutcome},
	{"Hole02_a late answer finds the void", hole02VoidFirst},
	{"Hole02_a void finds the late answer", hole02AnswerFirst},
	{"Hole02_all rows since the accept are read before a void", hole02Between},
	{"Hole03_state unanswered is reported only after its row is written", hole03},
	{"Hole04_a refund is committed with its void row", hole04},
	{"Hole04_a failed call is refunded once, whichever host voids it", hole04Race},
	{"Hole05_no answer is written after an answer of a newer epoch", hole05},
	{"Hole05_a priced call of a closed epoch is voided and refunded", hole05PricedCall},
	{"Hole05_a reset without a later answer does not close the old epoch", hole05ResetAlone},
	{"Hole06_a call signed before a reset is refused after it", hole06Call},
	{"Hole06_a reset is accepted once", hole06Reset},
	{"Hole06_a call signed in year 1 does not lower the floor", hole06Year1},
	{"Hole07_an envelope signed more than 300 s in the future is refused", hole07},
	{"Hole08_a refusal for payment reports a call that was already charged", hole08Balance},
	{"Hole08_a refusal because of the vacant's state reports an accepted call", hole08State},
	{"Hole09_the tip names the accepted envelope with the same number", hole09},
	{"Hole10_an answer is found across a reset", hole10},
	{"Hole10_seven epochs back are searched, the eighth is too old", hole10TooOld},
	{"Hole11_an ask never runs a behaviour", hole11},
	{"Hole12_a valid reset is refused on the call route", hole12},
	{"Hole13_an answer is refused as a request", hole13},
	{"Hole14_a call is never refused because of a cached tip", hole14},
	{"Hole14_a cached state is read again before a refusal", hole14State},
	{"Hole15_an answer is sent only after its row is written", hole15},
	{"Hole15_two answers in a race have two numbers", hole15Race},
}

// The answer is stored, but the acknowledgement is lost. The host must not mistake its own row for the
// row of another host.
func hole01(s *scene) {
	e := s.call(nil, "hi")
	s.store.Next("Commit rsp", LoseAck, LoseAck)
	first := s.wantAnswer(s.send(s.a, e), e)
	s.wantRows("call | answer 1")
	s.wantState(s.send(s.b, e), call.Answered, first)
}

func hole01Accept(s *scene) {
	e := s.call(nil, "hi")
	s.store.Next("Commit req", LoseAck, NotApplied, LoseAck)
	s.wantAnswer(s.send(s.a, e), e)
	s.wantRuns(e, 1)
	s.wantRows("call | answer 1")
}

func hole01UnknownOutcome(s *scene) {
	e := s.call(nil, "hi")
	s.store.Next("Commit rsp", Repeat(LoseAck, 6)...)
	s.wantRefusal(s.send(s.a, e), problem.Unavailable, "")
	out := s.send(s.b, e)
	s.wantRefusal(out, problem.Replay, call.Answered)
	s.wantSignedReply(out.Reply, e)
	s.wantRuns(e, 1)
}

// A void at position 1 and a late answer at position 2 must not both decide one request.
func hole02VoidFirst(s *scene) {
	e := s.call(nil, "slow")
	x := s.start(s.a, e)
	s.clock.Advance(due + time.Second)
	s.wantRefusal(s.send(s.b, e), problem.Replay, call.Unanswered)
	out := x.finish()
	s.wantRefusal(out, problem.Deadline, call.Unanswered)
	s.chain(out, e)
	s.wantRows("call | void 1")
	s.wantState(s.ask(s.a, e), call.Unanswered, nil)
}

func hole02AnswerFirst(s *scene) {
	e := s.call(nil, "slow")
	x := s.start(s.a, e)
	s.clock.Advance(due + time.Second)
	var late call.Outcome
	s.store.Next("Commit rsp", After(func() { late = x.finish() })) // before the void is written
	out := s.send(s.b, e)
	s.wantState(out, call.Answered, s.wantAnswer(late, e))
	s.wantRows("call | answer 1")
}

// The host that voids the request has read an empty response stream, and other requests have been
// answered since then.
func hole02Between(s *scene) {
	first := s.call(nil, "slow")
	x := s.start(s.a, first)
	second := s.call(first, "quick")
	s.wantAnswer(s.send(s.b, second), second)
	third := s.call(second, "quicker")
	s.wantAnswer(s.send(s.b, third), third)
	reply := s.wantAnswer(x.finish(), first)
	s.clock.Advance(due + time.Second)
	s.wantState(s.send(s.b, first), call.Answered, reply)
	s.wantRows("call, call, call | answer 2, answer 3, answer 1")
	if reply.Seq != 3 {
		s.t.Fatalf("Seq = %d, want 3: numbers follow the order of the answers", reply.Seq)
	}
}

// After the deadline, only the clock suggests that the request will not be answered. Only a row may
// decide that.
func hole03(s *scene) {
	e := s.call(nil, "slow")
	x := s.start(s.a, e)
	s.clock.Advance(due)
	s.wantRefusal(s.send(s.b, e), problem.Replay, call.Pending)
	s.wantState(s.ask(s.b, e), call.Pending, nil)
	s.clock.Advance(time.Second)
	s.store.Next("Commit rsp", Repeat(NotApplied, 6)...) // the void cannot be written
	s.wantRefusal(s.send(s.b, e), problem.Unavailable, "")
	s.store.Next("Commit rsp", Repeat(NotApplied, 6)...)
	s.wantRefusal(s.ask(s.b, e), problem.Unavailable, "")
	reply := s.wantAnswer(x.finish(), e)
	s.wantState(s.send(s.b, e), call.Answered, reply)
}

// If the refund and its row were separate commits, the call would be refunded twice when the row is
// lost or retried.
func hole04(s *scene) {
	s.charge(30)
	e := s.call(nil, "slow")
	x := s.start(s.a, e)
	s.balance(20)
	s.clock.Advance(due + time.Second)
	s.store.Next("Commit rsp", LoseAck, NotApplied, CallTwice)
	s.wantRefusal(s.send(s.b, e), problem.Replay, call.Unanswered)
	s.balance(30)
	s.wantRefusal(x.finish(), problem.Deadline, call.Unanswered)
	left, err := s.ledger.Sweep(s.ctx, s.a, s.pair.Caller)
	s.must(err)
	s.balance(30)
	if left != 0 {
		s.t.Fatalf("Sweep() leaves %d reminders, want 0", left)
	}
}

func hole04Race(s *scene) {
	s.charge(30)
	e := s.call(nil, "bad")
	s.act("bad", failWithError)
	// While the executor voids the failed call, the sweeper of a host with a fast clock has already
	// voided it.
	fast := s.host(time.Hour)
	s.store.Next("Commit rsp", After(func() {
		left, err := s.ledger.Sweep(s.ctx, fast, s.pair.Caller)
		s.must(err)
		if left != 0 {
			s.t.Errorf("Sweep() leaves %d reminders, want 0", left)
		}
	}))
	s.wantRefusal(s.send(s.a, e), problem.BehaviourFailed, call.Unanswered)
	s.balance(30)
	s.wantRows("call | void 1")
}

// While a call of epoch 0 runs, a reset and an answer of epoch 1 are written. An answer of epoch 0
// must not follow.
func hole05(s *scene) {
	old := s.call(nil, "slow")
	x := s.start(s.a, old)
	s.clock.Advance(time.Second)
	r := s.reset()
	s.wantAnswer(s.resetAt(s.b, r), r)
	s.clock.Advance(time.Second)
	next := s.call(nil, "new")
	if reply := s.wantAnswer(s.send(s.b, next), next); reply.Seq != 1 {
		s.t.Fatalf("Seq = %d, want 1 in the new epoch", reply.Seq)
	}
	s.wantRefusal(x.finish(), problem.Deadline, call.Unanswered)
	s.wantState(s.ask(s.b, old), call.Unanswered, nil)
	s.wantRows("call, reset, call | answer 3")
}

func hole05PricedCall(s *scene) {
	s.charge(30)
	old := s.call(nil, "slow")
	x := s.start(s.a, old)
	s.clock.Advance(time.Second)
	r := s.reset()
	s.wantAnswer(s.resetAt(s.b, r), r)
	s.clock.Advance(time.Second)
	next := s.call(nil, "new")
	s.wantAnswer(s.send(s.b, next), next)
	s.wantState(s.ask(s.b, old), call.Pending, nil) // its price is not refunded yet
	s.wantRefusal(x.finish(), problem.Deadline, call.Unanswered)
	s.wantRows("call, reset, call | answer 3, void 1")
	s.balance(20)
}

func hole05ResetAlone(s *scene) {
	old := s.call(nil, "slow")
	x := s.start(s.a, old)
	s.clock.Advance(time.Second)
	r := s.reset()
	s.wantAnswer(s.resetAt(s.b, r), r)
	reply := s.wantAnswer(x.finish(), old)
	s.wantState(s.send(s.b, old), call.Answered, reply)
	s.clock.Advance(time.Second)
	next := s.call(nil, "new")
	if reply := s.wantAnswer(s.send(s.b, next), next); reply.Seq != 1 || !reply.Prev.IsZero() {
		s.t.Fatalf("the first answer of the new epoch has seq %d and prev %.8s", reply.Seq, reply.Prev)
	}
	s.wantRows("call, reset, call | answer 1, answer 3")
}

// After a call and a reset, the same call must not be accepted again.
func hole06Call(s *scene) {
	e := s.call(nil, "hi")
	reply := s.wantAnswer(s.send(s.a, e), e)
	s.clock.Advance(time.Second)
	unsent := s.call(nil, "never arrived") // signed before the reset
	s.clock.Advance(time.Second)
	r := s.reset()
	s.wantAnswer(s.resetAt(s.b, r), r)
	for _, h := range []*call.Host{s.a, s.b} {
		out := s.send(h, e)
		s.wantRefusal(out, problem.Floor, call.Answered)
		s.wantState(out, call.Answered, reply)
		s.chain(out, nil)
		if !out.Floor.Equal(r.Time) {
			s.t.Fatalf("Floor = %v, want %v", out.Floor, r.Time)
		}
		s.wantRefusal(s.send(h, unsent), problem.Floor, "")
	}
	s.wantRuns(e, 1)
	equal := s.sign(nil, "at the floor", r.Time)
	s.wantRefusal(s.send(s.a, equal), problem.Floor, "")
	later := s.sign(nil, "after it", r.Time.Add(time.Microsecond))
	s.wantAnswer(s.send(s.a, later), later)
	s.wantRows("call, reset, call | answer 1, answer 3")
}

func hole06Reset(s *scene) {
	e := s.call(nil, "hi")
	s.wantAnswer(s.send(s.a, e), e)
	s.clock.Advance(time.Second)
	r := s.reset()
	s.wantAnswer(s.resetAt(s.a, r), r)
	for _, h := range []*call.Host{s.a, s.b} {
		out := s.resetAt(h, r)
		s.wantRefusal(out, problem.Floor, "")
		s.chain(out, nil)
	}
	s.clock.Advance(time.Second)
	n := s.call(nil, "next")
	s.wantAnswer(s.send(s.b, n), n)
	s.wantRefusal(s.resetAt(s.a, r), problem.Floor, "")
	s.wantState(s.ask(s.a, r), call.Unknown, nil)
	s.wantRows("call, reset, call | answer 1, answer 3")
}

// A call signed in year 1 follows a call signed today. The distance to the floor overflows a Duration.
func hole06Year1(s *scene) {
	e := s.call(nil, "hi")
	s.wantAnswer(s.send(s.a, e), e)
	r := s.sign(nil, envelope.ResetText, e.Time.Add(time.Second))
	s.wantAnswer(s.resetAt(s.a, r), r)
	c1 := s.sign(nil, "one", r.Time.Add(time.Second))
	s.wantAnswer(s.send(s.a, c1), c1)
	c2 := s.sign(c1, "two", time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC))
	s.wantAnswer(s.send(s.b, c2), c2)
	s.wantRefusal(s.resetAt(s.a, r), problem.Floor, "")
	out := s.resetAt(s.b, r)
	s.wantRefusal(out, problem.Floor, "")
	if !out.Floor.Equal(c1.Time) {
		s.t.Fatalf("Floor = %v, want %v", out.Floor, c1.Time)
	}
}

// A call signed far in the future must not raise the floor, because a reset must be signed later
// than the floor.
func hole07(s *scene) {
	now := s.clock.NowFunc(0)()
	far := s.sign(nil, "far", now.Add(call.MaxSkew+time.Microsecond))
	out := s.send(s.a, far)
	s.wantRefusal(out, problem.Clock, "")
	s.chain(out, nil)
	if !out.Now.Equal(now) {
		s.t.Fatalf("Now = %v, want the host's clock %v", out.Now, now)
	}
	s.wantRefusal(s.resetAt(s.a, s.sign(nil, envelope.ResetText, now.Add(call.MaxSkew+time.Microsecond))), problem.Clock, "")
	s.wantRefusal(s.resetAt(s.a, s.sign(nil, envelope.ResetText, now.Add(-call.MaxSkew-time.Microsecond))), problem.Clock, "")
	s.wantRows("none | none")
	s.wantState(s.ask(s.a, far), call.Unknown, nil) // the limit does not apply to asks
	edge := s.sign(nil, "edge", now.Add(call.MaxSkew))
	s.wantAnswer(s.send(s.a, edge), edge)
	s.clock.Advance(time.Second) // within the limit, a reset succeeds a second later
	r := s.sign(nil, envelope.ResetText, edge.Time.Add(time.Microsecond))
	s.wantAnswer(s.resetAt(s.b, r), r)
	s.wantRows("call, reset | answer 1")
}

// The call is charged, its reply is lost and the balance is 0. The resend must not get 402.
func hole08Balance(s *scene) {
	s.charge(costs)
	e := s.call(nil, "hi")
	reply := s.wantAnswer(s.send(s.a, e), e)
	s.balance(0)
	for _, h := range []*call.Host{s.a, s.b} {
		out := s.send(h, e)
		s.wantRefusal(out, problem.PaymentRequired, call.Answered)
		s.wantState(out, call.Answered, reply)
		s.chain(out, e)
	}
	next := s.call(e, "more")
	out := s.send(s.a, next)
	s.wantRefusal(out, problem.PaymentRequired, "")
	s.chain(out, e)
	s.wantRows("call | answer 1")
}

func hole08State(s *scene) {
	e := s.call(nil, "hi")
	reply := s.wantAnswer(s.send(s.a, e), e)
	for _, c := range []struct {
		state lifecycle.State
		kind  problem.Kind
	}{
		{lifecycle.Hibernating, problem.NotAccepting},
		{lifecycle.Stale, problem.NotAccepting},
		{lifecycle.Sunk, problem.Gone},
		{lifecycle.Archived, problem.Gone},
	} {
		s.state(c.state)
		s.clock.Advance(2 * time.Second)
		out := s.send(s.a, e)
		s.wantRefusal(out, c.kind, call.Answered)
		s.wantState(out, call.Answered, reply)
		s.chain(out, e)
		s.wantRefusal(s.send(s.b, s.call(e, "more")), c.kind, "")
		s.wantState(s.ask(s.b, e), call.Answered, reply)
	}
	s.wantRows("call | answer 1")
}

// One copy of a call is refused with 423, the caller signs a second call, and the other copy of the
// first is accepted. The refusal of the second call must name the accepted call as the tip.
func hole09(s *scene) {
	e := s.call(nil, "first try")
	s.state(lifecycle.Hibernating)
	s.wantRefusal(s.send(s.a, e), problem.NotAccepting, "")
	s.state(lifecycle.Active)
	fresh := s.call(nil, "second try")
	s.clock.Advance(2 * time.Second)
	reply := s.wantAnswer(s.send(s.b, e), e) // the other copy
	out := s.send(s.a, fresh)
	s.wantRefusal(out, problem.Replay, "")
	s.chain(out, e)
	s.wantState(s.ask(s.a, e), call.Answered, reply)
	s.wantState(s.ask(s.a, fresh), call.Unknown, nil)
	next := s.call(e, "third")
	s.wantAnswer(s.send(s.a, next), next)
}

// The call is answered, its reply is lost, and another device resets the chain.
func hole10(s *scene) {
	e := s.call(nil, "hi")
	reply := s.wantAnswer(s.send(s.a, e), e)
	second := s.call(e, "there")
	s.wantAnswer(s.send(s.a, second), second)
	s.clock.Advance(time.Second)
	r := s.reset()
	s.wantAnswer(s.resetAt(s.b, r), r)
	s.clock.Advance(time.Second)
	other := s.call(nil, "from another device")
	s.wantAnswer(s.send(s.b, other), other)
	out := s.send(s.a, e)
	s.wantRefusal(out, problem.Replay, call.Answered)
	s.wantState(out, call.Answered, reply)
	s.chain(out, other)
	s.wantState(s.ask(s.b, e), call.Answered, reply)
}

func hole10TooOld(s *scene) {
	e := s.call(nil, "hi")
	reply := s.wantAnswer(s.send(s.a, e), e)
	for n := 1; n <= 7; n++ {
		s.clock.Advance(time.Second)
		r := s.reset()
		s.wantAnswer(s.resetAt(s.a, r), r)
		if n%2 == 0 { // some epochs have calls, others do not
			s.clock.Advance(time.Second)
			c := s.call(nil, "epoch")
			s.wantAnswer(s.send(s.b, c), c)
		}
		out := s.ask(s.b, e)
		s.wantState(out, call.Answered, reply)
	}
	s.clock.Advance(time.Second)
	r := s.reset()
	s.wantAnswer(s.resetAt(s.a, r), r)
	out := s.ask(s.b, e)
	s.wantState(out, call.Unknown, nil)
	if !out.TooOld {
		s.t.Fatal("TooOld = false, want true: eight epochs back are not read")
	}
	s.wantRefusal(s.send(s.a, e), problem.Floor, "")
	s.wantRuns(e, 1)
}

// The call is refused with 409, and another device with a slower clock resets the chain. A resend
// would be accepted and run, but an ask does not run.
func hole11(s *scene) {
	abandoned := s.sign(nil, "abandoned", s.clock.NowFunc(0)().Add(10*time.Second))
	abandoned.Seq = 1
	first := s.call(nil, "first")
	s.wantAnswer(s.send(s.a, first), first)
	s.wantRefusal(s.send(s.a, abandoned), problem.Replay, "")
	s.clock.Advance(time.Second)
	r := s.reset() // ten seconds behind
	s.wantAnswer(s.resetAt(s.b, r), r)
	for _, h := range []*call.Host{s.a, s.b} {
		out := s.ask(h, abandoned)
		s.wantState(out, call.Unknown, nil)
		s.chain(out, nil)
		if !out.Floor.Equal(r.Time) || !abandoned.Time.After(out.Floor) {
			s.t.Fatalf("Floor = %v, want %v, before %v", out.Floor, r.Time, abandoned.Time)
		}
	}
	s.wantRuns(abandoned, 0)
	s.wantRows("call, reset | answer 1")
}

// The first reset of a new pair is sent to message/send.
func hole12(s *scene) {
	s.charge(30)
	r := s.reset()
	out := s.send(s.a, r)
	s.wantRefusal(out, problem.Malformed, "")
	s.chain(out, nil)
	padded := s.sign(nil, "  "+envelope.ResetText+"\n", s.clock.NowFunc(0)())
	s.wantRefusal(s.send(s.a, padded), problem.Malformed, "")
	s.wantRows("none | none")
	s.balance(30)
	s.wantAnswer(s.resetAt(s.a, r), r)
	s.wantRefusal(s.send(s.b, r), problem.Floor, "") // an accepted reset is refused on all routes
	s.clock.Advance(time.Second)
	again := s.reset()
	s.wantRefusal(s.send(s.b, again), problem.Malformed, "") // its seq fits the new epoch
	s.wantRuns(again, 0)
	s.wantRows("reset | none")
}

// An answer that is sent to the other side's host must not run as a request.
func hole13(s *scene) {
	e := s.call(nil, "hi")
	reply := s.wantAnswer(s.send(s.a, e), e)
	s.wantRefusal(s.send(s.a, reply), problem.Malformed, "")
	s.wantRefusal(s.resetAt(s.a, reply), problem.Malformed, "")
	s.wantRefusal(s.ask(s.a, reply), problem.Malformed, "")

	say := func(change func(*envelope.Envelope)) *envelope.Envelope {
		x := s.call(e, "next")
		change(x)
		return s.resign(x)
	}
	agent := say(func(x *envelope.Envelope) { x.Payload.Role = envelope.RoleAgent })
	s.wantRefusal(s.send(s.a, agent), problem.Malformed, "")
	s.wantState(s.ask(s.a, agent), call.Unknown, nil)
	key := say(func(x *envelope.Envelope) { x.IdempotencyKey = envelope.ReplyKey(identity.Hash{1}) })
	s.wantRefusal(s.send(s.a, key), problem.Malformed, "")
	s.wantRefusal(s.ask(s.a, key), problem.Malformed, "")
	short := say(func(x *envelope.Envelope) { x.IdempotencyKey = "re:" })
	s.wantRefusal(s.send(s.a, short), problem.Malformed, "")

	s.clock.Advance(time.Second)
	r := s.reset()
	r.IdempotencyKey = "re:anything"
	s.wantRefusal(s.resetAt(s.a, s.resign(r)), problem.Malformed, "")
	r.IdempotencyKey, r.Payload.Role = "", envelope.RoleAgent // a reset's role is not checked
	s.wantAnswer(s.resetAt(s.a, s.resign(r)), r)
	s.clock.Advance(time.Second)
	tool := s.call(nil, "a tool speaks")
	tool.Payload.Role = envelope.RoleTool
	s.wantAnswer(s.send(s.a, s.resign(tool)), tool)
	s.wantRows("call, reset, call | answer 1, answer 3")
}

// A warm instance must not refuse the caller's valid next call.
func hole14(s *scene) {
	first := s.call(nil, "first")
	s.wantAnswer(s.send(s.a, first), first)
	second := s.call(first, "second")
	s.wantAnswer(s.send(s.b, second), second)
	third := s.call(second, "third")
	s.wantAnswer(s.send(s.a, third), third) // host a caches this call
	s.clock.Advance(time.Second)
	r := s.reset()
	s.wantAnswer(s.resetAt(s.a, r), r)
	s.clock.Advance(time.Second)
	fourth := s.call(nil, "fourth")
	s.wantAnswer(s.send(s.b, fourth), fourth) // host b caches this call
	far := s.sign(fourth, "far ahead", s.clock.NowFunc(0)().Add(time.Hour))
	out := s.send(s.a, far) // host a has older tips in its cache
	s.wantRefusal(out, problem.Clock, "")
	s.chain(out, fourth)
}

func hole14State(s *scene) {
	e := s.call(nil, "hi")
	s.state(lifecycle.Hibernating)
	s.wantRefusal(s.send(s.a, e), problem.NotAccepting, "")
	s.state(lifecycle.Active)
	s.wantAnswer(s.send(s.a, e), e) // host a cached the state less than a second ago
}

// Two hosts that race for a position must not send two signed answers with one sequence number.
func hole15(s *scene) {
	e := s.call(nil, "hi")
	s.store.Next("Commit rsp", Repeat(NotApplied, 6)...)
	out := s.send(s.a, e)
	s.wantRefusal(out, problem.Unavailable, "")
	s.wantRows("call | none")
	next := s.call(e, "next")
	if reply := s.wantAnswer(s.send(s.b, next), next); reply.Seq != 1 {
		s.t.Fatalf("Seq = %d, want 1: no other answer was sent", reply.Seq)
	}
	s.clock.Advance(due + time.Second)
	s.wantState(s.ask(s.b, e), call.Unanswered, nil)
	s.wantRows("call, call | answer 2, void 1")
}

func hole15Race(s *scene) {
	first := s.call(nil, "first")
	second := s.call(first, "second")
	var other call.Outcome
	s.store.Next("Commit rsp", After(func() { other = s.send(s.b, second) }))
	mine := s.wantAnswer(s.send(s.a, first), first)
	theirs := s.wantAnswer(other, second)
	if theirs.Seq != 1 || mine.Seq != 2 || mine.Prev != theirs.Hash() {
		s.t.Fatalf("answers are numbered %d and %d", theirs.Seq, mine.Seq)
	}
	// The same with a late write, whose position is taken when it is applied.
	third := s.call(second, "third")
	fourth := s.call(third, "fourth")
	var late Delayed
	s.store.Next("Commit rsp", late.Step, After(func() { other = s.send(s.b, fourth) }))
	mine = s.wantAnswer(s.send(s.a, third), third)
	theirs = s.wantAnswer(other, fourth)
	if theirs.Seq != 3 || mine.Seq != 4 {
		s.t.Fatalf("answers are numbered %d and %d, want 3 and 4", theirs.Seq, mine.Seq)
	}
	if err := late.Land(s.ctx); err == nil {
		s.t.Fatal("a late write was applied at a taken position")
	}
	s.wantRows("call, call, call, call | answer 2, answer 1, answer 4, answer 3")
}
