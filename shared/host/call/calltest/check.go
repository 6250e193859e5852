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
		if s.Responses[i].RequestPosition == position {
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

func readAll[R any](ctx context.Context, st store.Store, stream store.Stream, decode func(store.Row) (R, error), dest *[]R) error {
	for next := uint64(1); ; {
		rows, err := st.Rows(ctx, stream, next, store.MaxPage, store.Ascending)
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, row := range rows {
			if row.Position != next {
				return fmt.Errorf("%s: row %d follows row %d", stream, row.Position, next-1)
			}
			r, err := decode(row)
			if err != nil {
				return fmt.Errorf("%s: %w", stream, err)
			}
			*dest = append(*dest, r)
			next++
		}
	}
}

// CheckStreams returns all violations in the streams of a pair. If keys is not nil, it also checks
// hashes and signatures.
func CheckStreams(ctx context.Context, st store.Store, pair call.Pair, keys call.Texts) []error {
	s, err := ReadStreams(ctx, st, pair)
	if err != nil {
		return []error{err}
	}
	violations := s.Check()
	if keys != nil {
		violations = append(violations, s.verifySignatures(ctx, keys)...)
	}
	return violations
}

// Check returns all violations that do not concern the texts. The prefixes I1 to I5 are the numbers
// of the model's invariants.
func (s *Streams) Check() []error {
	c := checker{}
	positions := map[identity.Hash]uint64{}
	prevRequest := call.RequestRow{}
	for _, r := range s.Requests {
		if p := positions[r.Hash]; p > 0 {
			c.reportf("I1: request %d has the same envelope as request %d", r.Position, p)
		}
		positions[r.Hash] = r.Position
		c.checkRequest(&prevRequest, &r)
		prevRequest = r
	}
	decidingRows := map[uint64]uint64{}
	prevResponse := call.ResponseRow{}
	for _, r := range s.Responses {
		if p := decidingRows[r.RequestPosition]; p > 0 {
			c.reportf("I4: request %d is decided by row %d and by row %d", r.RequestPosition, p, r.Position)
		}
		decidingRows[r.RequestPosition] = r.Position
		if r.RequestPosition == 0 || r.RequestPosition > uint64(len(s.Requests)) {
			c.reportf("I4: row %d decides request %d, which does not exist", r.Position, r.RequestPosition)
		} else {
			c.checkDecision(&s.Requests[r.RequestPosition-1], &r)
		}
		c.checkResponse(&prevResponse, &r)
		prevResponse = r
	}
	return c.violations
}

type checker struct{ violations []error }

func (c *checker) reportf(format string, args ...any) {
	c.violations = append(c.violations, fmt.Errorf(format, args...))
}

func (c *checker) checkRequest(previous, r *call.RequestRow) {
	floor := previous.Floor
	if r.Time.After(floor) {
		floor = r.Time
	}
	if !r.Floor.Equal(floor) {
		c.reportf("I3: request %d has floor %v, want %v", r.Position, r.Floor, floor)
	}
	if r.Kind == call.RowReset {
		if r.Epoch != previous.Epoch+1 || r.EpochStart != r.Position || r.PrevEpochStart != previous.EpochStart {
			c.reportf("I3: reset %d begins epoch %d (start %d, before that %d) after epoch %d (start %d)", r.Position, r.Epoch, r.EpochStart, r.PrevEpochStart, previous.Epoch, previous.EpochStart)
		}
		if previous.Position > 0 && !r.Time.After(previous.Floor) {
			c.reportf("I1: reset %d is signed %v, not later than the floor %v", r.Position, r.Time, previous.Floor)
		}
		return
	}
	if r.Epoch != previous.Epoch || r.EpochStart != previous.EpochStart || r.PrevEpochStart != previous.PrevEpochStart {
		c.reportf("I3: call %d is in epoch %d (start %d, before that %d), the row before in %d (%d, %d)", r.Position, r.Epoch, r.EpochStart, r.PrevEpochStart, previous.Epoch, previous.EpochStart, previous.PrevEpochStart)
	}
	tip := previous.Tip()
	if r.Seq != tip.Seq+1 || r.Prev != tip.Hash {
		c.reportf("I3: call %d has seq %d and prev %.8s, the chain's tip has seq %d and hash %.8s", r.Position, r.Seq, r.Prev, tip.Seq, tip.Hash)
	}
	if r.Seq == 1 && r.Epoch > 0 && !r.Time.After(previous.Floor) {
		c.reportf("I1: call %d is the first of epoch %d and signed %v, not later than the floor %v", r.Position, r.Epoch, r.Time, previous.Floor)
	}
}

func (c *checker) checkDecision(request *call.RequestRow, r *call.ResponseRow) {
	if request.Kind != call.RowCall || r.RequestHash != request.Hash || r.RequestEpoch != request.Epoch {
		c.reportf("I4: row %d decides request %d as %.8s of epoch %d, which is a %v, %.8s of epoch %d", r.Position, r.RequestPosition, r.RequestHash, r.RequestEpoch, request.Kind, request.Hash, request.Epoch)
	}
	if r.Position <= request.ResponseTip {
		c.reportf("I4: row %d decides request %d, which was accepted when the response tip was row %d", r.Position, r.RequestPosition, request.ResponseTip)
	}
}

func (c *checker) checkResponse(previous, r *call.ResponseRow) {
	if r.Kind == call.RowVoid {
		if r.Epoch != previous.Epoch || r.Seq != previous.Seq || r.Hash != previous.Hash {
			c.reportf("I5: void %d moves the chain from %d/%d to %d/%d", r.Position, previous.Epoch, previous.Seq, r.Epoch, r.Seq)
		}
		return
	}
	if r.Epoch != r.RequestEpoch || r.Epoch < previous.Epoch {
		c.reportf("I5: answer %d is of epoch %d, its request of epoch %d, the previous answer of epoch %d", r.Position, r.Epoch, r.RequestEpoch, previous.Epoch)
	}
	seq, prev := int64(1), identity.Hash{}
	if r.Epoch == previous.Epoch {
		seq, prev = previous.Seq+1, previous.Hash
	}
	if r.Seq != seq || r.Prev != prev {
		c.reportf("I5: answer %d has seq %d and prev %.8s, want %d and %.8s", r.Position, r.Seq, r.Prev, seq, prev)
	}
	if r.Time.Before(time.Unix(0, 0)) {
		c.reportf("answer %d is signed %v", r.Position, r.Time)
	}
}

// verifySignatures skips a text whose key is destroyed, because that is not a violation.
func (s *Streams) verifySignatures(ctx context.Context, keys call.Texts) []error {
	c := checker{}
	for i := range s.Requests {
		r := &s.Requests[i]
		sealed, additionalData := r.SealedText(s.Pair)
		plain, err := keys.Open(ctx, additionalData, sealed)
		if errors.Is(err, textkeys.ErrDestroyed) {
			continue
		}
		if err != nil {
			c.reportf("request %d: %w", r.Position, err)
			continue
		}
		if e, err := r.Envelope(s.Pair, plain); err != nil {
			c.reportf("request %d: %w", r.Position, err)
		} else if h, ok := e.VerifyBy(s.Pair.Caller); !ok || h != r.Hash {
			c.reportf("request %d: signature %v, hash %.8s, the row says %.8s", r.Position, ok, h, r.Hash)
		}
	}
	for i := range s.Responses {
		r := &s.Responses[i]
		if r.Kind != call.RowAnswer {
			continue
		}
		sealed, additionalData := r.SealedText(s.Pair)
		plain, err := keys.Open(ctx, additionalData, sealed)
		if errors.Is(err, textkeys.ErrDestroyed) {
			continue
		}
		if err != nil {
			c.reportf("answer %d: %w", r.Position, err)
			continue
		}
		if e, err := r.Envelope(s.Pair, plain); err != nil {
			c.reportf("answer %d: %w", r.Position, err)
		} else if h, ok := e.VerifyBy(s.Pair.Vacant); !ok || h != r.Hash {
			c.reportf("answer %d: signature %v, hash %.8s, the row says %.8s", r.Position, ok, h, r.Hash)
		}
	}
	return c.violations
}
