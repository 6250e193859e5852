package calltest

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Vouchers is a ledger whose vouchers pay for one call each and are cashed by an external bank. It
// is safe for concurrent use.
type Vouchers struct {
	Store store.Store
	Price money.Amount

	mu           sync.Mutex
	bankResponse func(again bool) error // the bank's response; if nil, the bank pays
	settlements  int
	cashed       map[string]bool
}

func voucherKey(voucher string) store.Key {
	return store.Key{Partition: "voucher#" + voucher, Sort: "hold"}
}

func (l *Vouchers) Quote(_ context.Context, q call.QuoteRequest) (call.PaymentPlan, error) {
	if len(q.Voucher) == 0 {
		return call.PaymentPlan{}, problem.New(problem.PaymentRequired, "a voucher is required")
	}
	return call.PaymentPlan{Kind: call.PaidByVoucher, Payer: identity.Sum(q.Voucher), Hold: l.Price, Version: 1, LedgerState: string(q.Voucher)}, nil
}

func (l *Vouchers) Debit(_ call.Pair, c *call.PaymentPlan, r *call.RequestRow) []store.Write {
	return []store.Write{store.Put{Key: voucherKey(c.LedgerState.(string)), WriteID: r.WriteID, Data: []byte("held")}}
}

func (l *Vouchers) Replan(_ context.Context, _ call.QuoteRequest, c *call.PaymentPlan, _ error) (call.PaymentPlan, error) {
	return *c, problem.New(problem.PaymentRequired, "the voucher was used")
}

func (l *Vouchers) Settle(_ context.Context, s call.SettlementRequest) (call.FinalCharge, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settlements++
	if l.bankResponse != nil {
		if err := l.bankResponse(s.IsRetry); err != nil {
			return call.FinalCharge{}, err
		}
	}
	if l.cashed == nil {
		l.cashed = map[string]bool{}
	}
	l.cashed[string(s.Row.Payer[:])] = true
	return call.FinalCharge{Charge: l.Price}, nil
}

// Refund returns no writes, because a voucher that was not cashed keeps its value at the bank.
func (*Vouchers) Refund(call.Pair, *call.RequestRow, bool) []store.Write { return nil }

func (*Vouchers) CanSettleLate(r *call.RequestRow) bool { return r.PaidBy == call.PaidByVoucher }

func (*Vouchers) ListPaymentOptions(*price.Price, error) []json.RawMessage {
	return []json.RawMessage{json.RawMessage(`{"way":"voucher"}`)}
}

func (l *Vouchers) setBankResponse(bank func(again bool) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bankResponse = bank
}

func (l *Vouchers) wantCashed(s *scene, want int) {
	s.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.cashed) != want {
		s.t.Fatalf("%d vouchers are cashed, want %d", len(l.cashed), want)
	}
}

var errVoucherRejected = problem.New(problem.PaymentRequired, "the voucher has no value")

var voucherTests = []contractTest{
	{"a call is answered after its voucher is cashed", testVoucherPays},
	{"a refusal without a voucher lists the ways to pay", testMissingVoucher},
	{"a voucher pays for only one call", testVoucherUsedTwice},
	{"a call whose settlement fails is void", testRejectedVoucher},
	{"a resend retries an uncertain settlement", testVoucherResend},
	{"the sweeper retries an uncertain settlement", testVoucherSweep},
	{"a call whose answer waits for its settlement is not voided", testUnsettledAnswerNotVoided},
	{"a settlement that fails on a retry voids its call", testLateRejectedVoucher},
	{"a call that is voided before its answer is stored is not settled", testVoidBeforeSettlement},
	{"a host with a fast clock does not void a call whose answer was just stored", testVoidLosesToSettlement},
	{"two resends that settle concurrently get the same answer", testVoucherRace},
	{"a store fault after the settlement loses no answer", testStoreFaultAfterSettlement},
}

func (s *scene) useVouchers() *Vouchers {
	ledger := &Vouchers{Store: s.store, Price: callPrice}
	s.configureLedger = func(c *call.Config) {
		c.Ledger = ledger
		SetPrice(c.Directory.(*Directory), callPrice)
	}
	s.hostA, s.hostB = s.newHost(0), s.newHost(0)
	return ledger
}

// sendWithVoucher also returns a function that resends the call to another host.
func (s *scene) sendWithVoucher(h *call.Host, voucher, text string) (call.Outcome, func(*call.Host) call.Outcome) {
	e := s.signCall(nil, text)
	resend := func(h *call.Host) call.Outcome {
		return h.SendWith(s.ctx, identity.ID{}, e, call.Options{Credential: call.Credential{Voucher: []byte(voucher)}})
	}
	return resend(h), resend
}

func testVoucherPays(s *scene) {
	ledger := s.useVouchers()
	out, resend := s.sendWithVoucher(s.hostA, "v1", "hi")
	if out.Problem != nil || out.Charge != callPrice {
		s.t.Fatalf("Send() = %v, charged %v; want an answer for %v", out.Problem, out.Charge, money.Amount(callPrice))
	}
	s.wantState(resend(s.hostB), call.Answered, out.Reply)
	ledger.wantCashed(s, 1)
	s.wantRows("call | answer 1")
}

func testMissingVoucher(s *scene) {
	ledger := s.useVouchers()
	out, _ := s.sendWithVoucher(s.hostA, "", "hi")
	s.wantRefusal(out, problem.PaymentRequired, "")
	if len(out.PaymentOptions) != 1 || out.Price == nil || out.Price.Flat != callPrice {
		s.t.Fatalf("PaymentOptions = %s, Price = %+v; want a way to pay %v", out.PaymentOptions, out.Price, money.Amount(callPrice))
	}
	ledger.wantCashed(s, 0)
	s.wantRows("none | none")
}

func testVoucherUsedTwice(s *scene) {
	ledger := s.useVouchers()
	e := s.signCall(nil, "hi")
	opts := call.Options{Credential: call.Credential{Voucher: []byte("v1")}}
	if out := s.hostA.SendWith(s.ctx, identity.ID{}, e, opts); out.Problem != nil {
		s.t.Fatal(out.Problem)
	}
	next := s.signCall(e, "more")
	s.wantRefusal(s.hostB.SendWith(s.ctx, identity.ID{}, next, opts), problem.PaymentRequired, "")
	opts.Voucher = []byte("v2")
	if out := s.hostB.SendWith(s.ctx, identity.ID{}, next, opts); out.Problem != nil {
		s.t.Fatal(out.Problem)
	}
	ledger.wantCashed(s, 2)
	s.wantRows("call, call | answer 1, answer 2")
}

func testRejectedVoucher(s *scene) {
	ledger := s.useVouchers()
	ledger.setBankResponse(func(bool) error { return errVoucherRejected })
	out, resend := s.sendWithVoucher(s.hostA, "v1", "hi")
	s.wantRefusal(out, problem.PaymentRequired, call.Unanswered)
	s.wantRefusal(resend(s.hostB), problem.Replay, call.Unanswered)
	ledger.wantCashed(s, 0)
	s.wantRows("call | void 1")
}

func failUncertain(bool) error { return call.ErrUncertain }

func testVoucherResend(s *scene) {
	ledger := s.useVouchers()
	ledger.setBankResponse(failUncertain)
	out, resend := s.sendWithVoucher(s.hostA, "v1", "hi")
	s.wantRefusal(out, problem.DeadlineExceeded, call.Pending)
	s.wantRefusal(resend(s.hostB), problem.Replay, call.Pending)
	s.wantRows("call | none")
	ledger.setBankResponse(func(resend bool) error {
		if !resend {
			s.t.Error("Settle() of a retry has IsRetry = false")
		}
		return nil
	})
	out = resend(s.hostB)
	s.wantRefusal(out, problem.Replay, call.Answered)
	s.wantState(resend(s.hostA), call.Answered, out.Reply)
	ledger.wantCashed(s, 1)
	s.wantRows("call | answer 1")
}

func testVoucherSweep(s *scene) {
	ledger := s.useVouchers()
	ledger.setBankResponse(failUncertain)
	_, resend := s.sendWithVoucher(s.hostA, "v1", "hi")
	s.clock.Advance(voidDelay + time.Second)
	if decided, err := s.hostB.ResolveOverdue(s.ctx, s.pair, 1); decided || err != nil {
		s.t.Fatalf("ResolveOverdue() = %t, %v before the bank responds, want an undecided call", decided, err)
	}
	ledger.setBankResponse(nil)
	if decided, err := s.hostB.ResolveOverdue(s.ctx, s.pair, 1); !decided || err != nil {
		s.t.Fatalf("ResolveOverdue() = %t, %v, want an answer", decided, err)
	}
	if out := resend(s.hostA); out.State != call.Answered || out.Reply == nil {
		s.t.Fatalf("a resend gets state %q", out.State)
	}
	ledger.wantCashed(s, 1)
	s.wantRows("call | answer 1")
}

func testUnsettledAnswerNotVoided(s *scene) {
	ledger := s.useVouchers()
	ledger.setBankResponse(failUncertain)
	_, resend := s.sendWithVoucher(s.hostA, "v1", "hi")
	s.clock.Advance(24 * time.Hour)
	s.wantRefusal(resend(s.hostB), problem.Replay, call.Pending)
	if _, err := s.hostB.Void(s.ctx, s.pair, 1, errVoucherRejected, call.Options{}); !errors.Is(err, call.ErrUncertain) {
		s.t.Fatalf("Void() = %v, want uncertain", err)
	}
	s.wantRows("call | none")
	ledger.setBankResponse(nil)
	s.wantRefusal(resend(s.hostB), problem.Replay, call.Answered)
	s.wantRows("call | answer 1")
}

func testLateRejectedVoucher(s *scene) {
	ledger := s.useVouchers()
	ledger.setBankResponse(failUncertain)
	_, resend := s.sendWithVoucher(s.hostA, "v1", "hi")
	ledger.setBankResponse(func(bool) error { return errVoucherRejected })
	s.wantRefusal(resend(s.hostB), problem.Replay, call.Unanswered)
	s.wantRefusal(resend(s.hostA), problem.Replay, call.Unanswered)
	ledger.wantCashed(s, 0)
	s.wantRows("call | void 1")
}

func testVoidBeforeSettlement(s *scene) {
	ledger := s.useVouchers()
	e := s.signCall(nil, "slow")
	g := s.addGate("slow")
	outcome := make(chan call.Outcome, 1)
	go func() {
		outcome <- s.hostA.SendWith(s.ctx, identity.ID{}, e, call.Options{Credential: call.Credential{Voucher: []byte("v1")}})
	}()
	<-g.entered
	s.clock.Advance(voidDelay + time.Second)
	s.wantState(s.ask(s.hostB, e), call.Unanswered, nil)
	close(g.release)
	s.wantRefusal(<-outcome, problem.DeadlineExceeded, call.Unanswered)
	ledger.wantCashed(s, 0)
	s.wantRows("call | void 1")
}

// A host whose clock is an hour ahead decides to void the call. The unsettled answer is stored
// before that host writes the void.
func testVoidLosesToSettlement(s *scene) {
	ledger := s.useVouchers()
	ledger.setBankResponse(failUncertain)
	fastHost := s.newHost(time.Hour)
	e := s.signCall(nil, "slow")
	g := s.addGate("slow")
	outcome := make(chan call.Outcome, 1)
	go func() {
		outcome <- s.hostA.SendWith(s.ctx, identity.ID{}, e, call.Options{Credential: call.Credential{Voucher: []byte("v1")}})
	}()
	<-g.entered
	s.store.PrepareNext("Commit rsp", CallAfter(func() {
		close(g.release)
		s.wantRefusal(<-outcome, problem.DeadlineExceeded, call.Pending)
	}))
	if decided, err := fastHost.ResolveOverdue(s.ctx, s.pair, 1); decided || err != nil {
		s.t.Fatalf("ResolveOverdue() = %t, %v, want a call that waits", decided, err)
	}
	s.wantRows("call | none")
	ledger.setBankResponse(nil)
	s.wantState(s.ask(s.hostB, e), call.Answered, s.ask(s.hostB, e).Reply)
	ledger.wantCashed(s, 1)
}

// Two hosts handle resends of a call concurrently, and both settle the call.
func testVoucherRace(s *scene) {
	ledger := s.useVouchers()
	ledger.setBankResponse(failUncertain)
	_, resend := s.sendWithVoucher(s.hostA, "v1", "hi")
	ledger.setBankResponse(nil)
	var other call.Outcome
	s.store.PrepareNext("Commit rsp", CallAfter(func() { other = resend(s.hostB) }))
	out := resend(s.hostA)
	s.wantState(out, call.Answered, other.Reply)
	ledger.wantCashed(s, 1)
	s.wantRows("call | answer 1")
}

func testStoreFaultAfterSettlement(s *scene) {
	ledger := s.useVouchers()
	s.store.PrepareNext("Commit rsp", Repeat(LoseRequest, 6)...)
	out, resend := s.sendWithVoucher(s.hostA, "v1", "hi")
	s.wantRefusal(out, problem.Unavailable, "")
	ledger.wantCashed(s, 1)
	s.clock.Advance(voidDelay + time.Second)
	s.wantRefusal(resend(s.hostB), problem.Replay, call.Answered)
	ledger.wantCashed(s, 1)
	s.wantRows("call | answer 1")
}
