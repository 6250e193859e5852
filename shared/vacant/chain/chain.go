// Package chain says what may follow what on the chain of an ordered pair:
// replay, gap, fork, and the time floor that a reset leaves behind (PROTOCOL §7).
//
// Pure: a tip and an envelope in, a verdict out. The invariants: a chain has no
// gap and no fork within an epoch; nothing signed before a reset fits after it.
package chain

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Tip is where a chain stands. The zero Tip is a pair never heard of.
type Tip struct {
	Seq   int64         // last sequence number of this epoch; 0 before the first
	Hash  identity.Hash // hash of that envelope; zeros before the first
	Epoch uint64        // resets so far
	Floor time.Time     // largest time signed on the chain, all epochs; zero if none
}

// Fit says whether e may come next after t, in the order and words of PROTOCOL §7
// and with the floor of a reset last: nil, or a problem of kind Replay, Gap,
// Fork or Floor.
func (t Tip) Fit(e *envelope.Envelope) error {
	switch {
	case e.Seq <= t.Seq:
		return problem.New(problem.Replay, "replay/out-of-order envelope: seq %d <= last_seen %d", e.Seq, t.Seq)
	case e.Seq != t.Seq+1:
		return problem.New(problem.Gap, "non-monotonic sequence_no: expected %d, got %d", t.Seq+1, e.Seq)
	case e.Prev != t.Hash:
		return problem.New(problem.Fork, "prev_envelope_hash mismatch: expected %s, got %s", t.Hash, e.Prev)
	case t.Epoch > 0 && t.Seq == 0 && !e.Time.After(t.Floor):
		// Only the first call after a reset needs the floor: later ones hang on
		// it by hash. Without it a call recorded before the reset fits again.
		return t.BelowFloor(e)
	}
	return nil
}

// FitReset says whether e may reset a chain that has rows.
func (t Tip) FitReset(e *envelope.Envelope) error {
	if !e.Time.After(t.Floor) {
		return t.BelowFloor(e)
	}
	return nil
}

// BelowFloor is the refusal of an envelope signed no later than t's floor.
func (t Tip) BelowFloor(e *envelope.Envelope) error {
	return problem.New(problem.Floor, "replay/out-of-order envelope: timestamp %s <= floor %s", canon.FormatTime(e.Time), canon.FormatTime(t.Floor))
}

// Next is the tip once e, whose hash is h, has been taken.
func (t Tip) Next(e *envelope.Envelope, h identity.Hash) Tip {
	return Tip{Seq: e.Seq, Hash: h, Epoch: t.Epoch, Floor: later(t.Floor, e.Time)}
}

// Reset is the tip once the reset e has been taken.
func (t Tip) Reset(e *envelope.Envelope) Tip {
	return Tip{Epoch: t.Epoch + 1, Floor: later(t.Floor, e.Time)}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
