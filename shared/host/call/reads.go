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

// findDecidingRowPaged reads the response rows from ResponseTip on, without gaps. last is the last
// row that it read.
func (h *Host) findDecidingRowPaged(ctx context.Context, pair Pair, r *RequestRow, pageSize int) (d *ResponseRow, last ResponseRow, err error) {
	tipPosition, next, holes := r.ResponseTip, max(r.ResponseTip, 1), 0
	for {
		rows, err := h.Store.Rows(ctx, pair.Responses(), next, pageSize, store.Ascending)
		if err != nil {
			return nil, last, h.unavailableError(err)
		}
		if len(rows) == 0 { // a short page may precede others
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

// FindPricedCall returns a call with a price and its answer. If position is 0, it returns the
// pair's last answered call with a price.
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

// LoadCallAndAnswer returns a nil answer if the call is not answered. If there is no call, the
// error has kind NotFound.
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

const MaxSearchedRequests = 8

// FindCallByHash returns the call whose envelope has the given hash, and its answer or nil. It
// searches at position and in the last requests of the pair.
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

const maxSearchedDecisions = 100

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

// unavailableError ensures that a store error is never reported as a replay (PROTOCOL §23 A11).
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
