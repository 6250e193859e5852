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

// cutTests covers answers that end early.
var cutTests = []contractTest{
	{"the caller and the executor get the cut answer", testCutWins},
	{"a cut after the answer changes nothing", testCutAfterAnswer},
	{"a cut after a void changes nothing", testCutAfterVoid},
	{"a cut that loses its position to the answer changes nothing", testCutLosesToAnswer},
	{"an answer that loses its position to a cut is replaced by the cut answer", testAnswerLosesToCut},
	{"a behaviour that fails after a cut does not void the call", testFailureAfterCut},
	{"a cut with a text that cannot be signed voids the call", testUnsignableCut},
	{"a cut whose settlement fails voids the call", testUnsettledCut},
	{"a cut that waits for its settlement stays cut", testCutAwaitsSettlement},
	{"a cut does not replace an answer that waits for its settlement", testCutOfUnsettledAnswer},
	{"an answer that ends at the model's token limit is marked as cut", testLengthCut},
	{"an answer that ends at the token limit is marked as cut even after a delayed settlement", testLengthCutAwaitsSettlement},
	{"a reset waits for a call whose answer is streamed", testResetAwaitsStreamedAnswer},
}

func (s *scene) partialAnswer() call.PartialAnswer {
	return call.PartialAnswer{Text: "re s", Usage: &call.Usage{InputTokens: 1, OutputTokens: 1, UnreportedTurns: 1}, StartedAt: s.clock.NowFunc(0)()}
}

func (s *scene) cutFirstCall(want call.State) {
	s.t.Helper()
	if got, err := s.hostB.StorePartialAnswer(s.ctx, s.pair, 1, call.CutCanceled, s.partialAnswer(), call.Options{}); got != want || err != nil {
		s.t.Fatalf("StorePartialAnswer() = %q, %v, want %q", got, err, want)
	}
}

func (s *scene) wantCutAnswer(out call.Outcome, e *envelope.Envelope) {
	s.t.Helper()
	if out.Reply == nil || out.CutReason != call.CutCanceled || out.Reply.Payload.Text() != "re s" {
		s.t.Fatalf("the outcome is %+v, want the cut answer", out)
	}
	s.wantSignedReply(out.Reply, e)
}

func testCutWins(s *scene) {
	s.useLedger(30)
	e := s.signCall(nil, "slow")
	pending := s.startCall(s.hostA, e)
	s.cutFirstCall(call.Answered)
	s.wantCutAnswer(s.ask(s.hostB, e), e)
	s.wantCutAnswer(pending.finish(), e)
	s.wantCutAnswer(s.send(s.hostA, e), e)
	s.cutFirstCall(call.Answered) // the same cut again
	s.wantRows("call | answer 1")
	s.wantBalance(30 - callPrice)
	streams, err := ReadStreams(s.ctx, s.store, s.pair)
	s.must(err)
	if d := streams.Decision(1); d.CutReason != call.CutCanceled || !d.IsPriced || d.Charge != callPrice || d.Usage.UnreportedTurns != 1 {
		s.t.Fatalf("the row is %+v", d)
	}
	next := s.signCall(e, "next")
	if reply := s.wantAnswer(s.send(s.hostA, next), next); reply.Seq != 2 {
		s.t.Fatalf("the next answer has seq %d, want 2", reply.Seq)
	}
}

func answerToTokenLimit(ctx context.Context, _ *call.Host, e envelope.Envelope) (envelope.Message, error) {
	call.RecordCutReason(ctx, call.CutLength)
	return envelope.Message{Parts: []string{"re s"}}, nil
}

func testLengthCut(s *scene) {
	s.useLedger(30)
	s.setBehaviour("long", answerToTokenLimit)
	e := s.signCall(nil, "long")
	out := s.send(s.hostA, e)
	reply := s.wantAnswer(out, e)
	asked := s.ask(s.hostB, e)
	s.wantState(asked, call.Answered, reply)
	s.wantBalance(30 - callPrice)
	streams, err := ReadStreams(s.ctx, s.store, s.pair)
	s.must(err)
	if d := streams.Decision(1); out.CutReason != call.CutLength || asked.CutReason != call.CutLength || d.CutReason != call.CutLength || d.Charge != callPrice {
		s.t.Fatalf("the answer's cut is %q, the ask's cut %q, the row is %+v", out.CutReason, asked.CutReason, d)
	}
	next := s.signCall(e, "next")
	if out := s.send(s.hostA, next); s.wantAnswer(out, next).Seq != 2 || out.CutReason != "" {
		s.t.Fatalf("the next answer is %+v, want one that is not cut", out)
	}
}

func testLengthCutAwaitsSettlement(s *scene) {
	ledger := s.useVouchers()
	ledger.setBankResponse(failUncertain)
	s.setBehaviour("long", answerToTokenLimit)
	e := s.signCall(nil, "long")
	s.wantRefusal(s.startVoucherCall(e).finish(), problem.DeadlineExceeded, call.Pending)
	ledger.setBankResponse(nil)
	out := s.ask(s.hostB, e)
	s.wantState(out, call.Answered, out.Reply)
	if out.CutReason != call.CutLength {
		s.t.Fatalf("the answer is cut %q, want %q", out.CutReason, call.CutLength)
	}
	ledger.wantCashed(s, 1)
	s.wantRows("call | answer 1")
}

func testCutAfterAnswer(s *scene) {
	e := s.signCall(nil, "hi")
	reply := s.wantAnswer(s.send(s.hostA, e), e)
	s.cutFirstCall(call.Answered)
	out := s.ask(s.hostB, e)
	s.wantState(out, call.Answered, reply)
	if out.CutReason != "" {
		s.t.Fatalf("the complete answer is marked as cut: %q", out.CutReason)
	}
	s.wantRows("call | answer 1")
}

func testCutAfterVoid(s *scene) {
	s.useLedger(30)
	s.setBehaviour("hi", failWithError)
	e := s.signCall(nil, "hi")
	s.wantRefusal(s.send(s.hostA, e), problem.BehaviourFailed, call.Unanswered)
	s.cutFirstCall(call.Unanswered)
	s.wantRows("call | void 1")
	s.wantBalance(30)
}

func testCutLosesToAnswer(s *scene) {
	s.useLedger(30)
	e := s.signCall(nil, "slow")
	pending := s.startCall(s.hostA, e)
	var out call.Outcome
	s.store.PrepareNext("Commit rsp", CallAfter(func() { out = pending.finish() }))
	s.cutFirstCall(call.Answered)
	s.wantState(s.ask(s.hostB, e), call.Answered, s.wantAnswer(out, e))
	s.wantRows("call | answer 1")
	s.wantBalance(30 - callPrice)
}

func testAnswerLosesToCut(s *scene) {
	s.useLedger(30)
	e := s.signCall(nil, "slow")
	pending := s.startCall(s.hostA, e)
	s.store.PrepareNext("Commit rsp", CallAfter(func() { s.cutFirstCall(call.Answered) }))
	s.wantCutAnswer(pending.finish(), e)
	s.wantRows("call | answer 1")
	s.wantBalance(30 - callPrice)
}

func testFailureAfterCut(s *scene) {
	s.useLedger(30)
	e := s.signCall(nil, "slow")
	s.setBehaviour("slow", failWithError)
	pending := s.startCall(s.hostA, e)
	s.cutFirstCall(call.Answered)
	s.wantCutAnswer(pending.finish(), e)
	s.wantRows("call | answer 1")
	s.wantBalance(30 - callPrice)
}

func testUnsignableCut(s *scene) {
	s.useLedger(30)
	pending := s.startCall(s.hostA, s.signCall(nil, "slow"))
	partial := s.partialAnswer()
	partial.Text = "\xff"
	if got, err := s.hostB.StorePartialAnswer(s.ctx, s.pair, 1, call.CutCanceled, partial, call.Options{}); got != call.Unanswered || err != nil {
		s.t.Fatalf("StorePartialAnswer() = %q, %v", got, err)
	}
	s.wantRefusal(pending.finish(), problem.DeadlineExceeded, call.Unanswered)
	s.wantRows("call | void 1")
	s.wantBalance(30)
}

func (s *scene) startVoucherCall(e *envelope.Envelope) *pendingCall {
	pending := &pendingCall{s.addGate(e.Payload.Text()), make(chan call.Outcome, 1)}
	go func() {
		pending.outcome <- s.hostA.SendWith(s.ctx, identity.ID{}, e, call.Options{Credential: call.Credential{Voucher: []byte("v1")}})
	}()
	<-pending.gate.entered
	return pending
}

func testUnsettledCut(s *scene) {
	ledger := s.useVouchers()
	ledger.setBankResponse(func(bool) error { return errVoucherRejected })
	pending := s.startVoucherCall(s.signCall(nil, "slow"))
	s.cutFirstCall(call.Unanswered)
	s.wantRefusal(pending.finish(), problem.PaymentRequired, call.Unanswered)
	ledger.wantCashed(s, 0)
	s.wantRows("call | void 1")
}

func testCutAwaitsSettlement(s *scene) {
	ledger := s.useVouchers()
	ledger.setBankResponse(failUncertain)
	e := s.signCall(nil, "slow")
	pending := s.startVoucherCall(e)
	if got, err := s.hostB.StorePartialAnswer(s.ctx, s.pair, 1, call.CutCanceled, s.partialAnswer(), call.Options{}); got != call.Pending || !errors.Is(err, call.ErrUncertain) {
		s.t.Fatalf("StorePartialAnswer() = %q, %v, want a call that waits", got, err)
	}
	s.wantRows("call | none")
	_ = pending.finish() // its answer arrives too late
	ledger.setBankResponse(nil)
	s.wantCutAnswer(s.ask(s.hostA, e), e)
	ledger.wantCashed(s, 1)
	s.wantRows("call | answer 1")
}

func testCutOfUnsettledAnswer(s *scene) {
	ledger := s.useVouchers()
	ledger.setBankResponse(failUncertain)
	e := s.signCall(nil, "slow")
	s.wantRefusal(s.startVoucherCall(e).finish(), problem.DeadlineExceeded, call.Pending)
	if got, err := s.hostB.StorePartialAnswer(s.ctx, s.pair, 1, call.CutCanceled, s.partialAnswer(), call.Options{}); got != call.Pending || !errors.Is(err, call.ErrUncertain) {
		s.t.Fatalf("StorePartialAnswer() = %q, %v, want a call that waits", got, err)
	}
	ledger.setBankResponse(nil)
	out := s.ask(s.hostB, e)
	s.wantState(out, call.Answered, out.Reply)
	if out.CutReason != "" || out.Reply.Payload.Text() != "re slow" {
		s.t.Fatalf("the answer is %q, cut %q", out.Reply.Payload.Text(), out.CutReason)
	}
	s.wantRows("call | answer 1")
}

func testResetAwaitsStreamedAnswer(s *scene) {
	s.useLedger(1000)
	e := s.signCall(nil, "slow")
	pending := &pendingCall{s.addGate("slow"), make(chan call.Outcome, 1)}
	go func() { pending.outcome <- s.hostA.SendWith(s.ctx, identity.ID{}, e, call.Options{Streamed: true}) }()
	<-pending.gate.entered
	s.clock.Advance(time.Second)
	laterCall := s.signCall(e, "later")
	s.wantAnswer(s.send(s.hostB, laterCall), laterCall)
	s.clock.Advance(time.Second)
	r := s.signReset()
	s.wantRefusal(s.sendReset(s.hostB, r), problem.Pending, "")
	s.wantAnswer(pending.finish(), e)
	s.wantAnswer(s.sendReset(s.hostB, r), r)
	s.wantRows("call, call, reset | answer 2, answer 1")

	// A call that will not be answered blocks a reset until it is due.
	s.clock.Advance(time.Second)
	lostCall := s.signCall(nil, "lost")
	if accepted, out := s.hostA.AcceptForRun(s.ctx, identity.ID{}, lostCall, call.Options{Streamed: true}); accepted == nil {
		s.t.Fatal(out.Problem)
	}
	s.clock.Advance(voidDelay)
	r = s.signReset()
	s.wantRefusal(s.sendReset(s.hostB, r), problem.Pending, "")
	s.clock.Advance(time.Second)
	r = s.signReset()
	s.wantAnswer(s.sendReset(s.hostB, r), r)
	s.clock.Advance(time.Second)
	if decided, err := s.hostB.ResolveOverdue(s.ctx, s.pair, 4); !decided || err != nil {
		s.t.Fatalf("ResolveOverdue() = %t, %v", decided, err)
	}
	s.wantRows("call, call, reset, call, reset | answer 2, answer 1, void 4")
}
