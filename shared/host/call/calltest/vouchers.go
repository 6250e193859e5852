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

// Vouchers is a ledger of vouchers, each of which pays for one call. A document holds a voucher,
// and an external bank, which may fail or not respond, cashes it. Vouchers is safe for concurrent
// use.
type Vouchers struct {
	Store store.Store
	Price money.Amount

	mu     sync.Mutex
	bank   func(again bool) error // the bank's response; if nil, the bank pays
	asked  int
	cashed map[string]bool
}

func voucherKey(voucher string) store.Key {
	return store.Key{Partition: "voucher#" + voucher, Sort: "hold"}
}

func (l *Vouchers) Quote(_ context.Context, q call.Query) (call.Charge, error) {
	if len(q.Voucher) == 0 {
		return call.Charge{}, problem.New(problem.PaymentRequired, "a voucher is required")
	}
	return call.Charge{Kind: call.PaidByVoucher, Payer: identity.Sum(q.Voucher), Hold: l.Price, Version: 1, Plan: string(q.Voucher)}, nil
}

func (l *Vouchers) Debit(_ call.Pair, c *call.Charge, r *call.RequestRow) []store.Write {
	return []store.Write{store.Put{Key: voucherKey(c.Plan.(string)), WriteID: r.WriteID, Data: []byte("held")}}
}

func (l *Vouchers) Explain(_ context.Context, _ call.Query, c *call.Charge, _ error) (call.Charge, error) {
	return *c, problem.New(problem.PaymentRequired, "the voucher was used")
}

func (l *Vouchers) Settle(_ context.Context, s call.Settlement) (call.FinalCharge, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	if l.bank != nil {
		if err := l.bank(s.IsRetry); err != nil {
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

func (*Vouchers) Late(r *call.RequestRow) bool { return r.PaidBy == call.PaidByVoucher }

func (*Vouchers) Pay(*price.Price, error) []json.RawMessage {
	return []json.RawMessage{json.RawMessage(`{"way":"voucher"}`)}
}

func (l *Vouchers) answers(bank func(again bool) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bank = bank
}

func (l *Vouchers) wantCashed(s *scene, want int) {
	s.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.cashed) != want {
		s.t.Fatalf("%d vouchers are cashed, want %d", len(l.cashed), want)
	}
}

// errBank is the error of a bank that rejects a voucher.
var errBank = problem.New(problem.PaymentRequired, "the voucher has no value")

// vouchers covers a ledger that settles calls at an external bank.
var vouchers = []fact{
	{"a call is answered after its voucher is cashed", voucherPays},
	{"a refusal without a voucher lists the ways to pay", voucherMissing},
	{"a voucher pays for only one call", voucherTwice},
	{"a call whose settlement fails is void", voucherFails},
	{"a resend retries an uncertain settlement", voucherResend},
	{"the sweeper retries an uncertain settlement", voucherSweep},
	{"a call whose answer waits for its settlement is not voided", voucherWaits},
	{"a settlement that fails on a retry voids its call", voucherFailsLate},
	{"a call that is voided before its answer is stored is not settled", voucherVoidFirst},
	{"a host with a fast clock does not void a call whose answer was just stored", voucherVoidLost},
	{"two resends that settle concurrently get the same answer", voucherRace},
	{"a store fault after the settlement loses no answer", voucherFault},
}

func (s *scene) withVouchers() *Vouchers {
	l := &Vouchers{Store: s.store, Price: costs}
	s.paid = func(c *call.Config) {
		c.Ledger = l
		SetPrice(c.Directory.(*Directory), costs)
	}
	s.a, s.b = s.host(0), s.host(0)
	return l
}

// sendWith sends a call to h with a voucher, which may be empty. It returns the outcome and a function
// that resends the call to another host.
func (s *scene) sendWith(h *call.Host, voucher, text string) (call.Outcome, func(*call.Host) call.Outcome) {
	e := s.call(nil, text)
	again := func(h *call.Host) call.Outcome {
		return h.SendWith(s.ctx, identity.ID{}, e, call.Options{Credential: call.Credential{Voucher: []byte(voucher)}})
	}
	return again(h), again
}

func voucherPays(s *scene) {
	l := s.withVouchers()
	out, again := s.sendWith(s.a, "v1", "hi")
	if out.Problem != nil || out.Charge != costs {
		s.t.Fatalf("Send() = %v, charged %v; want an answer for %v", out.Problem, out.Charge, money.Amount(costs))
	}
	s.wantState(again(s.b), call.Answered, out.Reply)
	l.wantCashed(s, 1)
	s.wantRows("call | answer 1")
}

func voucherMissing(s *scene) {
	l := s.withVouchers()
	out, _ := s.sendWith(s.a, "", "hi")
	s.wantRefusal(out, problem.PaymentRequired, "")
	if len(out.Pay) != 1 || out.Price == nil || out.Price.Flat != costs {
		s.t.Fatalf("Pay = %s, Price = %+v; want a way to pay %v", out.Pay, out.Price, money.Amount(costs))
	}
	l.wantCashed(s, 0)
	s.wantRows("none | none")
}

func voucherTwice(s *scene) {
	l := s.withVouchers()
	e := s.call(nil, "hi")
	by := call.Options{Credential: call.Credential{Voucher: []byte("v1")}}
	if out := s.a.SendWith(s.ctx, identity.ID{}, e, by); out.Problem != nil {
		s.t.Fatal(out.Problem)
	}
	next := s.call(e, "more")
	s.wantRefusal(s.b.SendWith(s.ctx, identity.ID{}, next, by), problem.PaymentRequired, "")
	by.Voucher = []byte("v2")
	if out := s.b.SendWith(s.ctx, identity.ID{}, next, by); out.Problem != nil {
		s.t.Fatal(out.Problem)
	}
	l.wantCashed(s, 2)
	s.wantRows("call, call | answer 1, answer 2")
}

func voucherFails(s *scene) {
	l := s.withVouchers()
	l.answers(func(bool) error { return errBank })
	out, again := s.sendWith(s.a, "v1", "hi")
	s.wantRefusal(out, problem.PaymentRequired, call.Unanswered)
	s.wantRefusal(again(s.b), problem.Replay, call.Unanswered)
	l.wantCashed(s, 0)
	s.wantRows("call | void 1")
}

func uncertain(bool) error { return call.ErrUncertain }

func voucherResend(s *scene) {
	l := s.withVouchers()
	l.answers(uncertain)
	out, again := s.sendWith(s.a, "v1", "hi")
	s.wantRefusal(out, problem.Deadline, call.Pending)
	s.wantRefusal(again(s.b), problem.Replay, call.Pending)
	s.wantRows("call | none")
	l.answers(func(again bool) error {
		if !again {
			s.t.Error("Settle() of a retry has IsRetry = false")
		}
		return nil
	})
	out = again(s.b)
	s.wantRefusal(out, problem.Replay, call.Answered)
	s.wantState(again(s.a), call.Answered, out.Reply)
	l.wantCashed(s, 1)
	s.wantRows("call | answer 1")
}

func voucherSweep(s *scene) {
	l := s.withVouchers()
	l.answers(uncertain)
	_, again := s.sendWith(s.a, "v1", "hi")
	s.clock.Advance(due + time.Second)
	if decided, err := s.b.ResolveOverdue(s.ctx, s.pair, 1); decided || err != nil {
		s.t.Fatalf("ResolveOverdue() = %t, %v before the bank responds, want an undecided call", decided, err)
	}
	l.answers(nil)
	if decided, err := s.b.ResolveOverdue(s.ctx, s.pair, 1); !decided || err != nil {
		s.t.Fatalf("ResolveOverdue() = %t, %v, want an answer", decided, err)
	}
	if out := again(s.a); out.State != call.Answered || out.Reply == nil {
		s.t.Fatalf("a resend gets state %q", out.State)
	}
	l.wantCashed(s, 1)
	s.wantRows("call | answer 1")
}

func voucherWaits(s *scene) {
	l := s.withVouchers()
	l.answers(uncertain)
	_, again := s.sendWith(s.a, "v1", "hi")
	s.clock.Advance(24 * time.Hour)
	s.wantRefusal(again(s.b), problem.Replay, call.Pending)
	if _, err := s.b.Void(s.ctx, s.pair, 1, errBank, call.Options{}); !errors.Is(err, call.ErrUncertain) {
		s.t.Fatalf("Void() = %v, want uncertain", err)
	}
	s.wantRows("call | none")
	l.answers(nil)
	s.wantRefusal(again(s.b), problem.Replay, call.Answered)
	s.wantRows("call | answer 1")
}

func voucherFailsLate(s *scene) {
	l := s.withVouchers()
	l.answers(uncertain)
	_, again := s.sendWith(s.a, "v1", "hi")
	l.answers(func(bool) error { return errBank })
	s.wantRefusal(again(s.b), problem.Replay, call.Unanswered)
	s.wantRefusal(again(s.a), problem.Replay, call.Unanswered)
	l.wantCashed(s, 0)
	s.wantRows("call | void 1")
}

func voucherVoidFirst(s *scene) {
	l := s.withVouchers()
	e := s.call(nil, "slow")
	g := s.hold("slow")
	sent := make(chan call.Outcome, 1)
	go func() {
		sent <- s.a.SendWith(s.ctx, identity.ID{}, e, call.Options{Credential: call.Credential{Voucher: []byte("v1")}})
	}()
	<-g.entered
	s.clock.Advance(due + time.Second)
	s.wantState(s.ask(s.b, e), call.Unanswered, nil)
	close(g.leave)
	s.wantRefusal(<-sent, problem.Deadline, call.Unanswered)
	l.wantCashed(s, 0)
	s.wantRows("call | void 1")
}

// A host whose clock is an hour ahead decides to void the call. The unsettled answer is stored
// before that host writes the void.
func voucherVoidLost(s *scene) {
	l := s.withVouchers()
	l.answers(uncertain)
	fast := s.host(time.Hour)
	e := s.call(nil, "slow")
	g := s.hold("slow")
	sent := make(chan call.Outcome, 1)
	go func() {
		sent <- s.a.SendWith(s.ctx, identity.ID{}, e, call.Options{Credential: call.Credential{Voucher: []byte("v1")}})
	}()
	<-g.entered
	s.store.Next("Commit rsp", After(func() {
		close(g.leave)
		s.wantRefusal(<-sent, problem.Deadline, call.Pending)
	}))
	if decided, err := fast.ResolveOverdue(s.ctx, s.pair, 1); decided || err != nil {
		s.t.Fatalf("ResolveOverdue() = %t, %v, want a call that waits", decided, err)
	}
	s.wantRows("call | none")
	l.answers(nil)
	s.wantState(s.ask(s.b, e), call.Answered, s.ask(s.b, e).Reply)
	l.wantCashed(s, 1)
}

// Two hosts handle resends of a call concurrently, and both settle the call.
func voucherRace(s *scene) {
	l := s.withVouchers()
	l.answers(uncertain)
	_, again := s.sendWith(s.a, "v1", "hi")
	l.answers(nil)
	var other call.Outcome
	s.store.Next("Commit rsp", After(func() { other = again(s.b) }))
	out := again(s.a)
	s.wantState(out, call.Answered, other.Reply)
	l.wantCashed(s, 1)
	s.wantRows("call | answer 1")
}

func voucherFault(s *scene) {
	l := s.withVouchers()
	s.store.Next("Commit rsp", Repeat(NotApplied, 6)...)
	out, again := s.sendWith(s.a, "v1", "hi")
	s.wantRefusal(out, problem.Unavailable, "")
	l.wantCashed(s, 1)
	s.clock.Advance(due + time.Second)
	s.wantRefusal(again(s.b), problem.Replay, call.Answered)
	l.wantCashed(s, 1)
	s.wantRows("call | answer 1")
}
