package calltest

import (
	"context"
	"errors"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// cuts covers answers that end early.
var cuts = []fact{
	{"the caller and the executor get the cut answer", cutWins},
	{"a cut after the answer changes nothing", cutAfterAnswer},
	{"a cut after a void changes nothing", cutAfterVoid},
	{"a cut that loses its position to the answer changes nothing", cutLosesToAnswer},
	{"an answer that loses its position to a cut is replaced by the cut answer", answerLosesToCut},
	{"a behaviour that fails after a cut does not void the call", failureAfterCut},
	{"a cut with a text that cannot be signed voids the call", cutUnsignable},
	{"a cut whose settlement fails voids the call", cutUnsettled},
	{"a cut that waits for its settlement stays cut", cutWaits},
	{"a cut does not replace an answer that waits for its settlement", cutMeetsKept},
	{"an answer that ends at the model's token limit is marked as cut", cutByLength},
	{"an answer that ends at the token limit is marked as cut even after a delayed settlement", cutByLengthWaits},
	{"a reset waits for a call whose answer is streamed", resetOfShown},
}

// part returns the pieces of an answer that were read before the cut.
func (s *scene) part() call.Partial {
	return call.Partial{Text: "re s", Usage: &call.Usage{In: 1, Out: 1, Unreported: 1}, Began: s.clock.NowFunc(0)()}
}

func (s *scene) cut(want call.State) {
	s.t.Helper()
	if got, err := s.b.CutAnswer(s.ctx, s.pair, 1, call.CutCanceled, s.part(), call.Options{}); got != want || err != nil {
		s.t.Fatalf("CutAnswer() = %q, %v, want %q", got, err, want)
	}
}

func (s *scene) isCut(out call.Outcome, e *envelope.Envelope) {
	s.t.Helper()
	if out.Reply == nil || out.Cut != call.CutCanceled || out.Reply.Payload.Text() != "re s" {
		s.t.Fatalf("the outcome is %+v, want the cut answer", out)
	}
	s.wantSignedReply(out.Reply, e)
}

func cutWins(s *scene) {
	s.charge(30)
	e := s.call(nil, "slow")
	x := s.start(s.a, e)
	s.cut(call.Answered)
	s.isCut(s.ask(s.b, e), e)
	s.isCut(x.finish(), e)
	s.isCut(s.send(s.a, e), e)
	s.cut(call.Answered) // the same cut again
	s.wantRows("call | answer 1")
	s.balance(30 - costs)
	row, err := ReadStreams(s.ctx, s.store, s.pair)
	s.must(err)
	if d := row.Decision(1); d.Cut != call.CutCanceled || !d.Charged || d.Charge != costs || d.Usage.Unreported != 1 {
		s.t.Fatalf("the row is %+v", d)
	}
	next := s.call(e, "next")
	if reply := s.wantAnswer(s.send(s.a, next), next); reply.Seq != 2 {
		s.t.Fatalf("the next answer has seq %d, want 2", reply.Seq)
	}
}

// cutAnswer returns an answer that ends at its model's token limit.
func cutAnswer(ctx context.Context, _ *call.Host, e envelope.Envelope) (envelope.Message, error) {
	call.RecordCut(ctx, call.CutLength)
	return envelope.Message{Parts: []string{"re s"}}, nil
}

func cutByLength(s *scene) {
	s.charge(30)
	s.act("long", cutAnswer)
	e := s.call(nil, "long")
	out := s.send(s.a, e)
	reply := s.wantAnswer(out, e)
	again := s.ask(s.b, e)
	s.wantState(again, call.Answered, reply)
	s.balance(30 - costs)
	row, err := ReadStreams(s.ctx, s.store, s.pair)
	s.must(err)
	if d := row.Decision(1); out.Cut != call.CutLength || again.Cut != call.CutLength || d.Cut != call.CutLength || d.Charge != costs {
		s.t.Fatalf("the answer's cut is %q, the ask's cut %q, the row is %+v", out.Cut, again.Cut, d)
	}
	next := s.call(e, "next")
	if out := s.send(s.a, next); s.wantAnswer(out, next).Seq != 2 || out.Cut != "" {
		s.t.Fatalf("the next answer is %+v, want one that is not cut", out)
	}
}

func cutByLengthWaits(s *scene) {
	l := s.withVouchers()
	l.answers(uncertain)
	s.act("long", cutAnswer)
	e := s.call(nil, "long")
	s.wantRefusal(s.startPaid(e).finish(), problem.Deadline, call.Pending)
	l.answers(nil)
	out := s.ask(s.b, e)
	s.wantState(out, call.Answered, out.Reply)
	if out.Cut != call.CutLength {
		s.t.Fatalf("the answer is cut %q, want %q", out.Cut, call.CutLength)
	}
	l.wantCashed(s, 1)
	s.wantRows("call | answer 1")
}

func cutAfterAnswer(s *scene) {
	e := s.call(nil, "hi")
	reply := s.wantAnswer(s.send(s.a, e), e)
	s.cut(call.Answered)
	out := s.ask(s.b, e)
	s.wantState(out, call.Answered, reply)
	if out.Cut != "" {
		s.t.Fatalf("the complete answer is marked as cut: %q", out.Cut)
	}
	s.wantRows("call | answer 1")
}

func cutAfterVoid(s *scene) {
	s.charge(30)
	s.act("hi", failWithError)
	e := s.call(nil, "hi")
	s.wantRefusal(s.send(s.a, e), problem.BehaviourFailed, call.Unanswered)
	s.cut(call.Unanswered)
	s.wantRows("call | void 1")
	s.balance(30)
}

func cutLosesToAnswer(s *scene) {
	s.charge(30)
	e := s.call(nil, "slow")
	x := s.start(s.a, e)
	var out call.Outcome
	s.store.Next("Commit rsp", After(func() { out = x.finish() }))
	s.cut(call.Answered)
	s.wantState(s.ask(s.b, e), call.Answered, s.wantAnswer(out, e))
	s.wantRows("call | answer 1")
	s.balance(30 - costs)
}

func answerLosesToCut(s *scene) {
	s.charge(30)
	e := s.call(nil, "slow")
	x := s.start(s.a, e)
	s.store.Next("Commit rsp", After(func() { s.cut(call.Answered) }))
	s.isCut(x.finish(), e)
	s.wantRows("call | answer 1")
	s.balance(30 - costs)
}

func failureAfterCut(s *scene) {
	s.charge(30)
	e := s.call(nil, "slow")
	s.act("slow", failWithError)
	x := s.start(s.a, e)
	s.cut(call.Answered)
	s.isCut(x.finish(), e)
	s.wantRows("call | answer 1")
	s.balance(30 - costs)
}

func cutUnsignable(s *scene) {
	s.charge(30)
	x := s.start(s.a, s.call(nil, "slow"))
	p := s.part()
	p.Text = "\xff"
	if got, err := s.b.CutAnswer(s.ctx, s.pair, 1, call.CutCanceled, p, call.Options{}); got != call.Unanswered || err != nil {
		s.t.Fatalf("Cut() = %q, %v", got, err)
	}
	s.wantRefusal(x.finish(), problem.Deadline, call.Unanswered)
	s.wantRows("call | void 1")
	s.balance(30)
}

func (s *scene) startPaid(e *envelope.Envelope) *sending {
	x := &sending{s.hold(e.Payload.Text()), make(chan call.Outcome, 1)}
	go func() {
		x.out <- s.a.SendWith(s.ctx, identity.ID{}, e, call.Options{Credential: call.Credential{Voucher: []byte("v1")}})
	}()
	<-x.gate.entered
	return x
}

func cutUnsettled(s *scene) {
	l := s.withVouchers()
	l.answers(func(bool) error { return errBank })
	x := s.startPaid(s.call(nil, "slow"))
	s.cut(call.Unanswered)
	s.wantRefusal(x.finish(), problem.PaymentRequired, call.Unanswered)
	l.wantCashed(s, 0)
	s.wantRows("call | void 1")
}

func cutWaits(s *scene) {
	l := s.withVouchers()
	l.answers(uncertain)
	e := s.call(nil, "slow")
	x := s.startPaid(e)
	if got, err := s.b.CutAnswer(s.ctx, s.pair, 1, call.CutCanceled, s.part(), call.Options{}); got != call.Pending || !errors.Is(err, call.ErrUncertain) {
		s.t.Fatalf("Cut() = %q, %v, want a call that waits", got, err)
	}
	s.wantRows("call | none")
	_ = x.finish() // its answer arrives too late
	l.answers(nil)
	s.isCut(s.ask(s.a, e), e)
	l.wantCashed(s, 1)
	s.wantRows("call | answer 1")
}

func cutMeetsKept(s *scene) {
	l := s.withVouchers()
	l.answers(uncertain)
	e := s.call(nil, "slow")
	s.wantRefusal(s.startPaid(e).finish(), problem.Deadline, call.Pending)
	if got, err := s.b.CutAnswer(s.ctx, s.pair, 1, call.CutCanceled, s.part(), call.Options{}); got != call.Pending || !errors.Is(err, call.ErrUncertain) {
		s.t.Fatalf("Cut() = %q, %v, want a call that waits", got, err)
	}
	l.answers(nil)
	out := s.ask(s.b, e)
	s.wantState(out, call.Answered, out.Reply)
	if out.Cut != "" || out.Reply.Payload.Text() != "re slow" {
		s.t.Fatalf("the answer is %q, cut %q", out.Reply.Payload.Text(), out.Cut)
	}
	s.wantRows("call | answer 1")
}

func resetOfShown(s *scene) {
	s.charge(1000)
	e := s.call(nil, "slow")
	x := &sending{s.hold("slow"), make(chan call.Outcome, 1)}
	go func() { x.out <- s.a.SendWith(s.ctx, identity.ID{}, e, call.Options{Streamed: true}) }()
	<-x.gate.entered
	s.clock.Advance(time.Second)
	later := s.call(e, "later")
	s.wantAnswer(s.send(s.b, later), later)
	s.clock.Advance(time.Second)
	r := s.reset()
	s.wantRefusal(s.resetAt(s.b, r), problem.Pending, "")
	s.wantAnswer(x.finish(), e)
	s.wantAnswer(s.resetAt(s.b, r), r)
	s.wantRows("call, call, reset | answer 2, answer 1")

	// A call that will not be answered blocks a reset until it is due.
	s.clock.Advance(time.Second)
	lost := s.call(nil, "lost")
	if a, out := s.a.Begin(s.ctx, identity.ID{}, lost, call.Options{Streamed: true}); a == nil {
		s.t.Fatal(out.Problem)
	}
	s.clock.Advance(due)
	r = s.reset()
	s.wantRefusal(s.resetAt(s.b, r), problem.Pending, "")
	s.clock.Advance(time.Second)
	r = s.reset()
	s.wantAnswer(s.resetAt(s.b, r), r)
	s.clock.Advance(time.Second)
	if decided, err := s.b.ResolveOverdue(s.ctx, s.pair, 4); !decided || err != nil {
		s.t.Fatalf("ResolveOverdue() = %t, %v", decided, err)
	}
	s.wantRows("call, call, reset, call, reset | answer 2, answer 1, void 4")
}
