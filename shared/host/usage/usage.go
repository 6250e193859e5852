// Package usage folds the rows of calls into hours: what each account has paid, for which
// vacant and caller, and what the vacants of each owner have earned. It folds what accounts
// have spent, on calls and on bookings, into days.
//
// The invariant: the offset in the feed and the documents that its rows change are one
// commit, at their versions. So a row counts once, however often it is delivered, by
// however many processes, and whatever dies in between.
package usage

import (
	"context"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Counts is what happened in an hour.
type Counts struct {
	Answers uint64       `json:"answers"`
	Voids   uint64       `json:"voids"`
	Charge  money.Amount `json:"charge"`
	Fee     money.Amount `json:"fee"` // the host's part of Charge
	In      uint64       `json:"in"`  // tokens
	Out     uint64       `json:"out"`
	// Unreported answers have a price by tokens, and their agents did not report all tokens.
	// Nobody paid for those tokens.
	Unreported uint64 `json:"unreported,omitempty"`
}

// Add adds other to c.
func (c *Counts) Add(other Counts) {
	c.Answers += other.Answers
	c.Voids += other.Voids
	c.Charge += other.Charge
	c.Fee += other.Fee
	c.In += other.In
	c.Out += other.Out
	c.Unreported += other.Unreported
}

// Hour is the counts of a UTC hour: of an account, a vacant and a caller, or of an owner
// and its vacant, when Caller is zero.
type Hour struct {
	Start  time.Time   `json:"hour"`
	Vacant identity.ID `json:"vacant"`
	Caller identity.ID `json:"caller,omitzero"`
	Counts
}

const hourForm = "2006-01-02T15"

// Day is what an account has spent on a UTC day.
type Day struct {
	Start  time.Time
	Amount money.Amount
}

// notFolded is how long rows may be before usage has them.
const notFolded = 10 * time.Minute

// Complete is until when usage has all rows, if meters run.
func Complete(now time.Time) time.Time { return now.Add(-notFolded) }

// Spent calls fn with what an account has spent by UTC day, on calls and bookings. A day is
// below 0 if credits of earlier bookings are more.
func Spent(ctx context.Context, s store.Lister, account string, fn func(day time.Time, amount money.Amount) error) error {
	for d, err := range SpentDocs.Each(ctx, s, SpentDocs.All(account)) {
		if err != nil {
			return store.Problem(err)
		}
		if err := fn(d.Start, d.Amount); err != nil {
			return err
		}
	}
	return nil
}

// Paid calls fn with each hour of an account from a time until another, in order; zero
// times are no bounds.
func Paid(ctx context.Context, s store.Lister, account string, from, until time.Time, fn func(Hour) error) error {
	return each(ctx, s, PaidDocs, account, from, until, fn)
}

// Owned calls fn with each hour of the vacants of a tenant, "" for the operator's.
func Owned(ctx context.Context, s store.Lister, tenant string, from, until time.Time, fn func(Hour) error) error {
	return each(ctx, s, OwnedDocs, tenant, from, until, fn)
}

func each(ctx context.Context, s store.Lister, kind store.Kind[Hour], of string, from, until time.Time, fn func(Hour) error) error {
	r := kind.All(of)
	if !from.IsZero() {
		r.First = from.UTC().Format(hourForm)
	}
	if !until.IsZero() {
		r.Last = until.UTC().Add(time.Hour - 1).Format(hourForm)
	}
	for h, err := range kind.Each(ctx, s, r) {
		if err != nil {
			return store.Problem(err)
		}
		if err := fn(h); err != nil {
			return err
		}
	}
	return nil
}
