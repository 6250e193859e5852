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
	Corrected int `json:"corrected"`
	Changed   int `json:"changed"` // documents that changed concurrently and were not corrected
}

// Recounter corrects usage from all rows of a host, including rows that its feed no longer has. It
// reads each document before its rows, then folds the feed, and corrects only documents with an
// unchanged version. It skips hours and days that ended less than ten minutes ago, because a feed
// may return a row later than a read of the table does. If a row cannot be read, no document is
// corrected, because usage may be the only record of this row.
type Recounter struct {
	Meter *Meter
	Rows  store.Walker
	Fold  func(ctx context.Context) error
}

func (r *Recounter) Recount(ctx context.Context) (result RecountResult, err error) {
	c := &recountState{Recounter: r, completeUntil: CompleteUntil(r.Meter.Now()), loadedPartitions: map[string]bool{}, docs: map[store.Key]store.Doc{}, rowSums: sums{}}
	if err := c.readAccountDocuments(ctx); err != nil {
		return result, err
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
		return result, err
	}
	if err := r.Fold(ctx); err != nil {
		return result, err
	}
	return c.correct(ctx)
}

type recountState struct {
	*Recounter
	completeUntil    time.Time // time before which usage contains all rows
	loadedPartitions map[string]bool
	docs             map[store.Key]store.Doc // read before the rows of their partition
	rowSums          sums
}

func (c *recountState) readAccountDocuments(ctx context.Context) error {
	accounts := billing.New(billing.Config{Store: c.Meter.Store, Now: c.Meter.Now})
	ranges := []store.Range{EarnedDocs.Range("")}
	for a, err := range accounts.AllAccounts(ctx) {
		if err != nil {
			return err
		}
		ranges = append(ranges, PaidDocs.Range(a.ID), SubjectDocs.Range(a.ID), SpentDocs.Range(a.ID), EarnedDocs.Range(a.Tenant))
	}
	for _, r := range ranges {
		if err := c.readDocuments(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (c *recountState) readDocuments(ctx context.Context, r store.Range) error {
	if c.loadedPartitions[r.Partition] {
		return nil
	}
	c.loadedPartitions[r.Partition] = true
	for d, err := range store.Documents(ctx, c.Meter.Store, r) {
		if err != nil {
			return store.AsProblem(err)
		}
		c.docs[d.Key] = d
	}
	return nil
}

// correct skips the documents of accounts that do not exist. The verify command reports them.
func (c *recountState) correct(ctx context.Context) (result RecountResult, err error) {
	for k := range c.docs {
		if c.rowSums[k] == nil {
			c.rowSums[k] = &Counts{}
		}
	}
	for _, k := range c.rowSums.keys() {
		end, ok := periodEnd(k)
		d, want := c.docs[k], *c.rowSums[k]
		if !ok || end.After(c.completeUntil) || !c.loadedPartitions[k.Partition] || hasCounts(d, want) {
			continue
		}
		id, err := c.Meter.updater().NewWriteID()
		var w store.Put
		if err == nil {
			w, err = newPut(k, d.Version, id, want)
		}
		if err == nil {
			err = c.Meter.updater().Commit(ctx, w)
		}
		switch {
		case store.IsConflict(err):
			result.Changed++
		case err != nil:
			return result, store.AsProblem(err)
		default:
			result.Corrected++
		}
	}
	return result, nil
}

func periodEnd(k store.Key) (end time.Time, ok bool) {
	layout, duration := hourLayout, time.Hour
	if isSpentKey(k) {
		layout, duration = time.DateOnly, 24*time.Hour
	}
	start, err := time.Parse(layout, k.Sort[:min(len(k.Sort), len(layout))])
	return start.Add(duration), err == nil
}

func hasCounts(d store.Doc, want Counts) bool {
	switch {
	case d.Version == 0:
		return want == Counts{}
	case isSpentKey(d.Key):
		return d.Number == int64(want.Charge)
	}
	h, err := hourCodec.Decode(d)
	return err == nil && h.Counts == want && d.Number == int64(want.Charge)
}

func (c *recountState) countStream(ctx context.Context, v store.View, s store.Stream) error {
	switch ids := s.IDs(); {
	case s.Kind() == booking.KindBooking:
	case s.Kind() == store.KindResponse && len(ids) == 2:
		owner, err := c.Meter.cachedTenant(ctx, ids[1])
		if err == nil {
			err = c.readDocuments(ctx, EarnedDocs.Range(owner))
		}
		if err != nil {
			return err
		}
	default:
		return nil
	}
	requests := &requestReader{view: v, nextPosition: 1, requests: map[uint64]*call.RequestRow{}}
	for position := uint64(1); ; {
		page, err := v.Rows(ctx, s, position, store.MaxPage, store.Ascending)
		if err != nil || len(page) == 0 {
			return store.AsProblem(err)
		}
		for _, row := range page {
			additions, _, err := c.Meter.rowAdditions(ctx, store.FeedRow{Stream: s, Row: row}, requests.find)
			if errors.Is(err, errUnreadable) {
				return problem.Wrap(problem.Damaged, err, "%s: usage was not corrected; run verify to list all damage", problem.AsError(err).Text())
			}
			if err != nil {
				return err
			}
			c.rowSums.add(additions)
		}
		position = page[len(page)-1].Position + 1
	}
}

type requestReader struct {
	view         store.View
	nextPosition uint64
	requests     map[uint64]*call.RequestRow
}

func (r *requestReader) find(ctx context.Context, pair call.Pair, position uint64) (*call.RequestRow, error) {
	for r.nextPosition <= position {
		page, err := r.view.Rows(ctx, pair.Requests(), r.nextPosition, store.MaxPage, store.Ascending)
		if err != nil {
			return nil, store.AsProblem(err)
		}
		if len(page) == 0 {
			break
		}
		for _, row := range page {
			r.requests[row.Position], r.nextPosition = decodeCallRequest(row), row.Position+1
		}
	}
	q := r.requests[position]
	if q == nil {
		return nil, unreadableError(pair.Requests(), position, nil)
	}
	delete(r.requests, position)
	return q, nil
}
