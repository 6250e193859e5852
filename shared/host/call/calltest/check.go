package calltest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Streams holds all rows of a pair.
type Streams struct {
	Pair      call.Pair
	Requests  []call.RequestRow
	Responses []call.ResponseRow
}

func (s *Streams) Decision(position uint64) *call.ResponseRow {
	for i := range s.Responses {
		if s.Responses[i].Request == position {
			return &s.Responses[i]
		}
	}
	return nil
}

func ReadStreams(ctx context.Context, st store.Store, pair call.Pair) (s Streams, err error) {
	s.Pair = pair
	if err := readAll(ctx, st, pair.Requests(), call.DecodeRequest, &s.Requests); err != nil {
		return s, err
	}
	return s, readAll(ctx, st, pair.Responses(), call.DecodeResponse, &s.Responses)
}

func readAll[R any](ctx context.Context, st store.Store, name store.Stream, decode func(store.Row) (R, error), into *[]R) error {
	for next := uint64(1); ; {
		rows, err := st.Rows(ctx, name, next, store.MaxPage, store.Ascending)
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, row := range rows {
			if row.Position != next {
				return fmt.Errorf("%s: row %d follows row %d", name, row.Position, next-1)
			}
			r, err := decode(row)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			*into = append(*into, r)
			next++
		}
	}
}

// CheckStreams reads both streams of a pair and checks positions, epochs, floors, sequence numbers,
// prev links and decisions. If keys is not nil, CheckStreams also checks hashes and signatures. It
// returns all violations.
func CheckStreams(ctx context.Context, st store.Store, pair call.Pair, keys call.Texts) []error {
	s, err := ReadStreams(ctx, st, pair)
	if err != nil {
		return []error{err}
	}
	wrong := s.Check()
	if keys != nil {
		wrong = append(wrong, s.verify(ctx, keys)...)
	}
	return wrong
}

// Check returns all violations that the rows show without their texts. The prefixes I1 to I5 of the
// errors are the numbers of the model's invariants.
func (s *Streams) Check() []error {
	c := checker{}
	seen := map[identity.Hash]uint64{}
	before := call.RequestRow{}
	for _, r := range s.Requests {
		if p := seen[r.Hash]; p > 0 {
			c.wrong("I1: request %d has the same envelope as request %d", r.Position, p)
		}
		seen[r.Hash] = r.Position
		c.request(&before, &r)
		before = r
	}
	decided := map[uint64]uint64{}
	last := call.ResponseRow{}
	for _, r := range s.Responses {
		if p := decided[r.Request]; p > 0 {
			c.wrong("I4: request %d is decided by row %d and by row %d", r.Request, p, r.Position)
		}
		decided[r.Request] = r.Position
		if r.Request == 0 || r.Request > uint64(len(s.Requests)) {
			c.wrong("I4: row %d decides request %d, which does not exist", r.Position, r.Request)
		} else {
			c.decision(&s.Requests[r.Request-1], &r)
		}
		c.response(&last, &r)
		last = r
	}
	return c.found
}

type checker struct{ found []error }

func (c *checker) wrong(format string, args ...any) {
	c.found = append(c.found, fmt.Errorf(format, args...))
}

func (c *checker) request(before, r *call.RequestRow) {
	floor := before.Floor
	if r.Time.After(floor) {
		floor = r.Time
	}
	if !r.Floor.Equal(floor) {
		c.wrong("I3: request %d has floor %v, want %v", r.Position, r.Floor, floor)
	}
	if r.Kind == call.RowReset {
		if r.Epoch != before.Epoch+1 || r.EpochStart != r.Position || r.PrevEpochStart != before.EpochStart {
			c.wrong("I3: reset %d begins epoch %d (start %d, before that %d) after epoch %d (start %d)", r.Position, r.Epoch, r.EpochStart, r.PrevEpochStart, before.Epoch, before.EpochStart)
		}
		if before.Position > 0 && !r.Time.After(before.Floor) {
			c.wrong("I1: reset %d is signed %v, not later than the floor %v", r.Position, r.Time, before.Floor)
		}
		return
	}
	if r.Epoch != before.Epoch || r.EpochStart != before.EpochStart || r.PrevEpochStart != before.PrevEpochStart {
		c.wrong("I3: call %d is in epoch %d (start %d, before that %d), the row before in %d (%d, %d)", r.Position, r.Epoch, r.EpochStart, r.PrevEpochStart, before.Epoch, before.EpochStart, before.PrevEpochStart)
	}
	tip := before.Tip()
	if r.Seq != tip.Seq+1 || r.Prev != tip.Hash {
		c.wrong("I3: call %d has seq %d and prev %.8s, the chain's tip has seq %d and hash %.8s", r.Position, r.Seq, r.Prev, tip.Seq, tip.Hash)
	}
	if r.Seq == 1 && r.Epoch > 0 && !r.Time.After(before.Floor) {
		c.wrong("I1: call %d is the first of epoch %d and signed %v, not later than the floor %v", r.Position, r.Epoch, r.Time, before.Floor)
	}
}

func (c *checker) decision(q *call.RequestRow, r *call.ResponseRow) {
	if q.Kind != call.RowCall || r.RequestHash != q.Hash || r.RequestEpoch != q.Epoch {
		c.wrong("I4: row %d decides request %d as %.8s of epoch %d, which is a %v, %.8s of epoch %d", r.Position, r.Request, r.RequestHash, r.RequestEpoch, q.Kind, q.Hash, q.Epoch)
	}
	if r.Position <= q.ResponseTip {
		c.wrong("I4: row %d decides request %d, which was accepted when the response tip was row %d", r.Position, r.Request, q.ResponseTip)
	}
}

func (c *checker) response(last, r *call.ResponseRow) {
	if r.Kind == call.RowVoid {
		if r.Epoch != last.Epoch || r.Seq != last.Seq || r.Hash != last.Hash {
			c.wrong("I5: void %d moves the chain from %d/%d to %d/%d", r.Position, last.Epoch, last.Seq, r.Epoch, r.Seq)
		}
		return
	}
	if r.Epoch != r.RequestEpoch || r.Epoch < last.Epoch {
		c.wrong("I5: answer %d is of epoch %d, its request of epoch %d, the previous answer of epoch %d", r.Position, r.Epoch, r.RequestEpoch, last.Epoch)
	}
	seq, prev := int64(1), identity.Hash{}
	if r.Epoch == last.Epoch {
		seq, prev = last.Seq+1, last.Hash
	}
	if r.Seq != seq || r.Prev != prev {
		c.wrong("I5: answer %d has seq %d and prev %.8s, want %d and %.8s", r.Position, r.Seq, r.Prev, seq, prev)
	}
	if r.Time.Before(time.Unix(0, 0)) {
		c.wrong("answer %d is signed %v", r.Position, r.Time)
	}
}

// verify decrypts the texts, rebuilds the envelopes and checks their hashes and signatures. It
// skips a text whose key is destroyed, because that is not a violation.
func (s *Streams) verify(ctx context.Context, keys call.Texts) []error {
	c := checker{}
	for i := range s.Requests {
		r := &s.Requests[i]
		sealed, bound := r.SealedText(s.Pair)
		plain, err := keys.Open(ctx, bound, sealed)
		if errors.Is(err, textkeys.ErrDestroyed) {
			continue
		}
		if err != nil {
			c.wrong("request %d: %w", r.Position, err)
			continue
		}
		if e, err := r.Envelope(s.Pair, plain); err != nil {
			c.wrong("request %d: %w", r.Position, err)
		} else if h, ok := e.VerifyBy(s.Pair.Caller); !ok || h != r.Hash {
			c.wrong("request %d: signature %v, hash %.8s, the row says %.8s", r.Position, ok, h, r.Hash)
		}
	}
	for i := range s.Responses {
		r := &s.Responses[i]
		if r.Kind != call.RowAnswer {
			continue
		}
		sealed, bound := r.SealedText(s.Pair)
		plain, err := keys.Open(ctx, bound, sealed)
		if errors.Is(err, textkeys.ErrDestroyed) {
			continue
		}
		if err != nil {
			c.wrong("answer %d: %w", r.Position, err)
			continue
		}
		if e, err := r.Envelope(s.Pair, plain); err != nil {
			c.wrong("answer %d: %w", r.Position, err)
		} else if h, ok := e.VerifyBy(s.Pair.Vacant); !ok || h != r.Hash {
			c.wrong("answer %d: signature %v, hash %.8s, the row says %.8s", r.Position, ok, h, r.Hash)
		}
	}
	return c.found
}
