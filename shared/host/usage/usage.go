// Package usage folds (adds up) the rows of calls into hourly totals of payments and earnings, and
// the spending of accounts into daily totals.
//
// A Meter reads the rows from the store's feed. One commit writes the totals together with the
// offset, the position in the feed up to which all rows are counted. The commit fails if another
// process has changed the offset. A row is therefore counted once, even if a process crashes.
package usage

import (
	"context"
	"errors"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type Counts struct {
	Answers      uint64       `json:"answers"`
	Voids        uint64       `json:"voids"` // calls that ended without an answer
	Charge       money.Amount `json:"charge"`
	Fee          money.Amount `json:"fee"` // the host's share of Charge
	InputTokens  uint64       `json:"in"`
	OutputTokens uint64       `json:"out"`
	// UnreportedAnswers counts answers with a token price whose agents did not report all tokens.
	UnreportedAnswers uint64 `json:"unreported,omitempty"`
}

func (c *Counts) Add(other Counts) {
	c.Answers += other.Answers
	c.Voids += other.Voids
	c.Charge += other.Charge
	c.Fee += other.Fee
	c.InputTokens += other.InputTokens
	c.OutputTokens += other.OutputTokens
	c.UnreportedAnswers += other.UnreportedAnswers
}

func (c *Counts) Sub(other Counts) {
	c.Answers -= other.Answers
	c.Voids -= other.Voids
	c.Charge -= other.Charge
	c.Fee -= other.Fee
	c.InputTokens -= other.InputTokens
	c.OutputTokens -= other.OutputTokens
	c.UnreportedAnswers -= other.UnreportedAnswers
}

type Hour struct {
	Start   time.Time   `json:"hour"`
	Vacant  identity.ID `json:"vacant"`
	Caller  identity.ID `json:"caller,omitzero"`
	Subject string      `json:"subject,omitempty"`
	Counts
}

const hourLayout = "2006-01-02T15"

type Day struct {
	Start  time.Time
	Amount money.Amount
}

const maxFoldDelay = 10 * time.Minute

// CompleteUntil returns the time before which usage contains all rows, provided that a meter is
// running.
func CompleteUntil(now time.Time) time.Time { return now.Add(-maxFoldDelay) }

// EachSpentDay calls fn with an account's spending per UTC day. The amount is negative if refunds
// for earlier bookings exceed the charges.
func EachSpentDay(ctx context.Context, s store.Lister, account string, fn func(day time.Time, amount money.Amount) error) error {
	for d, err := range SpentDocs.Each(ctx, s, SpentDocs.Range(account)) {
		if err != nil {
			return store.AsProblem(err)
		}
		if err := fn(d.Start, d.Amount); err != nil {
			return err
		}
	}
	return nil
}

// EachPaidHour calls fn with the hours of an account in order. A zero time does not limit the
// range.
func EachPaidHour(ctx context.Context, s store.Lister, account string, from, until time.Time, fn func(Hour) error) error {
	return eachHour(ctx, s, PaidDocs, account, from, until, fn)
}

func EachSubjectHour(ctx context.Context, s store.Lister, account string, from, until time.Time, fn func(Hour) error) error {
	return eachHour(ctx, s, SubjectDocs, account, from, until, fn)
}

// EachEarnedHour calls fn with the hours of a tenant's vacants. An empty tenant means the operator.
func EachEarnedHour(ctx context.Context, s store.Lister, tenant string, from, until time.Time, fn func(Hour) error) error {
	return eachHour(ctx, s, EarnedDocs, tenant, from, until, fn)
}

// maxDayDocs suffices for 100 vacants that are called in every hour of a day.
const maxDayDocs = 2400

// CallsOfDay counts the decided calls per vacant of a tenant on the UTC day of now. It returns nil
// if the tenant has more than maxDayDocs documents.
func CallsOfDay(ctx context.Context, s store.Lister, tenant string, now time.Time) (calls map[identity.ID]uint64, err error) {
	calls = map[identity.ID]uint64{}
	docCount, errTooMany := 0, errors.New("enough")
	err = EachEarnedHour(ctx, s, tenant, now.UTC().Truncate(24*time.Hour), time.Time{}, func(h Hour) error {
		if docCount++; docCount > maxDayDocs {
			return errTooMany
		}
		calls[h.Vacant] += h.Answers + h.Voids
		return nil
	})
	if err == errTooMany {
		return nil, nil
	}
	return calls, err
}

func eachHour(ctx context.Context, s store.Lister, kind store.DocKind[Hour], owner string, from, until time.Time, fn func(Hour) error) error {
	r := kind.Range(owner)
	if !from.IsZero() {
		r.Start = from.UTC().Format(hourLayout)
	}
	if !until.IsZero() {
		r.End = until.UTC().Add(time.Hour - 1).Format(hourLayout)
	}
	for h, err := range kind.Each(ctx, s, r) {
		if err != nil {
			return store.AsProblem(err)
		}
		if err := fn(h); err != nil {
			return err
		}
	}
	return nil
}
