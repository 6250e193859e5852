package call

import (
	"context"
	"fmt"
	"sync"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"golang.org/x/sync/errgroup"
)

// Pair is an ordered pair: who calls, and who is called.
type Pair struct{ Caller, Vacant identity.ID }

// Requests is the stream of the pair's calls and resets.
func (p Pair) Requests() store.Stream {
	return store.StreamOf(store.KindRequest, p.Caller, p.Vacant)
}

// Responses is the stream of what was decided of them.
func (p Pair) Responses() store.Stream {
	return store.StreamOf(store.KindResponse, p.Caller, p.Vacant)
}

// view is where both streams of a pair stood when they were read: the last
// rows, zero if there are none.
type view struct {
	req RequestRow
	rsp ResponseRow
}

// views remembers the tips of recent pairs, both together. What it says may be
// old: an append by it fails harmlessly, and nothing is refused by it. It is
// bounded; a pair that falls out is read again.
type views struct {
	shards [32]struct {
		mu sync.Mutex
		m  map[Pair]view
	}
}

// viewsPerShard bounds the memory: 32 x 512 pairs of about 600 bytes.
const viewsPerShard = 512

// get fills in what is known of p; false if that is nothing.
func (v *views) get(p Pair, into *view) (known bool) {
	s := &v.shards[p.Caller[0]%32]
	s.mu.Lock()
	defer s.mu.Unlock()
	*into, known = s.m[p]
	return known
}

// learn keeps the newer of what is known and what was seen, for each stream by
// itself: two calls of one pair may finish in any order.
func (v *views) learn(p Pair, seen view) {
	// A tip needs neither text nor signature, and both hold the bytes of the
	// whole row in memory.
	seen.req.Text.Box, seen.rsp.Text.Box = nil, nil
	seen.req.Signature, seen.rsp.Signature = nil, nil
	s := &v.shards[p.Caller[0]%32]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = make(map[Pair]view)
	}
	old, known := s.m[p]
	if !known && seen.req.Position == 0 {
		return // half a view would claim an empty stream
	}
	if old.req.Position > seen.req.Position {
		seen.req = old.req
	}
	if old.rsp.Position > seen.rsp.Position {
		seen.rsp = old.rsp
	}
	if !known && len(s.m) >= viewsPerShard {
		for k := range s.m { // any one: which pair is re-read does not matter
			delete(s.m, k)
			break
		}
	}
	s.m[p] = seen
}

func (v *views) forget(p Pair) {
	s := &v.shards[p.Caller[0]%32]
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, p)
}

// read reads both tips at once.
func (h *Host) read(ctx context.Context, p Pair) (view, error) {
	var v view
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { v.req, err = h.requestTip(ctx, p); return err })
	g.Go(func() (err error) { v.rsp, err = h.responseTip(ctx, p); return err })
	if err := g.Wait(); err != nil {
		return view{}, err
	}
	h.views.learn(p, v)
	return v, nil
}

func (h *Host) requestTip(ctx context.Context, p Pair) (RequestRow, error) {
	row, err := h.Store.Tip(ctx, p.Requests())
	if err != nil || row.Position == 0 {
		return RequestRow{}, h.fault(err)
	}
	r, err := DecodeRequest(row)
	return r, h.damage(p.Requests(), err)
}

func (h *Host) responseTip(ctx context.Context, p Pair) (ResponseRow, error) {
	row, err := h.Store.Tip(ctx, p.Responses())
	if err != nil || row.Position == 0 {
		return ResponseRow{}, h.fault(err)
	}
	r, err := DecodeResponse(row)
	return r, h.damage(p.Responses(), err)
}

// request reads one row of the request stream; ok is false if there is none.
func (h *Host) request(ctx context.Context, p Pair, position uint64) (r RequestRow, ok bool, err error) {
	rows, err := h.Store.Rows(ctx, p.Requests(), position, 1, store.Ascending)
	if err != nil || len(rows) == 0 || rows[0].Position != position {
		return r, false, h.fault(err)
	}
	r, err = DecodeRequest(rows[0])
	return r, err == nil, h.damage(p.Requests(), err)
}

// decided looks for the response row that names a request, among the rows
// after what the request had seen, and tells the last row of the stream as far
// as it was read. It reads the row at seen too, so that this row and what
// follows come from one read: a row that lands between two reads must not be
// taken for the tip unexamined. It ends at a row that closes the request: that
// of an old epoch could otherwise be asked for at the price of reading all that
// came since.
func (h *Host) decided(ctx context.Context, pair Pair, r *RequestRow) (d *ResponseRow, last ResponseRow, err error) {
	const page = 64
	seen, next, holes := r.Seen, max(r.Seen, 1), 0
	for {
		rows, err := h.Store.Rows(ctx, pair.Responses(), next, page, store.Ascending)
		if err != nil {
			return nil, last, h.fault(err)
		}
		if len(rows) == 0 { // a page may end early: only an empty one is the end
			if last.Position < seen {
				err = h.damage(pair.Responses(), fmt.Errorf("%w: position %d is missing", errRow, seen))
			}
			return nil, last, err
		}
		if rows[0].Position != next {
			// A hole is an append that was under way; read again, it is there.
			if holes++; holes > 1 {
				return nil, last, h.damage(pair.Responses(), fmt.Errorf("%w: position %d is missing", errRow, next))
			}
			continue
		}
		for _, row := range rows {
			if last, err = DecodeResponse(row); err != nil {
				return nil, last, h.damage(pair.Responses(), err)
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

// fault turns an error of the store into one of kind Unavailable: whatever a
// store says, it is never a replay (wire §23 A11).
func (h *Host) fault(err error) error {
	if err == nil {
		return nil
	}
	return problem.Wrap(problem.Unavailable, err, "storage is unavailable; the same request may be sent again")
}

// damage is a row that does not decode: not the caller's fault, and not
// mended by a retry.
func (h *Host) damage(s store.Stream, err error) error {
	if err == nil {
		return nil
	}
	return problem.Wrap(problem.Damaged, err, "stored history of this pair is damaged; the operator runs verify")
}
