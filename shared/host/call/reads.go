package call

import (
	"context"
	"fmt"
	"math"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Pair is an ordered pair of caller and called vacant.
type Pair struct{ Caller, Vacant identity.ID }

// Requests returns the stream of the pair's calls and resets.
func (p Pair) Requests() store.Stream {
	return store.StreamOf(store.KindRequest, p.Caller, p.Vacant)
}

// Responses returns the stream of the pair's answers and voids.
func (p Pair) Responses() store.Stream {
	return store.StreamOf(store.KindResponse, p.Caller, p.Vacant)
}

// read reads both tips concurrently.
func (h *Host) read(ctx context.Context, p Pair) (tips, error) {
	var v tips
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { v.req, err = h.requestTip(ctx, p); return err })
	g.Go(func() (err error) { v.rsp, err = h.responseTip(ctx, p); return err })
	if err := g.Wait(); err != nil {
		return tips{}, err
	}
	h.tipCache.learn(p, v)
	return v, nil
}

func (h *Host) requestTip(ctx context.Context, p Pair) (RequestRow, error) {
	row, err := h.Store.Tip(ctx, p.Requests())
	if err != nil || row.Position == 0 {
		return RequestRow{}, h.unavailable(err)
	}
	r, err := DecodeRequest(row)
	return r, h.damaged(p.Requests(), err)
}

func (h *Host) responseTip(ctx context.Context, p Pair) (ResponseRow, error) {
	row, err := h.Store.Tip(ctx, p.Responses())
	if err != nil || row.Position == 0 {
		return ResponseRow{}, h.unavailable(err)
	}
	r, err := DecodeResponse(row)
	return r, h.damaged(p.Responses(), err)
}

// request reads one row of the request stream; ok is false if there is none.
func (h *Host) request(ctx context.Context, p Pair, position uint64) (r RequestRow, ok bool, err error) {
	rows, err := h.Store.Rows(ctx, p.Requests(), position, 1, store.Ascending)
	if err != nil || len(rows) == 0 || rows[0].Position != position {
		return r, false, h.unavailable(err)
	}
	r, err = DecodeRequest(rows[0])
	return r, err == nil, h.damaged(p.Requests(), err)
}

// decided returns the response row that names a request, or nil, and the last
// row it read. It reads from the row at ResponseTip on, so that this row and
// those after it come from one read: a row that lands between two reads must
// not be skipped. It stops at a row that closes the request; without this stop,
// asking about an old request would scan every later row.
func (h *Host) decided(ctx context.Context, pair Pair, r *RequestRow) (d *ResponseRow, last ResponseRow, err error) {
	const page = 64
	seen, next, holes := r.ResponseTip, max(r.ResponseTip, 1), 0
	for {
		rows, err := h.Store.Rows(ctx, pair.Responses(), next, page, store.Ascending)
		if err != nil {
			return nil, last, h.unavailable(err)
		}
		if len(rows) == 0 { // a page may be short: only an empty one is the end
			if last.Position < seen {
				err = h.damaged(pair.Responses(), fmt.Errorf("%w: position %d is missing", errRow, seen))
			}
			return nil, last, err
		}
		if rows[0].Position != next {
			// A hole is an append in progress; a second read finds it.
			if holes++; holes > 1 {
				return nil, last, h.damaged(pair.Responses(), fmt.Errorf("%w: position %d is missing", errRow, next))
			}
			continue
		}
		for _, row := range rows {
			if last, err = DecodeResponse(row); err != nil {
				return nil, last, h.damaged(pair.Responses(), err)
			}
			if last.Request == r.Position && last.Position > seen {
				return &last, last, nil
			}
			if closedBy(last, r) {
				return nil, last, nil
			}
		}
		next, holes = last.Position+1, 0
	}
}

// Settled returns the call at a position of the request stream and its answer, if the call had a
// price. With position 0 it is the pair's last answered call that was charged. ok is false if
// there is no such call.
func (h *Host) Settled(ctx context.Context, pair Pair, position uint64) (q RequestRow, a ResponseRow, ok bool, err error) {
	if position == 0 {
		rows, err := h.Store.Rows(ctx, pair.Responses(), math.MaxInt64, lastSettled, store.Descending)
		if err != nil {
			return q, a, false, h.unavailable(err)
		}
		for _, row := range rows {
			r, err := DecodeResponse(row)
			if err != nil {
				return q, a, false, h.damaged(pair.Responses(), err)
			}
			if r.Charged {
				position = r.Request
				break
			}
		}
		if position == 0 {
			return q, a, false, nil
		}
	}
	q, d, err := h.Answered(ctx, pair, position)
	if problem.Is(err, problem.NotFound) {
		return q, a, false, nil
	}
	if err != nil || d == nil || q.PaidBy == PaidByNobody {
		return q, a, false, err
	}
	return q, *d, true, nil
}

// Answered returns the call at a position of the request stream, and its answer, or nil if it has
// none. The error is NotFound if no call is there.
func (h *Host) Answered(ctx context.Context, pair Pair, position uint64) (q RequestRow, a *ResponseRow, err error) {
	if q, err = h.callAt(ctx, pair, position); err != nil {
		return q, nil, err
	}
	d, _, err := h.decided(ctx, pair, &q)
	if err != nil || d == nil || d.Kind != RowAnswer {
		return q, nil, err
	}
	return q, d, nil
}

// lastSettled bounds the decisions that are searched for the last answer with a price.
const lastSettled = 100

// unavailable turns a store error into one of kind Unavailable. A store error
// is never reported as a replay (PROTOCOL §23 A11).
func (h *Host) unavailable(err error) error {
	if err == nil {
		return nil
	}
	return problem.Wrap(problem.Unavailable, err, "storage is unavailable; the same request may be sent again")
}

// damaged reports a row that does not decode: not the caller's fault, and not
// fixed by a retry.
func (h *Host) damaged(s store.Stream, err error) error {
	if err == nil {
		return nil
	}
	return problem.Wrap(problem.Damaged, err, "stored history of this pair is damaged; the operator runs verify")
}
