// Package chain decides what may come next on the chain of an ordered pair: it
// detects replays, gaps and forks, and enforces the time floor of a reset
// (PROTOCOL §7).
//
// All functions are pure: they map a tip and an envelope to a verdict.
// Invariants: a chain has no gap and no fork within an epoch; no envelope
// signed before a reset fits after it.
package chain

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Tip is the state of a chain. An unknown pair has the zero Tip.
type Tip struct {
	Seq   int64         // last sequence number of this epoch; 0 before the first
	Hash  identity.Hash // hash of that envelope; zeros before the first
	Epoch uint64        // number of resets so far
	Floor time.Time     // latest time signed on the chain, over all epochs; zero if none
}

// Fit returns nil if e may follow t. Otherwise it returns a problem of kind
// Replay, Gap, Fork or Floor, in the order and words of PROTOCOL §7, the floor
// last.
func (t Tip) Fit(e *envelope.Envelope) error {
	switch {
	case e.Seq <= t.Seq:
		return problem.New(problem.Replay, "replay/out-of-order envelope: seq %d <= last_seen %d", e.Seq, t.Seq)
	case e.Seq != t.Seq+1:
		return problem.New(problem.Gap, "non-monotonic sequence_no: expected %d, got %d", t.Seq+1, e.Seq)
	case e.Prev != t.Hash:
		return problem.New(problem.Fork, "prev_envelope_hash mismatch: expected %s, got %s", t.Hash, e.Prev)
	case t.Epoch > 0 && t.Seq == 0 && !e.Time.After(t.Floor):
		// Only the first call after a reset needs the floor, because later
		// calls are linked to it by hash. Without the floor, a call recorded
		// before the reset would fit again.
		return t.BelowFloor(e)
	}
	return nil
}

// FitReset returns nil if e may reset a chain that has rows.
func (t Tip) FitReset(e *envelope.Envelope) error {
	if !e.Time.After(t.Floor) {
		return t.BelowFloor(e)
	}
	return nil
}

// BelowFloor refuses an envelope signed at or before t's floor.
func (t Tip) BelowFloor(e *envelope.Envelope) error {
	return problem.New(problem.Floor, "replay/out-of-order envelope: timestamp %s <= floor %s", canon.FormatTime(e.Time), canon.FormatTime(t.Floor))
}

// Next is the tip after e, whose hash is h, was accepted.
func (t Tip) Next(e *envelope.Envelope, h identity.Hash) Tip {
	return Tip{Seq: e.Seq, Hash: h, Epoch: t.Epoch, Floor: later(t.Floor, e.Time)}
}

// Reset is the tip after the reset e was accepted.
func (t Tip) Reset(e *envelope.Envelope) Tip {
	return Tip{Epoch: t.Epoch + 1, Floor: later(t.Floor, e.Time)}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
