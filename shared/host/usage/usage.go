// Package usage folds the rows of calls into hourly totals: payments per account, vacant
// and caller, and earnings per owner and vacant. It folds an account's spending on calls
// and bookings into daily totals.
//
// The invariant: one commit changes the offset in the feed and the documents of the rows
// before it, each at its version. So a row counts once, even if several processes read it
// several times, or a process dies in between.
package usage

import (
	"context"
	"errors"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Counts are totals of an hour.
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

// Sub takes other from c.
func (c *Counts) Sub(other Counts) {
	c.Answers -= other.Answers
	c.Voids -= other.Voids
	c.Charge -= other.Charge
	c.Fee -= other.Fee
	c.In -= other.In
	c.Out -= other.Out
	c.Unreported -= other.Unreported
}

// Hour has the counts of a UTC hour: of an account, a vacant and a caller; or, with a zero
// Caller, of an owner and its vacant; or of an account and one of its subjects.
type Hour struct {
	Start   time.Time   `json:"hour"`
	Vacant  identity.ID `json:"vacant"`
	Caller  identity.ID `json:"caller,omitzero"`
	Subject string      `json:"subject,omitempty"`
	Counts
}

const hourForm = "2006-01-02T15"

// Day is the spending of an account on a UTC day.
type Day struct {
	Start  time.Time
	Amount money.Amount
}

// notFolded is the longest time after which usage contains a row, if a meter
// runs.
const notFolded = 10 * time.Minute

// Complete returns the time before which usage contains every row, provided a
// meter is running.
func Complete(now time.Time) time.Time { return now.Add(-notFolded) }

// Spent calls fn with an account's spending on calls and bookings for each UTC day. The
// spending of a day is negative if credits for earlier bookings exceed it.
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

// Paid calls fn with each hour of an account from a time until another, in order. A
// zero time does not bound the range.
func Paid(ctx context.Context, s store.Lister, account string, from, until time.Time, fn func(Hour) error) error {
	return each(ctx, s, PaidDocs, account, from, until, fn)
}

// BySubject calls fn with each hour of an account's subjects.
func BySubject(ctx context.Context, s store.Lister, account string, from, until time.Time, fn func(Hour) error) error {
	return each(ctx, s, SubjectDocs, account, from, until, fn)
}

// Owned calls fn with each hour of the vacants of a tenant, "" for the operator's.
func Owned(ctx context.Context, s store.Lister, tenant string, from, until time.Time, fn func(Hour) error) error {
	return each(ctx, s, OwnedDocs, tenant, from, until, fn)
}

// maxCounted bounds the documents that CallsOfDay reads: a day of 100 vacants that are
// called every hour.
const maxCounted = 2400

// CallsOfDay returns the decided calls of each vacant of a tenant, "" for the operator's, on
// the UTC day of now. It returns nil if there are more than maxCounted hours to add up.
func CallsOfDay(ctx context.Context, s store.Lister, tenant string, now time.Time) (calls map[identity.ID]uint64, err error) {
	calls = map[identity.ID]uint64{}
	counted, enough := 0, errors.New("enough")
	err = Owned(ctx, s, tenant, now.UTC().Truncate(24*time.Hour), time.Time{}, func(h Hour) error {
		if counted++; counted > maxCounted {
			return enough
		}
		calls[h.Vacant] += h.Answers + h.Voids
		return nil
	})
	if err == enough {
		return nil, nil
	}
	return calls, err
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
