package call

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Limits of Recall.
const (
	MaxExchanges  = 20
	MaxRemembered = 64 << 10 // bytes of the calls and answers together
	maxLookedAt   = 200      // rows that are read from each stream of the pair
	maxRead       = 1 << 20  // bytes that are read from each stream, so that long texts do not cost megabytes per call
	memoryPage    = 20
)

// ThreadExchange is a call of a thread and its answer.
type ThreadExchange struct {
	Asked, Answered string
	Cut             CutReason // "" for a complete answer
}

// Recall returns the earlier exchanges of e's thread, the oldest first: at most the last
// MaxExchanges, with at most MaxRemembered bytes. It reads only e's epoch, so that a reset erases
// the memory. It omits calls without a context id, calls without an answer, answers signed at or
// before since, and texts whose key is destroyed.
func (h *Host) Recall(ctx context.Context, e *envelope.Envelope, since time.Time) ([]ThreadExchange, error) {
	if e.Payload.ContextID == nil {
		return nil, nil
	}
	m := memory{host: h, pair: Pair{Caller: e.From, Vacant: e.To}, thread: *e.Payload.ContextID, since: since}
	g, gctx := errgroup.WithContext(ctx)
	var requests []RequestRow
	g.Go(func() (err error) {
		requests, err = m.requests(gctx, e.Hash())
		return err
	})
	var answers map[uint64]ResponseRow
	g.Go(func() (err error) {
		answers, err = m.answers(gctx)
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i := range requests {
		answer, ok := answers[requests[i].Position]
		if !ok {
			continue
		}
		exchange, ok, err := m.exchange(ctx, &requests[i], &answer)
		if err != nil {
			return nil, err
		}
		size := len(exchange.Asked) + len(exchange.Answered)
		if !ok {
			continue
		}
		if m.bytes += size; m.bytes > MaxRemembered {
			break
		}
		if m.all = append(m.all, exchange); len(m.all) == MaxExchanges {
			break
		}
	}
	slices.Reverse(m.all)
	return m.all, nil
}

// memory collects the exchanges of a thread, the newest first.
type memory struct {
	host   *Host
	pair   Pair
	thread string
	since  time.Time
	all    []ThreadExchange
	bytes  int
}

func (m *memory) requests(ctx context.Context, before identity.Hash) (rows []RequestRow, err error) {
	var its *RequestRow
	err = m.walk(ctx, m.pair.Requests(), func(row store.Row) (more bool, err error) {
		r, err := DecodeRequest(row)
		switch {
		case err != nil:
			return false, m.host.damagedError(m.pair.Requests(), err)
		case its == nil && r.Hash == before:
			its = &r
		case its != nil && (r.Epoch != its.Epoch || r.Kind != RowCall):
			return false, nil
		case its != nil:
			rows = append(rows, r)
		}
		return true, nil
	})
	return rows, err
}

func (m *memory) answers(ctx context.Context) (byRequest map[uint64]ResponseRow, err error) {
	byRequest = map[uint64]ResponseRow{}
	err = m.walk(ctx, m.pair.Responses(), func(row store.Row) (more bool, err error) {
		r, err := DecodeResponse(row)
		if err != nil {
			return false, m.host.damagedError(m.pair.Responses(), err)
		}
		if r.Kind == RowAnswer && r.Time.After(m.since) {
			byRequest[r.Request] = r
		}
		return true, nil
	})
	return byRequest, err
}

func (m *memory) walk(ctx context.Context, s store.Stream, fn func(store.Row) (more bool, err error)) error {
	tip, err := m.host.Store.Tip(ctx, s)
	if err != nil {
		return m.host.unavailableError(err)
	}
	for from, seen, read := tip.Position, 0, 0; from > 0 && seen < maxLookedAt && read < maxRead; {
		rows, err := m.host.Store.Rows(ctx, s, from, memoryPage, store.Descending)
		if err != nil {
			return m.host.unavailableError(err)
		}
		for _, row := range rows {
			if more, err := fn(row); err != nil || !more {
				return err
			}
			read += len(row.Data)
		}
		if seen += len(rows); len(rows) == 0 {
			return nil
		}
		from = rows[len(rows)-1].Position - 1
	}
	return nil
}

func (m *memory) exchange(ctx context.Context, req *RequestRow, rsp *ResponseRow) (entry ThreadExchange, ok bool, err error) {
	sealed, bound := req.SealedText(m.pair)
	asked, ok, err := m.open(ctx, sealed, bound)
	if !ok || err != nil || asked.ContextID == nil || *asked.ContextID != m.thread {
		return entry, false, err
	}
	sealed, bound = rsp.SealedText(m.pair)
	answered, ok, err := m.open(ctx, sealed, bound)
	return ThreadExchange{asked.Text(), answered.Text(), rsp.Cut}, ok, err
}

func (m *memory) open(ctx context.Context, s textkeys.Sealed, bound []byte) (p envelope.Message, ok bool, err error) {
	plain, err := m.host.Texts.Open(ctx, bound, s)
	switch {
	case errors.Is(err, textkeys.ErrDestroyed):
		return p, false, nil
	case errors.Is(err, textkeys.ErrDamaged):
		return p, false, m.host.damagedError(m.pair.Requests(), fmt.Errorf("%w: a text does not open", errRow))
	case err != nil:
		return p, false, m.host.unavailableError(err)
	}
	p, _, err = parsePayload(plain)
	return p, err == nil, m.host.damagedError(m.pair.Requests(), err)
}
