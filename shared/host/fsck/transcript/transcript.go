// Package transcript reads the history of a pair: each call and reset in order, with its outcome.
// It checks only that the rows exist and can be decoded. Package fsck makes all other checks.
package transcript

import (
	"context"
	"errors"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type Outcome string

const (
	Answered Outcome = "answered"
	Void     Outcome = "void"   // never answered
	Closed   Outcome = "closed" // a free call that is never answered because a newer epoch has answers
	Pending  Outcome = "pending"
)

type Text struct {
	Content string
	Sealed  bool // whether the text key was destroyed
	Damaged bool
	// Envelope is nil if the text cannot be read.
	Envelope *envelope.Envelope
}

// Entry is a call with its outcome, or a reset.
type Entry struct {
	Position uint64
	Reset    bool
	Epoch    uint64
	Seq      int64 // 0 for a reset
	Time     time.Time
	Hash     identity.Hash
	Prev     identity.Hash
	Text     Text
	Outcome  Outcome
	Decision Decision // set if Answered or Void
}

// Decision is the response row that decides a call.
type Decision struct {
	Position  uint64
	Seq       int64
	Time      time.Time
	Hash      identity.Hash
	Prev      identity.Hash
	Text      Text
	Duration  time.Duration
	Usage     *call.Usage    // nil if the agent did not report it
	CutReason call.CutReason // "" if the answer is complete
	// Cause is nil unless the call is void and its cause can be read.
	Cause *call.Cause
}

type Opener interface {
	Open(ctx context.Context, aad []byte, text textkeys.Sealed) ([]byte, error)
}

const pageRows = 256

// Read passes the entries of a pair to fn in order. If maxEntries is not zero, it passes only the
// latest maxEntries entries.
func Read(ctx context.Context, v store.View, o Opener, pair call.Pair, maxEntries uint64, fn func(Entry) error) error {
	r := &reader{view: v, texts: o, pair: pair}
	tipRows, err := r.view.Rows(ctx, pair.Requests(), 1<<62, 1, store.Descending)
	if err != nil || len(tipRows) == 0 {
		return err
	}
	r.firstPosition = 1
	if n := tipRows[0].Position; maxEntries > 0 && n > maxEntries {
		r.firstPosition = n - maxEntries + 1
	}
	r.decisions = make([]uint64, tipRows[0].Position-r.firstPosition+1)
	if err := r.findDecisions(ctx); err != nil {
		return err
	}
	return forEachRow(ctx, v, pair.Requests(), r.firstPosition, call.DecodeRequest, func(req *call.RequestRow) (bool, error) {
		if req.Position-r.firstPosition >= uint64(len(r.decisions)) {
			return true, nil // the row was written after the tip was read
		}
		e, err := r.buildEntry(ctx, req)
		if err == nil {
			err = fn(e)
		}
		return false, err
	})
}

type reader struct {
	view  store.View
	texts Opener
	pair  call.Pair

	firstPosition     uint64   // first request to pass to fn
	decisions         []uint64 // position of each request's decision, or 0
	lastResponseEpoch uint64

	page []call.ResponseRow
}

// findDecisions starts after the first call's ResponseTip, because all decisions of the calls have
// later positions.
func (r *reader) findDecisions(ctx context.Context) error {
	start, hasCalls := uint64(1), false
	err := forEachRow(ctx, r.view, r.pair.Requests(), r.firstPosition, call.DecodeRequest, func(req *call.RequestRow) (bool, error) {
		if req.Kind == call.RowCall {
			start, hasCalls = req.ResponseTip+1, true
		}
		return hasCalls, nil
	})
	if err != nil || !hasCalls {
		return err
	}
	return forEachRow(ctx, r.view, r.pair.Responses(), start, call.DecodeResponse, func(resp *call.ResponseRow) (bool, error) {
		if i := resp.RequestPosition - r.firstPosition; resp.RequestPosition >= r.firstPosition && i < uint64(len(r.decisions)) && r.decisions[i] == 0 {
			r.decisions[i] = resp.Position
		}
		r.lastResponseEpoch = resp.Epoch
		return false, nil
	})
}

func (r *reader) buildEntry(ctx context.Context, req *call.RequestRow) (e Entry, err error) {
	e = Entry{Position: req.Position, Epoch: req.Epoch, Time: req.Time, Hash: req.Hash, Prev: req.Prev}
	sealed, aad := req.SealedText(r.pair)
	e.Text, err = r.openText(ctx, sealed, aad, func(plain []byte) (envelope.Envelope, error) { return req.Envelope(r.pair, plain) })
	if err != nil {
		return e, err
	}
	if req.Kind == call.RowReset {
		e.Reset = true
		return e, nil
	}
	e.Seq = req.Seq
	switch position := r.decisions[req.Position-r.firstPosition]; {
	case position > 0:
		return e, r.setDecision(ctx, &e, position)
	case r.lastResponseEpoch > req.Epoch && req.Price == 0:
		e.Outcome = Closed
	default:
		e.Outcome = Pending
	}
	return e, nil
}

func (r *reader) setDecision(ctx context.Context, e *Entry, position uint64) error {
	resp, err := r.loadDecision(ctx, position)
	if err != nil {
		return err
	}
	e.Decision.Position, e.Decision.Usage, e.Outcome = position, resp.Usage, Void
	if resp.Kind != call.RowAnswer {
		e.Decision.Cause, err = r.openCause(ctx, resp)
		return err
	}
	e.Outcome = Answered
	e.Decision = Decision{Position: position, Seq: resp.Seq, Time: resp.Time, Hash: resp.Hash, Prev: resp.Prev, Duration: resp.Duration, Usage: resp.Usage, CutReason: resp.CutReason}
	sealed, aad := resp.SealedText(r.pair)
	e.Decision.Text, err = r.openText(ctx, sealed, aad, func(plain []byte) (envelope.Envelope, error) { return resp.Envelope(r.pair, plain) })
	return err
}

func (r *reader) openCause(ctx context.Context, resp *call.ResponseRow) (*call.Cause, error) {
	sealed, aad, ok := resp.SealedCause(r.pair)
	if !ok {
		return nil, nil
	}
	plain, err := r.texts.Open(ctx, aad, sealed)
	if errors.Is(err, textkeys.ErrDestroyed) || problem.Is(err, problem.Damaged) {
		return nil, nil // fsck reports damage
	}
	if err != nil {
		return nil, err
	}
	c, err := call.ParseCause(plain)
	if err != nil {
		return nil, nil
	}
	return &c, nil
}

func (r *reader) loadDecision(ctx context.Context, position uint64) (*call.ResponseRow, error) {
	// The page usually contains the decision, because decisions are almost in the order of the
	// calls.
	if n := uint64(len(r.page)); n == 0 || position < r.page[0].Position || position >= r.page[0].Position+n {
		r.page = r.page[:0]
		err := forEachRow(ctx, r.view, r.pair.Responses(), position, call.DecodeResponse, func(resp *call.ResponseRow) (bool, error) {
			r.page = append(r.page, *resp)
			return len(r.page) == pageRows, nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(r.page) == 0 || r.page[0].Position > position {
		return nil, problem.New(problem.Damaged, "row %d of %s is missing; run verify", position, r.pair.Responses())
	}
	return &r.page[position-r.page[0].Position], nil
}

func (r *reader) openText(ctx context.Context, sealed textkeys.Sealed, aad []byte, parse func([]byte) (envelope.Envelope, error)) (Text, error) {
	plain, err := r.texts.Open(ctx, aad, sealed)
	switch {
	case errors.Is(err, textkeys.ErrDestroyed):
		return Text{Sealed: true}, nil
	case problem.Is(err, problem.Damaged):
		return Text{Damaged: true}, nil
	case err != nil:
		return Text{}, err
	}
	e, err := parse(plain)
	if err != nil {
		return Text{Damaged: true}, nil
	}
	return Text{Content: e.Payload.Text(), Envelope: &e}, nil
}

func forEachRow[R any](ctx context.Context, v store.View, s store.Stream, position uint64, decode func(store.Row) (R, error), fn func(*R) (stop bool, err error)) error {
	for {
		rows, err := v.Rows(ctx, s, position, pageRows, store.Ascending)
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, row := range rows {
			if row.Position != position {
				return problem.New(problem.Damaged, "row %d of %s is missing; run verify", position, s)
			}
			r, err := decode(row)
			if err != nil {
				return problem.Wrap(problem.Damaged, err, "row %d of %s cannot be decoded; run verify", position, s)
			}
			if stop, err := fn(&r); stop || err != nil {
				return err
			}
			position++
		}
	}
}
