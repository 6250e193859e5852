package calltest

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// Clock is a clock that moves when told to. Safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows now.
func NewClock(now time.Time) *Clock { return &Clock{now: now} }

// Now is the time of one who is ahead by skew.
func (c *Clock) Now(skew time.Duration) func() time.Time {
	return func() time.Time {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.now.Add(skew)
	}
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Texts is a call.Texts without secrets: the box is what it is bound to, and
// the text.
type Texts struct{}

// Warm does nothing.
func (*Texts) Warm(context.Context) error { return nil }

// Seal puts bound and plain one after the other.
func (*Texts) Seal(_ context.Context, bound, plain []byte) (textkeys.Sealed, error) {
	return textkeys.Sealed{Box: append(bytes.Clone(bound), plain...)}, nil
}

// Open takes them apart again.
func (*Texts) Open(_ context.Context, bound []byte, s textkeys.Sealed) ([]byte, error) {
	plain, ok := bytes.CutPrefix(s.Box, bound)
	if !ok {
		return nil, fmt.Errorf("%w: bound elsewhere", textkeys.ErrDamaged)
	}
	return bytes.Clone(plain), nil
}

// Directory keeps the state of its vacants in the store, like the real one: a
// document each, remembered for a second. Each host has its own. Safe for
// concurrent use.
type Directory struct {
	Store   store.Store
	Now     func() time.Time
	Vacants map[identity.ID]call.Vacant // State aside; not changed while in use

	mu     sync.Mutex
	states map[identity.ID]remembered
}

type remembered struct {
	state lifecycle.State
	at    time.Time
}

// Vacant is as call.Directory says.
func (d *Directory) Vacant(ctx context.Context, id identity.ID, fresh bool) (call.Vacant, bool, error) {
	v, ok := d.Vacants[id]
	if !ok {
		return v, false, nil
	}
	now := d.Now()
	d.mu.Lock()
	m, known := d.states[id]
	d.mu.Unlock()
	if !known || fresh || now.Sub(m.at) > time.Second {
		doc, err := d.Store.Doc(ctx, recordKey(id))
		if err != nil {
			return v, false, err
		}
		m = remembered{lifecycle.State(doc.Data), now}
		d.mu.Lock()
		if d.states == nil {
			d.states = map[identity.ID]remembered{}
		}
		d.states[id] = m
		d.mu.Unlock()
	}
	v.ID, v.State = id, m.state
	return v, true, nil
}

func recordKey(id identity.ID) store.Key {
	return store.Key{Partition: "v#" + id.String(), Sort: "record"}
}

// SetState writes the state of a vacant where Directory reads it.
func SetState(ctx context.Context, st store.Store, id identity.ID, s lifecycle.State) error {
	doc, err := st.Doc(ctx, recordKey(id))
	if err != nil {
		return err
	}
	return st.Commit(ctx, store.Put{Key: recordKey(id), If: doc.Version, WriteID: store.WriteID{byte(doc.Version), 1}, Data: []byte(s)})
}

// Ledger charges every call the same price, from one balance for each caller.
// The reminder of a call is a document; Sweep follows reminders. Safe for
// concurrent use.
type Ledger struct {
	Store store.Store
	Price uint64
}

// A partition for each caller: many scenes may share a store.
func reminders(caller identity.ID) string { return "due#" + caller.String() }

func balanceKey(caller identity.ID) store.Key {
	return store.Key{Partition: "balance#" + caller.String(), Sort: "0"}
}

func reminderKey(pair call.Pair, position uint64) store.Key {
	return store.Key{Partition: reminders(pair.Caller), Sort: fmt.Sprintf("%s#%d", pair.Requests(), position)}
}

// Quote refuses who cannot pay.
func (l *Ledger) Quote(ctx context.Context, pair call.Pair) (call.Charge, error) {
	balance, err := l.Balance(ctx, pair.Caller)
	if err != nil {
		return call.Charge{}, err
	}
	c := call.Charge{Price: l.Price}
	if balance < int64(l.Price) {
		return c, problem.New(problem.PaymentRequired, "balance %d is below the price %d", balance, l.Price)
	}
	return c, nil
}

// Debit takes the price and leaves a reminder.
func (l *Ledger) Debit(pair call.Pair, r *call.RequestRow) []store.Write {
	return []store.Write{
		store.Add{Key: balanceKey(pair.Caller), Delta: -int64(r.Price), Min: 0, Max: math.MaxInt64},
		store.Put{Key: reminderKey(pair, r.Position), WriteID: r.WriteID, Number: int64(r.Position), Data: append(pair.Caller[:], pair.Vacant[:]...)},
	}
}

// Refund gives the price back.
func (l *Ledger) Refund(pair call.Pair, r *call.RequestRow) []store.Write {
	return []store.Write{store.Add{Key: balanceKey(pair.Caller), Delta: int64(r.Price), Min: 0, Max: math.MaxInt64}}
}

// Balance is what a caller has left.
func (l *Ledger) Balance(ctx context.Context, caller identity.ID) (int64, error) {
	doc, err := l.Store.Doc(ctx, balanceKey(caller))
	return doc.Number, err
}

// Deposit adds to a balance.
func (l *Ledger) Deposit(ctx context.Context, caller identity.ID, amount int64) error {
	doc, err := l.Store.Doc(ctx, balanceKey(caller))
	if err != nil {
		return err
	}
	return l.Store.Commit(ctx, store.Put{Key: balanceKey(caller), If: doc.Version, WriteID: store.WriteID{byte(doc.Version), 2}, Number: doc.Number + amount})
}

// Sweep has h decide what the reminders of a caller's calls lead to, and removes
// those of decided calls. It reports how many are left.
func (l *Ledger) Sweep(ctx context.Context, h *call.Host, caller identity.ID) (left int, err error) {
	for cursor := ""; ; {
		docs, next, err := l.Store.Docs(ctx, store.Range{Partition: reminders(caller)}, 100, cursor)
		if err != nil {
			return left, err
		}
		for _, doc := range docs {
			var pair call.Pair
			copy(pair.Caller[:], doc.Data)
			copy(pair.Vacant[:], doc.Data[identity.Size:])
			decided, err := h.ResolveOverdue(ctx, pair, uint64(doc.Number))
			if err != nil {
				return left, err
			}
			if !decided {
				left++
				continue
			}
			if err := l.Store.Commit(ctx, store.Delete{Key: doc.Key, If: doc.Version}); err != nil {
				return left, err
			}
		}
		if next == "" {
			return left, nil
		}
		cursor = next
	}
}
