package usage

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Recounted is what a Recount did.
type Recounted struct {
	Corrected int `json:"corrected"` // documents that said something else than the rows
	Changed   int `json:"changed"`   // documents that a meter changed meanwhile; they are as they were
}

// Recounter corrects usage by all rows that a host has, also those that its feed does not
// have any more.
//
// The invariant: a document whose version is the same before the rows are read and after
// they are folded counts just these rows; so what they say is written at that version. Of
// hours and days that are not over, and not complete, it corrects nothing: the stream of a
// table may show a row later than a read of the table. With a row that cannot be read it
// corrects nothing at all, because usage may be all that is left of it.
type Recounter struct {
	Meter *Meter // its Feed is for Fold alone
	Rows  store.Walker
	// Fold folds all rows that there are.
	Fold func(ctx context.Context) error
}

// Recount reads all rows, folds what is not folded, and corrects.
func (r *Recounter) Recount(ctx context.Context) (done Recounted, err error) {
	complete := Complete(r.Meter.Now())
	partitions, err := r.partitions(ctx)
	if err != nil {
		return done, err
	}
	var before map[store.Key]store.Doc
	var rows sums
	for unread := true; unread; {
		if before, err = r.documents(ctx, partitions); err != nil {
			return done, err
		}
		if rows, err = r.count(ctx); err != nil {
			return done, err
		}
		// The vacants of a tenant without an account are met in the rows alone.
		unread = false
		for k := range rows {
			if !partitions[k.Partition] {
				partitions[k.Partition], unread = true, true
			}
		}
	}
	if err := r.Fold(ctx); err != nil {
		return done, err
	}
	for k := range before {
		if rows[k] == nil {
			rows[k] = &Counts{}
		}
	}
	for _, k := range rows.keys() {
		ends, ok := endOf(k)
		if !ok || ends.After(complete) {
			continue
		}
		d, want := before[k], *rows[k]
		if says(d, want) {
			continue
		}
		id, err := r.Meter.updater().NewWriteID()
		if err == nil {
			err = r.Meter.updater().Commit(ctx, put(k, d.Version, id, want))
		}
		switch {
		case store.IsConflict(err):
			done.Changed++
		case err != nil:
			return done, store.Problem(err)
		default:
			done.Corrected++
		}
	}
	return done, nil
}

// endOf is the end of the hour or the day of a document; ok is false if its key has none.
func endOf(k store.Key) (end time.Time, ok bool) {
	form, long := hourForm, time.Hour
	if isSpent(k) {
		form, long = time.DateOnly, 24*time.Hour
	}
	start, err := time.Parse(form, k.Sort[:min(len(k.Sort), len(form))])
	return start.Add(long), err == nil
}

// says reports whether a document says what it should.
func says(d store.Doc, want Counts) bool {
	switch {
	case d.Version == 0:
		return want == Counts{}
	case isSpent(d.Key):
		return d.Number == int64(want.Charge)
	}
	h, err := Decode(d)
	return err == nil && h.Counts == want && d.Number == int64(want.Charge)
}

// partitions are those of the accounts and of their tenants' vacants.
func (r *Recounter) partitions(ctx context.Context) (map[string]bool, error) {
	all := map[string]bool{ownedPartition(""): true}
	accounts := billing.New(billing.Config{Store: r.Meter.Store, Now: r.Meter.Now})
	for cursor := ""; ; {
		page, next, err := accounts.Accounts(ctx, cursor, store.MaxPage)
		if err != nil {
			return nil, err
		}
		for _, a := range page {
			all[paidPartition(a.ID)], all[spentPrefix+a.ID], all[ownedPartition(a.Tenant)] = true, true, true
		}
		if cursor = next; cursor == "" {
			return all, nil
		}
	}
}

// documents reads all documents of partitions.
func (r *Recounter) documents(ctx context.Context, partitions map[string]bool) (map[store.Key]store.Doc, error) {
	all := map[store.Key]store.Doc{}
	for _, p := range slices.Sorted(maps.Keys(partitions)) {
		err := documents(ctx, r.Meter.Store, store.Range{Partition: p}, func(d store.Doc) error {
			all[d.Key] = d
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// count is what all rows add up to.
func (r *Recounter) count(ctx context.Context) (sums, error) {
	all := sums{}
	err := r.Rows.Walk(ctx, func(v store.View) error {
		for cursor, more := "", true; more; more = cursor != "" {
			page, next, err := v.Streams(ctx, "", store.MaxPage, cursor)
			if err != nil {
				return store.Problem(err)
			}
			for _, s := range page {
				if k := s.Kind(); k != store.KindResponse && k != booking.KindBooking {
					continue
				}
				if err := r.countStream(ctx, v, s, all); err != nil {
					return err
				}
			}
			cursor = next
		}
		return nil
	})
	return all, err
}

func (r *Recounter) countStream(ctx context.Context, v store.View, s store.Stream, all sums) error {
	ahead := &ahead{view: v, next: 1, open: map[uint64]*call.RequestRow{}}
	for from := uint64(1); ; {
		page, err := v.Rows(ctx, s, from, store.MaxPage, store.Ascending)
		if err != nil || len(page) == 0 {
			return store.Problem(err)
		}
		for _, row := range page {
			adds, _, err := r.Meter.counts(ctx, store.FeedRow{Stream: s, Row: row}, ahead.find)
			if errors.Is(err, errUnreadable) {
				return problem.Wrap(problem.Damaged, err, "%s: nothing is corrected; verify names all that is damaged", problem.Of(err).Text())
			}
			if err != nil {
				return err
			}
			all.add(adds)
		}
		from = page[len(page)-1].Position + 1
	}
}

// ahead reads the requests of a pair before their decisions, and keeps those that are open.
type ahead struct {
	view store.View
	next uint64
	open map[uint64]*call.RequestRow
}

func (a *ahead) find(ctx context.Context, pair call.Pair, position uint64) (*call.RequestRow, error) {
	for a.next <= position {
		page, err := a.view.Rows(ctx, pair.Requests(), a.next, store.MaxPage, store.Ascending)
		if err != nil {
			return nil, store.Problem(err)
		}
		if len(page) == 0 {
			break
		}
		for _, row := range page {
			a.open[row.Position], a.next = requestOf(row), row.Position+1
		}
	}
	q := a.open[position]
	if q == nil {
		return nil, unreadable(pair.Requests(), position, nil)
	}
	delete(a.open, position)
	return q, nil
}
