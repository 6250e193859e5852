package calltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// Clock is a clock that moves only by Advance. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

func NewClock(now time.Time) *Clock { return &Clock{now: now} }

func (c *Clock) NowFunc(skew time.Duration) func() time.Time {
	return func() time.Time {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.now.Add(skew)
	}
}

func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Texts is a call.Texts without encryption. A box consists of the additional data and the text.
type Texts struct{}

func (*Texts) Warm(context.Context) error { return nil }

func (*Texts) Seal(_ context.Context, additionalData, plain []byte) (textkeys.Sealed, error) {
	return textkeys.Sealed{Box: append(bytes.Clone(additionalData), plain...)}, nil
}

func (*Texts) Open(_ context.Context, additionalData []byte, s textkeys.Sealed) ([]byte, error) {
	plain, ok := bytes.CutPrefix(s.Box, additionalData)
	if !ok {
		return nil, fmt.Errorf("%w: bound to other data", textkeys.ErrDamaged)
	}
	return bytes.Clone(plain), nil
}

// Directory stores the states of its vacants in the store and caches them for a second. It is safe
// for concurrent use.
type Directory struct {
	Store   store.Store
	Now     func() time.Time
	Vacants map[identity.ID]call.Vacant // vacants without State; must not change while in use

	mu     sync.Mutex
	states map[identity.ID]cachedState
}

type cachedState struct {
	state    lifecycle.State
	cachedAt time.Time
}

func (d *Directory) Vacant(ctx context.Context, id identity.ID, fresh bool) (call.Vacant, bool, error) {
	v, ok := d.Vacants[id]
	if !ok {
		return v, false, nil
	}
	now := d.Now()
	d.mu.Lock()
	cached, isCached := d.states[id]
	d.mu.Unlock()
	if !isCached || fresh || now.Sub(cached.cachedAt) > time.Second {
		doc, err := d.Store.Doc(ctx, recordKey(id))
		if err != nil {
			return v, false, err
		}
		cached = cachedState{lifecycle.State(doc.Data), now}
		d.mu.Lock()
		if d.states == nil {
			d.states = map[identity.ID]cachedState{}
		}
		d.states[id] = cached
		d.mu.Unlock()
	}
	v.ID, v.State = id, cached.state
	return v, true, nil
}

func recordKey(id identity.ID) store.Key {
	return store.Key{Partition: "v#" + id.String(), Sort: "record"}
}

// SetState stores the state of a vacant.
func SetState(ctx context.Context, st store.Store, id identity.ID, s lifecycle.State) error {
	doc, err := st.Doc(ctx, recordKey(id))
	if err != nil {
		return err
	}
	return st.Commit(ctx, store.Put{Key: recordKey(id), IfVersion: doc.Version, WriteID: store.WriteID{byte(doc.Version), 1}, Data: []byte(s)})
}

func SetPrice(d *Directory, flat money.Amount) {
	for id, v := range d.Vacants {
		v.Price = &price.Price{Version: 1, Flat: flat}
		d.Vacants[id] = v
	}
}

// Ledger charges the same price for every call, from one balance per caller. Each call has a
// reminder document, which Sweep processes. Ledger is safe for concurrent use.
type Ledger struct {
	Store store.Store
	Price uint64
}

func reminderPartition(caller identity.ID) string { return "due#" + caller.String() }

func balanceKey(caller identity.ID) store.Key {
	return store.Key{Partition: "balance#" + caller.String(), Sort: "0"}
}

func reminderKey(pair call.Pair, position uint64) store.Key {
	return store.Key{Partition: reminderPartition(pair.Caller), Sort: fmt.Sprintf("%s#%d", pair.Requests(), position)}
}

func (l *Ledger) Quote(ctx context.Context, q call.QuoteRequest) (call.PaymentPlan, error) {
	balance, err := l.Balance(ctx, q.Pair.Caller)
	if err != nil {
		return call.PaymentPlan{}, err
	}
	if balance < int64(l.Price) {
		return call.PaymentPlan{}, l.newBalanceError(balance)
	}
	return call.PaymentPlan{Kind: call.PaidByAccount, Payer: q.Pair.Caller, Hold: money.Amount(l.Price), Version: 1}, nil
}

func (l *Ledger) newBalanceError(balance int64) error {
	return problem.New(problem.PaymentRequired, "balance %d is below the price %d", balance, l.Price)
}

func (l *Ledger) Debit(pair call.Pair, _ *call.PaymentPlan, r *call.RequestRow) []store.Write {
	if r.Kind == call.RowReset {
		return nil
	}
	return []store.Write{
		store.Add{Key: balanceKey(pair.Caller), Delta: -int64(r.Price), Min: 0, Max: math.MaxInt64},
		store.Put{Key: reminderKey(pair, r.Position), WriteID: r.WriteID, Number: int64(r.Position), Data: append(pair.Caller[:], pair.Vacant[:]...)},
	}
}

func (l *Ledger) Replan(_ context.Context, _ call.QuoteRequest, c *call.PaymentPlan, refusal error) (call.PaymentPlan, error) {
	if bounds := new(store.BoundsError); errors.As(refusal, &bounds) {
		return *c, l.newBalanceError(bounds.Number)
	}
	return *c, refusal
}

func (l *Ledger) Settle(_ context.Context, s call.SettlementRequest) (call.FinalCharge, error) {
	return call.FinalCharge{Charge: money.Amount(s.Row.Price)}, nil
}

func (l *Ledger) Refund(pair call.Pair, r *call.RequestRow, _ bool) []store.Write {
	return []store.Write{store.Add{Key: balanceKey(pair.Caller), Delta: int64(r.Price), Min: 0, Max: math.MaxInt64}}
}

func (*Ledger) CanSettleLate(*call.RequestRow) bool { return false }

func (*Ledger) ListPaymentOptions(*price.Price, error) []json.RawMessage { return nil }

func (l *Ledger) Balance(ctx context.Context, caller identity.ID) (int64, error) {
	doc, err := l.Store.Doc(ctx, balanceKey(caller))
	return doc.Number, err
}

func (l *Ledger) Deposit(ctx context.Context, caller identity.ID, amount int64) error {
	doc, err := l.Store.Doc(ctx, balanceKey(caller))
	if err != nil {
		return err
	}
	return l.Store.Commit(ctx, store.Put{Key: balanceKey(caller), IfVersion: doc.Version, WriteID: store.WriteID{byte(doc.Version), 2}, Number: doc.Number + amount})
}

// Sweep resolves overdue calls of a caller and returns the number of remaining reminders.
func (l *Ledger) Sweep(ctx context.Context, h *call.Host, caller identity.ID) (remaining int, err error) {
	for cursor := ""; ; {
		docs, next, err := l.Store.Docs(ctx, store.Range{Partition: reminderPartition(caller)}, 100, cursor)
		if err != nil {
			return remaining, err
		}
		for _, doc := range docs {
			var pair call.Pair
			copy(pair.Caller[:], doc.Data)
			copy(pair.Vacant[:], doc.Data[identity.Size:])
			decided, err := h.ResolveOverdue(ctx, pair, uint64(doc.Number))
			if err != nil {
				return remaining, err
			}
			if !decided {
				remaining++
				continue
			}
			if err := l.Store.Commit(ctx, store.Delete{Key: doc.Key, IfVersion: doc.Version}); err != nil {
				return remaining, err
			}
		}
		if next == "" {
			return remaining, nil
		}
		cursor = next
	}
}
