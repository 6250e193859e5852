package usage

import (
	"context"
	"errors"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

type RecountResult struct {
	Corrected int `json:"corrected"` // documents that differed from the rows and were corrected
	Changed   int `json:"changed"`   // documents that a meter changed concurrently; they were not corrected
}

// Recounter corrects usage from all rows of a host, including rows that its feed no longer has.
//
// If a document has the same version before its rows are read and after all rows are folded, it should
// contain exactly these rows. Recounter then writes their sum, unless the version has changed. Hours and
// days that ended less than ten minutes ago are not corrected, because the feed of a DynamoDB table may
// return a row later than a read of the table does. If a row cannot be read, no document is corrected,
// because usage may be the only record of this row.
type Recounter struct {
	Meter *Meter       // only Fold reads the Meter's Feed
	Rows  store.Walker // reads all streams of the store
	// Fold folds all rows of the feed.
	Fold func(ctx context.Context) error
}

// Recount adds up all rows, folds the rows that usage does not contain yet, and then corrects the
// documents that differ.
func (r *Recounter) Recount(ctx context.Context) (done RecountResult, err error) {
	c := &recount{Recounter: r, complete: CompleteUntil(r.Meter.Now()), read: map[string]bool{}, before: map[store.Key]store.Doc{}, rows: sums{}}
	if err := c.readAccounts(ctx); err != nil {
		return done, err
	}
	if err := r.Rows.Walk(ctx, func(v store.View) error {
		for s, err := range store.Streams(ctx, v, "") {
			if err != nil {
				return store.AsProblem(err)
			}
			if err := c.countStream(ctx, v, s); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return done, err
	}
	if err := r.Fold(ctx); err != nil {
		return done, err
	}
	return c.correct(ctx)
}

// recount is the state of a Recount.
type recount struct {
	*Recounter
	complete time.Time               // time before which usage contains all rows
	read     map[string]bool         // partitions whose documents are in before
	before   map[store.Key]store.Doc // documents that were read before the rows of their partition
	rows     sums                    // sums of all rows
}

func (c *recount) readAccounts(ctx context.Context) error {
	accounts := billing.New(billing.Config{Store: c.Meter.Store, Now: c.Meter.Now})
	ranges := []store.Range{OwnedDocs.Range("")}
	for a, err := range accounts.AllAccounts(ctx) {
		if err != nil {
			return err
		}
		ranges = append(ranges, PaidDocs.Range(a.ID), SubjectDocs.Range(a.ID), SpentDocs.Range(a.ID), OwnedDocs.Range(a.Tenant))
	}
	for _, r := range ranges {
		if err := c.readDocuments(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (c *recount) readDocuments(ctx context.Context, r store.Range) error {
	if c.read[r.Partition] {
		return nil
	}
	c.read[r.Partition] = true
	for d, err := range store.Documents(ctx, c.Meter.Store, r) {
		if err != nil {
			return store.AsProblem(err)
		}
		c.before[d.Key] = d
	}
	return nil
}

// correct writes the documents that differ from the rows. It skips the documents of missing
// accounts, which verify reports.
func (c *recount) correct(ctx context.Context) (done RecountResult, err error) {
	for k := range c.before {
		if c.rows[k] == nil {
			c.rows[k] = &Counts{}
		}
	}
	for _, k := range c.rows.keys() {
		ends, ok := endOf(k)
		d, want := c.before[k], *c.rows[k]
		if !ok || ends.After(c.complete) || !c.read[k.Partition] || matches(d, want) {
			continue
		}
		id, err := c.Meter.updater().NewWriteID()
		var w store.Put
		if err == nil {
			w, err = put(k, d.Version, id, want)
		}
		if err == nil {
			err = c.Meter.updater().Commit(ctx, w)
		}
		switch {
		case store.IsConflict(err):
			done.Changed++
		case err != nil:
			return done, store.AsProblem(err)
		default:
			done.Corrected++
		}
	}
	return done, nil
}

func endOf(k store.Key) (end time.Time, ok bool) {
	form, long := hourForm, time.Hour
	if isSpent(k) {
		form, long = time.DateOnly, 24*time.Hour
	}
	start, err := time.Parse(form, k.Sort[:min(len(k.Sort), len(form))])
	return start.Add(long), err == nil
}

func matches(d store.Doc, want Counts) bool {
	switch {
	case d.Version == 0:
		return want == Counts{}
	case isSpent(d.Key):
		return d.Number == int64(want.Charge)
	}
	h, err := hours.Decode(d)
	return err == nil && h.Counts == want && d.Number == int64(want.Charge)
}

func (c *recount) countStream(ctx context.Context, v store.View, s store.Stream) error {
	switch ids := s.IDs(); {
	case s.Kind() == booking.KindBooking:
	case s.Kind() == store.KindResponse && len(ids) == 2:
		// The tenant of the vacant may have no account, so readAccounts has not read its documents.
		owner, err := c.Meter.owner(ctx, ids[1])
		if err == nil {
			err = c.readDocuments(ctx, OwnedDocs.Range(owner))
		}
		if err != nil {
			return err
		}
	default:
		return nil
	}
	requests := &requestReader{view: v, next: 1, undecided: map[uint64]*call.RequestRow{}}
	for from := uint64(1); ; {
		page, err := v.Rows(ctx, s, from, store.MaxPage, store.Ascending)
		if err != nil || len(page) == 0 {
			return store.AsProblem(err)
		}
		for _, row := range page {
			adds, _, err := c.Meter.counts(ctx, store.FeedRow{Stream: s, Row: row}, requests.find)
			if errors.Is(err, errUnreadable) {
				return problem.Wrap(problem.Damaged, err, "%s: usage was not corrected; run verify to list all damage", problem.AsError(err).Text())
			}
			if err != nil {
				return err
			}
			c.rows.add(adds)
		}
		from = page[len(page)-1].Position + 1
	}
}

// requestReader reads the requests of a pair in order, up to the request that find looks up. It retains
// the other requests that it has read until find looks them up.
type requestReader struct {
	view      store.View
	next      uint64
	undecided map[uint64]*call.RequestRow
}

func (r *requestReader) find(ctx context.Context, pair call.Pair, position uint64) (*call.RequestRow, error) {
	for r.next <= position {
		page, err := r.view.Rows(ctx, pair.Requests(), r.next, store.MaxPage, store.Ascending)
		if err != nil {
			return nil, store.AsProblem(err)
		}
		if len(page) == 0 {
			break
		}
		for _, row := range page {
			r.undecided[row.Position], r.next = requestOf(row), row.Position+1
		}
	}
	q := r.undecided[position]
	if q == nil {
		return nil, unreadable(pair.Requests(), position, nil)
	}
	delete(r.undecided, position)
	return q, nil
}
