package billing

import (
	"context"
	"encoding/hex"
	"errors"
	"math"
	"slices"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Purchase is a payment for something other than a call. Its writes belong to the commit of the
// purchased item.
type Purchase struct {
	billing *Billing
	plan    call.PaymentPlan
}

func (b *Billing) PlanPurchase(ctx context.Context, k *Key, amount money.Amount) (*Purchase, error) {
	a, err := b.activeAccount(ctx, k.Account)
	if err != nil {
		return nil, err
	}
	plan, err := b.quotePaid(&call.QuoteRequest{Price: &price.Price{Flat: amount}}, &a, []spendingLimit{{counterName: "key#" + k.ID, perDay: k.DailyCap, perCall: k.MaxPrice}})
	if err != nil {
		return nil, err
	}
	return &Purchase{b, plan}, nil
}

func (p *Purchase) Writes() (writes []store.Write) {
	state := p.plan.LedgerState.(*planState)
	for _, add := range state.holds {
		writes = append(writes, add)
	}
	for _, dailyCounter := range state.counters {
		writes = append(writes, dailyCounter.Add)
	}
	return writes
}

// Replan plans the purchase in another way after a commit failed with err. It returns the refusal
// if no other way remains, and err if another write of the commit failed.
func (p *Purchase) Replan(ctx context.Context, err error) error {
	var bounds *store.BoundsError
	isOwnWrite := errors.As(err, &bounds) && slices.ContainsFunc(p.Writes(), func(w store.Write) bool {
		add, ok := w.(store.Add)
		return ok && add.Key == bounds.Key
	})
	if !isOwnWrite {
		return err
	}
	plan, err := p.billing.Replan(ctx, call.QuoteRequest{}, &p.plan, err)
	p.plan = plan
	return err
}

func (p *Purchase) Shard() int { return int(p.plan.Shard) }

func RefundWrite(account [32]byte, shard int, amount money.Amount) store.Write {
	return store.Add{Key: BalanceKey(hex.EncodeToString(account[:]), shard), Delta: int64(amount), Max: math.MaxInt64}
}
