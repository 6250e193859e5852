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

func (p Pair) Requests() store.Stream {
	return store.StreamOf(store.KindRequest, p.Caller, p.Vacant)
}

func (p Pair) Responses() store.Stream {
	return store.StreamOf(store.KindResponse, p.Caller, p.Vacant)
}

func (h *Host) readTips(ctx context.Context, p Pair) (tips, error) {
	var v tips
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { v.req, err = h.readRequestTip(ctx, p); return err })
	g.Go(func() (err error) { v.rsp, err = h.readResponseTip(ctx, p); return err })
	if err := g.Wait(); err != nil {
		return tips{}, err
	}
	h.tipCache.put(p, v)
	return v, nil
}

func (h *Host) readRequestTip(ctx context.Context, p Pair) (RequestRow, error) {
	row, err := h.Store.Tip(ctx, p.Requests())
	if err != nil || row.Position == 0 {
		return RequestRow{}, h.unavailableError(err)
	}
	r, err := DecodeRequest(row)
	return r, h.damagedError(p.Requests(), err)
}

func (h *Host) readResponseTip(ctx context.Context, p Pair) (ResponseRow, error) {
	row, err := h.Store.Tip(ctx, p.Responses())
	if err != nil || row.Position == 0 {
		return ResponseRow{}, h.unavailableError(err)
	}
	r, err := DecodeResponse(row)
	return r, h.damagedError(p.Responses(), err)
}

func (h *Host) findRequestRow(ctx context.Context, p Pair, position uint64) (r RequestRow, ok bool, err error) {
	rows, err := h.Store.Rows(ctx, p.Requests(), position, 1, store.Ascending)
	if err != nil || len(rows) == 0 || rows[0].Position != position {
		return r, false, h.unavailableError(err)
	}
	r, err = DecodeRequest(rows[0])
	return r, err == nil, h.damagedError(p.Requests(), err)
}

func (h *Host) findDecidingRow(ctx context.Context, pair Pair, r *RequestRow) (d *ResponseRow, last ResponseRow, err error) {
	return h.findDecidingRowPaged(ctx, pair, r, maxDecisionPage)
}

const maxDecisionPage = 64

// findDecidingRowPaged returns the response row that decides a request, or nil, and the last row
// that it read. It starts at the row at ResponseTip, because a row written between two reads must
// not be skipped. It stops at a row that supersedes the request (tipSupersedes), because an old
// request may have many later rows. pageSize is the size of the first page, and each further page
// is twice as large, up to maxDecisionPage.
func (h *Host) findDecidingRowPaged(ctx context.Context, pair Pair, r *RequestRow, pageSize int) (d *ResponseRow, last ResponseRow, err error) {
	tipPosition, next, holes := r.ResponseTip, max(r.ResponseTip, 1), 0
	for {
		rows, err := h.Store.Rows(ctx, pair.Responses(), next, pageSize, store.Ascending)
		if err != nil {
			return nil, last, h.unavailableError(err)
		}
		if len(rows) == 0 { // only an empty page is the end, because other pages may be short
			if last.Position < tipPosition {
				err = h.damagedError(pair.Responses(), fmt.Errorf("%w: position %d is missing", errInvalidRow, tipPosition))
			}
			return nil, last, err
		}
		if rows[0].Position != next {
			// A hole is an append in progress, which a second read finds.
			if holes++; holes > 1 {
				return nil, last, h.damagedError(pair.Responses(), fmt.Errorf("%w: position %d is missing", errInvalidRow, next))
			}
			continue
		}
		for _, row := range rows {
			if last, err = DecodeResponse(row); err != nil {
				return nil, last, h.damagedError(pair.Responses(), err)
			}
			if last.RequestPosition == r.Position && last.Position > tipPosition {
				return &last, last, nil
			}
			if tipSupersedes(last, r) {
				return nil, last, nil
			}
		}
		next, holes, pageSize = last.Position+1, 0, min(2*pageSize, maxDecisionPage)
	}
}

// FindPricedCall returns the call at a position of the request stream and its answer, if the call
// had a price. If position is 0, it returns the pair's last answered call that was charged. If
// there is no such call, ok is false.
func (h *Host) FindPricedCall(ctx context.Context, pair Pair, position uint64) (callRow RequestRow, answer ResponseRow, ok bool, err error) {
	if position == 0 {
		last, err := h.FindLastDecision(ctx, pair, func(r *ResponseRow) bool { return r.IsPriced })
		if err != nil || last == nil {
			return callRow, answer, false, err
		}
		position = last.RequestPosition
	}
	callRow, d, err := h.LoadCallAndAnswer(ctx, pair, position)
	if problem.Is(err, problem.NotFound) {
		return callRow, answer, false, nil
	}
	if err != nil || d == nil || callRow.PaidBy == Unpriced {
		return callRow, answer, false, err
	}
	return callRow, *d, true, nil
}

// LoadCallAndAnswer returns the call at a position of the request stream and its answer, or nil if
// it is not answered. If there is no call at the position, the error has kind NotFound.
func (h *Host) LoadCallAndAnswer(ctx context.Context, pair Pair, position uint64) (callRow RequestRow, answer *ResponseRow, err error) {
	if callRow, err = h.loadCall(ctx, pair, position); err != nil {
		return callRow, nil, err
	}
	d, _, err := h.findDecidingRowPaged(ctx, pair, &callRow, 2) // most calls are decided by the next row
	if err != nil || d == nil || d.Kind != RowAnswer {
		return callRow, nil, err
	}
	return callRow, d, nil
}

// MaxSearchedRequests limits the number of requests in which FindCallByHash searches for a call.
const MaxSearchedRequests = 8

// FindCallByHash returns the call of a pair whose envelope has the given hash, and its answer. It
// reads the request at position, unless position is 0, and then searches the last
// MaxSearchedRequests requests. If there is no such call, or the call has no answer, answer is nil.
func (h *Host) FindCallByHash(ctx context.Context, pair Pair, position uint64, hash identity.Hash) (callRow RequestRow, answer *ResponseRow, err error) {
	if position > 0 {
		if callRow, answer, err = h.LoadCallAndAnswer(ctx, pair, position); err == nil && callRow.Hash == hash || err != nil && !problem.Is(err, problem.NotFound) {
			return callRow, answer, err
		}
	}
	rows, err := h.Store.Rows(ctx, pair.Requests(), math.MaxInt64, MaxSearchedRequests, store.Descending)
	if err != nil {
		return callRow, nil, h.unavailableError(err)
	}
	for _, row := range rows {
		if callRow, err = DecodeRequest(row); err != nil {
			return callRow, nil, h.damagedError(pair.Requests(), err)
		}
		if callRow.Hash == hash && callRow.Kind == RowCall {
			return h.LoadCallAndAnswer(ctx, pair, callRow.Position)
		}
	}
	return callRow, nil, nil
}

// maxSearchedDecisions limits the number of decisions in which FindLastDecision searches.
const maxSearchedDecisions = 100

// FindLastDecision returns the last decision of a pair for which matches returns true, or nil if
// none of the last maxSearchedDecisions matches.
func (h *Host) FindLastDecision(ctx context.Context, pair Pair, matches func(*ResponseRow) bool) (*ResponseRow, error) {
	rows, err := h.Store.Rows(ctx, pair.Responses(), math.MaxInt64, maxSearchedDecisions, store.Descending)
	if err != nil {
		return nil, h.unavailableError(err)
	}
	for _, row := range rows {
		r, err := DecodeResponse(row)
		if err != nil {
			return nil, h.damagedError(pair.Responses(), err)
		}
		if matches(&r) {
			return &r, nil
		}
	}
	return nil, nil
}

// unavailableError converts a store error to one of kind Unavailable. A store error must never be
// reported as a replay (PROTOCOL §23 A11).
func (h *Host) unavailableError(err error) error {
	if err == nil {
		return nil
	}
	return problem.Wrap(problem.Unavailable, err, "storage is unavailable; send the same request again")
}

func (h *Host) damagedError(s store.Stream, err error) error {
	if err == nil {
		return nil
	}
	return problem.Wrap(problem.Damaged, err, "stored history of this pair is damaged; the operator should run verify")
}
