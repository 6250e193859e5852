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
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
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

type stored struct {
	Format int `json:"format"`
	Counts
}

// format is the version of the stored form.
const format = 1

const hourForm = "2006-01-02T15"

// partitions of the documents.
const (
	paidPrefix  = "use#paid#"  // and the account
	ownedPrefix = "use#owned#" // and the tenant, "" for the operator
	spentPrefix = "use#spent#" // and the account; the number of a day is what it spent
)

func paidPartition(account string) string { return paidPrefix + account }

func ownedPartition(tenant string) string { return ownedPrefix + tenant }

func spentKey(account string, at time.Time) store.Key {
	return store.Key{Partition: spentPrefix + account, Sort: at.UTC().Format(time.DateOnly)}
}

func isOwned(k store.Key) bool { return strings.HasPrefix(k.Partition, ownedPrefix) }

func isSpent(k store.Key) bool { return strings.HasPrefix(k.Partition, spentPrefix) }

func paidKey(account string, hour time.Time, vacant, caller identity.ID) store.Key {
	return store.Key{Partition: paidPartition(account), Sort: hour.UTC().Format(hourForm) + "#" + vacant.String() + "#" + caller.String()}
}

func ownedKey(tenant string, hour time.Time, vacant identity.ID) store.Key {
	return store.Key{Partition: ownedPartition(tenant), Sort: hour.UTC().Format(hourForm) + "#" + vacant.String()}
}

// Decode reads a document of usage.
func Decode(d store.Doc) (h Hour, err error) {
	var s stored
	if err := json.Unmarshal(d.Data, &s); err != nil || s.Format != format {
		return h, notReadable(d.Key, err)
	}
	h, err = hourOf(d.Key)
	h.Counts = s.Counts
	return h, err
}

func notReadable(k store.Key, err error) error {
	return problem.Wrap(problem.Damaged, err, "usage %s is not readable", k)
}

// hourOf reads the key of a document of usage, and counts nothing.
func hourOf(k store.Key) (h Hour, err error) {
	wrong := func(err error) (Hour, error) { return h, notReadable(k, err) }
	parts := strings.Split(k.Sort, "#")
	if len(parts) != 2 && len(parts) != 3 {
		return wrong(errors.New("its key is none"))
	}
	if h.Start, err = time.Parse(hourForm, parts[0]); err != nil {
		return wrong(err)
	}
	if h.Vacant, err = identity.ParseID(parts[1]); err != nil {
		return wrong(err)
	}
	if len(parts) == 3 {
		if h.Caller, err = identity.ParseID(parts[2]); err != nil {
			return wrong(err)
		}
	}
	return h, nil
}

func encode(c Counts) []byte {
	b, err := json.Marshal(stored{format, c})
	if err != nil {
		panic(err) // it has numbers alone
	}
	return b
}

// Reader reads usage.
type Reader interface {
	Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error)
}

// PaidRange is all usage of an account, by its id.
func PaidRange(account identity.ID) store.Range {
	return store.Range{Partition: paidPartition(account.String())}
}

// ParsePaidRange returns the account of a PaidRange; ok is false for another range.
func ParsePaidRange(r store.Range) (account identity.ID, ok bool) {
	return accountOf(r, paidPrefix)
}

// SpentRange is what an account has spent, by its id.
func SpentRange(account identity.ID) store.Range {
	return store.Range{Partition: spentPrefix + account.String()}
}

// ParseSpentRange returns the account of a SpentRange; ok is false for another range.
func ParseSpentRange(r store.Range) (account identity.ID, ok bool) {
	return accountOf(r, spentPrefix)
}

func accountOf(r store.Range, prefix string) (account identity.ID, ok bool) {
	rest, ok := strings.CutPrefix(r.Partition, prefix)
	if !ok {
		return account, false
	}
	account, err := identity.ParseID(rest)
	return account, err == nil && r == store.Range{Partition: prefix + account.String()}
}

// notFolded is how long rows may be before usage has them.
const notFolded = 10 * time.Minute

// Complete is until when usage has all rows, if meters run.
func Complete(now time.Time) time.Time { return now.Add(-notFolded) }

// Spent calls fn with what an account has spent by UTC day, on calls and bookings. A day is
// below 0 if credits of earlier bookings are more.
func Spent(ctx context.Context, s Reader, account string, fn func(day time.Time, amount money.Amount) error) error {
	return documents(ctx, s, store.Range{Partition: spentPrefix + account}, func(d store.Doc) error {
		day, err := time.Parse(time.DateOnly, d.Key.Sort)
		if err != nil {
			return notReadable(d.Key, err)
		}
		return fn(day, money.Amount(d.Number))
	})
}

// Paid calls fn with each hour of an account from a time until another, in order; zero
// times are no bounds.
func Paid(ctx context.Context, s Reader, account string, from, until time.Time, fn func(Hour) error) error {
	return each(ctx, s, paidPartition(account), from, until, fn)
}

// Owned calls fn with each hour of the vacants of a tenant, "" for the operator's.
func Owned(ctx context.Context, s Reader, tenant string, from, until time.Time, fn func(Hour) error) error {
	return each(ctx, s, ownedPartition(tenant), from, until, fn)
}

func each(ctx context.Context, s Reader, partition string, from, until time.Time, fn func(Hour) error) error {
	r := store.Range{Partition: partition}
	if !from.IsZero() {
		r.First = from.UTC().Format(hourForm)
	}
	if !until.IsZero() {
		r.Last = until.UTC().Add(time.Hour - 1).Format(hourForm)
	}
	return documents(ctx, s, r, func(d store.Doc) error {
		h, err := Decode(d)
		if err != nil {
			return err
		}
		return fn(h)
	})
}

// documents calls fn with the documents of a range, in order.
func documents(ctx context.Context, s Reader, r store.Range, fn func(store.Doc) error) error {
	for cursor := ""; ; {
		docs, next, err := s.Docs(ctx, r, store.MaxPage, cursor)
		if err != nil {
			return store.Problem(err)
		}
		for _, d := range docs {
			if err := fn(d); err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		cursor = next
	}
}
