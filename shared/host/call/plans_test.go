package call_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// payers is a ledger with two payers. The second pays if the first has too little money.
type payers struct {
	calltest.Ledger
}

func balanceOf(payer [32]byte) store.Key {
	return store.Key{Partition: fmt.Sprintf("payer#%d", payer[0]), Sort: "0"}
}

func paidBy(payer byte) call.PaymentPlan {
	return call.PaymentPlan{Kind: call.PaidByAccount, Payer: [32]byte{payer}, Hold: 10, Version: 3}
}

func (*payers) Quote(context.Context, call.QuoteRequest) (call.PaymentPlan, error) {
	return paidBy(1), nil
}

func (*payers) Replan(context.Context, call.QuoteRequest, *call.PaymentPlan, error) (call.PaymentPlan, error) {
	return paidBy(2), nil
}

func (*payers) Debit(_ call.Pair, c *call.PaymentPlan, _ *call.RequestRow) []store.Write {
	return []store.Write{store.Add{Key: balanceOf(c.Payer), Delta: -int64(c.Hold), Max: math.MaxInt64}}
}

func (*payers) Settle(_ context.Context, s call.SettlementRequest) (call.FinalCharge, error) {
	return call.FinalCharge{Charge: money.Amount(s.Row.Price)}, nil
}

// The first payer's commit is delayed, and its repetition finds that the payer has too little
// money. The delayed commit then arrives before the commit of the second payer, which has another
// row.
func TestAPlanThatArrivesLateIsNotTakenForTheNext(t *testing.T) {
	vacant, caller := newKey(t), newKey(t)
	pair := call.Pair{Caller: caller.ID(), Vacant: vacant.ID()}
	inner := memory.New()
	add := func(payer byte, amount int64) {
		t.Helper()
		why := store.Put{Key: store.Key{Partition: "credit", Sort: fmt.Sprint(payer)}, WriteID: store.WriteID{payer}}
		if err := inner.Commit(t.Context(), why, store.Add{Key: balanceOf([32]byte{payer}), Delta: amount, Max: math.MaxInt64}); err != nil {
			t.Fatal(err)
		}
	}
	add(2, 10)
	var delayed func(context.Context) error
	commits := 0
	s := &calltest.Intercept{Store: inner, Handle: func(ctx context.Context, op calltest.Op, do func(context.Context) error) error {
		if op.Name != "Commit req" {
			return do(ctx)
		}
		switch commits++; commits {
		case 1:
			delayed = func(ctx context.Context) error { return inner.Commit(ctx, op.Writes...) }
			return store.ErrUnavailable
		case 3:
			add(1, 10)
			if err := delayed(ctx); err != nil {
				t.Error(err)
			}
		}
		return do(ctx)
	}}
	out := hostOf(t, s, vacant, &payers{}).Send(t.Context(), identity.ID{}, first(t, caller, vacant.ID(), "hello"))
	if commits != 3 || out.State != call.Pending {
		t.Errorf("Send() after %d commits = %+v, want one that is pending, because the row is of another commit, after 3", commits, out)
	}
	row, err := inner.Tip(t.Context(), pair.Requests())
	if err != nil {
		t.Fatal(err)
	}
	if r, err := call.DecodeRequest(row); err != nil || r.Payer != [32]byte{1} {
		t.Errorf("the row is paid by %d, %v, want 1", r.Payer[0], err)
	}
	for payer, want := range map[byte]int64{1: 0, 2: 10} {
		if d, err := inner.Doc(t.Context(), balanceOf([32]byte{payer})); err != nil || d.Number != want {
			t.Errorf("payer %d has %d, %v, want %d", payer, d.Number, err, want)
		}
	}
}
