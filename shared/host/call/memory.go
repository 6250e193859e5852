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

const (
	MaxExchanges   = 20
	MaxThreadBytes = 64 << 10
	maxRowsRead    = 200     // rows of each stream
	maxBytesRead   = 1 << 20 // bytes of each stream
	threadPageSize = 20
)

type ThreadExchange struct {
	Question, Answer string
	CutReason        CutReason
}

// ReadThread returns the last exchanges of e's thread in the current epoch, the oldest first.
func (h *Host) ReadThread(ctx context.Context, e *envelope.Envelope, since time.Time) ([]ThreadExchange, error) {
	if e.Payload.ContextID == nil {
		return nil, nil
	}
	m := threadReader{host: h, pair: Pair{Caller: e.From, Vacant: e.To}, thread: *e.Payload.ContextID, since: since}
	g, gctx := errgroup.WithContext(ctx)
	var requests []RequestRow
	g.Go(func() (err error) {
		requests, err = m.readRequests(gctx, e.Hash())
		return err
	})
	var answers map[uint64]ResponseRow
	g.Go(func() (err error) {
		answers, err = m.readAnswers(gctx)
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
		exchange, ok, err := m.readExchange(ctx, &requests[i], &answer)
		if err != nil {
			return nil, err
		}
		size := len(exchange.Question) + len(exchange.Answer)
		if !ok {
			continue
		}
		if m.textBytes += size; m.textBytes > MaxThreadBytes {
			break
		}
		if m.exchanges = append(m.exchanges, exchange); len(m.exchanges) == MaxExchanges {
			break
		}
	}
	slices.Reverse(m.exchanges)
	return m.exchanges, nil
}

type threadReader struct {
	host      *Host
	pair      Pair
	thread    string
	since     time.Time
	exchanges []ThreadExchange
	textBytes int
}

func (m *threadReader) readRequests(ctx context.Context, currentHash identity.Hash) (rows []RequestRow, err error) {
	var current *RequestRow
	err = m.forEachRow(ctx, m.pair.Requests(), func(row store.Row) (more bool, err error) {
		r, err := DecodeRequest(row)
		switch {
		case err != nil:
			return false, m.host.damagedError(m.pair.Requests(), err)
		case current == nil && r.Hash == currentHash:
			current = &r
		case current != nil && (r.Epoch != current.Epoch || r.Kind != RowCall):
			return false, nil
		case current != nil:
			rows = append(rows, r)
		}
		return true, nil
	})
	return rows, err
}

func (m *threadReader) readAnswers(ctx context.Context) (byRequest map[uint64]ResponseRow, err error) {
	byRequest = map[uint64]ResponseRow{}
	err = m.forEachRow(ctx, m.pair.Responses(), func(row store.Row) (more bool, err error) {
		r, err := DecodeResponse(row)
		if err != nil {
			return false, m.host.damagedError(m.pair.Responses(), err)
		}
		if r.Kind == RowAnswer && r.Time.After(m.since) {
			byRequest[r.RequestPosition] = r
		}
		return true, nil
	})
	return byRequest, err
}

func (m *threadReader) forEachRow(ctx context.Context, s store.Stream, fn func(store.Row) (more bool, err error)) error {
	tip, err := m.host.Store.Tip(ctx, s)
	if err != nil {
		return m.host.unavailableError(err)
	}
	for position, rowCount, byteCount := tip.Position, 0, 0; position > 0 && rowCount < maxRowsRead && byteCount < maxBytesRead; {
		rows, err := m.host.Store.Rows(ctx, s, position, threadPageSize, store.Descending)
		if err != nil {
			return m.host.unavailableError(err)
		}
		for _, row := range rows {
			if more, err := fn(row); err != nil || !more {
				return err
			}
			byteCount += len(row.Data)
		}
		if rowCount += len(rows); len(rows) == 0 {
			return nil
		}
		position = rows[len(rows)-1].Position - 1
	}
	return nil
}

func (m *threadReader) readExchange(ctx context.Context, req *RequestRow, rsp *ResponseRow) (exchange ThreadExchange, ok bool, err error) {
	sealed, bound := req.SealedText(m.pair)
	question, ok, err := m.openText(ctx, sealed, bound)
	if !ok || err != nil || question.ContextID == nil || *question.ContextID != m.thread {
		return exchange, false, err
	}
	sealed, bound = rsp.SealedText(m.pair)
	answer, ok, err := m.openText(ctx, sealed, bound)
	return ThreadExchange{question.Text(), answer.Text(), rsp.CutReason}, ok, err
}

func (m *threadReader) openText(ctx context.Context, s textkeys.Sealed, bound []byte) (p envelope.Message, ok bool, err error) {
	plain, err := m.host.Texts.Open(ctx, bound, s)
	switch {
	case errors.Is(err, textkeys.ErrDestroyed):
		return p, false, nil
	case errors.Is(err, textkeys.ErrDamaged):
		return p, false, m.host.damagedError(m.pair.Requests(), fmt.Errorf("%w: a text does not open", errInvalidRow))
	case err != nil:
		return p, false, m.host.unavailableError(err)
	}
	p, _, err = parsePayload(plain)
	return p, err == nil, m.host.damagedError(m.pair.Requests(), err)
}
