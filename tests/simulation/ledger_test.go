package simulation

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/host/money"
	priced "github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// freeCalls of a day has the vacant for a caller that no account pays for.
const freeCalls = 4

var hostID = identity.ID{0xaa}

// billingOver is the billing of a process over a store.
func (w *world) billingOver(s store.Store, now func() time.Time) *billing.Billing {
	return billing.New(billing.Config{
		Store: s, Now: now, Rand: w.random, Wait: w.wait,
		MAC:  func(_ context.Context, b []byte) ([32]byte, error) { return sha256.Sum256(b), nil },
		Self: func(context.Context) (identity.ID, error) { return hostID, nil },
	})
}

// openAccount opens the account of a world with prices. What is done over truth stops
// nowhere.
func (w *world) openAccount() {
	aside := w.billingOver(w.truth, w.now)
	var err error
	w.account, err = aside.OpenAccount(w.t.Context(), "acme", w.cfg.shards)
	w.must(err)
	w.price = &priced.Price{Version: 1, Flat: price, FreePerSigner: freeCalls}
	if w.cfg.tokens {
		w.price = &priced.Price{Version: 1, InputPrice: money.Dollar / 2, MaxCharge: price, FreePerSigner: freeCalls}
	}
	data, err := priced.VersionDocs.Encode(*w.price)
	w.must(err)
	w.must(w.truth.Commit(w.t.Context(), store.Put{Key: priced.VersionKey(w.pair.Vacant, 1), WriteID: store.WriteID{1}, Data: data}))
	_, err = aside.Sweep(w.t.Context(), nil) // as a host does when it starts
	w.must(err)
	w.deposit(w.cfg.money)
	if !w.cfg.free {
		w.link()
	}
}

func (w *world) deposit(amount int64) {
	w.deposits++
	_, _, err := w.billingOver(w.truth, w.now).Credit(w.t.Context(), w.account.ID, money.Amount(amount), fmt.Sprint(w.deposits), "")
	w.must(err)
	w.money += amount
}

// link has the account pay for the caller.
func (w *world) link() {
	if w.linked {
		return
	}
	w.linked = true
	c := claim.PaymentClaim{Host: hostID, Account: w.account.ID}
	w.must(c.Sign(w.t.Context(), callerKey, w.now()))
	_, err := w.billingOver(w.truth, w.now).Link(w.t.Context(), w.account.ID, c.String())
	w.must(err)
}

// passing is a store whose listings do not stop: a sweep reads hundreds of empty ones.
type passing struct {
	store.Store
	listings store.Store
}

func (p passing) Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error) {
	return p.listings.Docs(ctx, r, n, cursor)
}

// checkMoney checks I6: the balance is the sum paid in less the charges in rows, no shard
// is below 0, and the counted free calls equal the free calls in rows.
func (w *world) checkMoney(ctx context.Context, s *calltest.Streams, charged int64) {
	aside := w.billingOver(w.truth, w.now)
	balance, err := aside.Balance(ctx, &w.account)
	w.must(err)
	if int64(balance) != w.money-charged {
		w.violate("I6: paid in %d, charged %d, left %d", w.money, charged, balance)
	}
	w.checkShards(ctx)
	counted := int64(0)
	docs, _, err := w.truth.Docs(ctx, store.Range{Partition: "quota#" + w.pair.Vacant.String() + "#caller#" + w.pair.Caller.String()}, store.MaxPage, "")
	w.must(err)
	for _, d := range docs {
		if counted += d.Number; d.Number > freeCalls {
			w.violate("I6: %d free calls of a day, at most %d", d.Number, freeCalls)
		}
	}
	free, resets := int64(0), int64(0)
	for i := range s.Requests {
		switch r := &s.Requests[i]; {
		case r.Kind == call.RowReset:
			resets++
		case r.PaidBy == call.PaidByFreeCall:
			free++
		}
	}
	if counted < free || counted > free+resets {
		w.violate("I6: %d free calls are counted; rows have %d, and %d resets", counted, free, resets)
	}
	if free > 0 {
		w.met("a free call of a priced vacant")
	}
}

// checkShards checks that no shard of the balance is below 0: at the end, and before the
// deposits that let the callers come to an end.
func (w *world) checkShards(ctx context.Context) {
	for n := range w.account.Shards {
		d, err := w.truth.Doc(ctx, billing.BalanceKey(w.account.ID, n))
		w.must(err)
		if d.Number < 0 {
			w.violate("I6: shard %d stands at %d", n, d.Number)
		}
	}
}

// isMoney reports whether a write moves money of an account.
func isMoney(w store.Write) (store.Add, bool) {
	add, ok := w.(store.Add)
	return add, ok && strings.HasPrefix(add.Key.Partition, "bal#")
}

// moneyMutants break rules of the ledger.
var moneyMutants = []mutant{
	{name: "money moves beside its row, not with it", store: func(w *world, s store.Store) store.Store {
		return &committing{s, func(ctx context.Context, writes []store.Write) error {
			rest := make([]store.Write, 0, len(writes))
			var moved []store.Add
			for _, one := range writes {
				if add, ok := isMoney(one); ok && add.Delta > 0 {
					moved = append(moved, add)
				} else {
					rest = append(rest, one)
				}
			}
			for _, add := range moved {
				if err := w.addAlone(ctx, s, add); err != nil {
					return err
				}
			}
			return s.Commit(ctx, rest...)
		}}
	}},
	{name: "a refund is given twice", store: func(w *world, s store.Store) store.Store {
		return &committing{s, func(ctx context.Context, writes []store.Write) error {
			if err := s.Commit(ctx, writes...); err != nil {
				return err
			}
			for _, one := range writes {
				if add, ok := isMoney(one); ok && add.Delta > 0 {
					return w.addAlone(ctx, s, add)
				}
			}
			return nil
		}}
	}},
	{name: "a balance falls below zero", store: func(_ *world, s store.Store) store.Store {
		return &committing{s, func(ctx context.Context, writes []store.Write) error {
			unbound := make([]store.Write, len(writes))
			for i, one := range writes {
				if unbound[i] = one; one != nil {
					if add, ok := isMoney(one); ok {
						add.Min = math.MinInt64
						unbound[i] = add
					}
				}
			}
			return s.Commit(ctx, unbound...)
		}}
	}},
	{name: "a replay burns a free call", store: func(w *world, s store.Store) store.Store {
		return &committing{s, func(ctx context.Context, writes []store.Write) error {
			err := s.Commit(ctx, writes...)
			if err == nil || !store.IsConflict(err) {
				return err
			}
			for _, one := range writes {
				if add, ok := one.(store.Add); ok && strings.HasPrefix(add.Key.Partition, "quota#") {
					_ = w.addAlone(ctx, s, add)
				}
			}
			return err
		}}
	}},
}

// addAlone adds to a number without the row that says why.
func (w *world) addAlone(ctx context.Context, s store.Store, add store.Add) error {
	w.deposits++
	return s.Commit(ctx, store.Put{Key: store.Key{Partition: "junk", Sort: fmt.Sprint("j", w.deposits)}, WriteID: store.WriteID{1}}, add)
}
