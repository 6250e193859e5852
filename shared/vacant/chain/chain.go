// Package chain decides whether an envelope may be the next one on the chain of an ordered pair. It
// detects replays, gaps and forks, and enforces the time floor of a reset (PROTOCOL §7).
//
// All functions are pure. A chain has no gap and no fork within an epoch, and an envelope that was
// signed before a reset is refused after the reset.
package chain

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Tip is the state of a chain. A pair without envelopes has the zero Tip.
type Tip struct {
	Seq   int64         // last sequence number of the epoch, or 0 before the first envelope
	Hash  identity.Hash // hash of the last envelope, or zero before the first
	Epoch uint64        // number of resets so far
	Floor time.Time     // latest signed time of an envelope in any epoch, or zero before the first envelope
}

// CheckNext returns an error of kind Replay, Gap, Fork or BelowFloor unless e may follow t.
// PROTOCOL §7 fixes the order of the checks and the error messages.
func (t Tip) CheckNext(e *envelope.Envelope) error {
	switch {
	case e.Seq <= t.Seq:
		return problem.New(problem.Replay, "replay/out-of-order envelope: seq %d <= last_seen %d", e.Seq, t.Seq)
	case e.Seq != t.Seq+1:
		return problem.New(problem.Gap, "non-monotonic sequence_no: expected %d, got %d", t.Seq+1, e.Seq)
	case e.Prev != t.Hash:
		return problem.New(problem.Fork, "prev_envelope_hash mismatch: expected %s, got %s", t.Hash, e.Prev)
	case t.Epoch > 0 && t.Seq == 0 && !e.Time.After(t.Floor):
		// After a reset, the sequence numbers begin at 1 again, so a call from before the reset
		// could be accepted a second time. The floor refuses it. Later calls of the epoch do not
		// need this check, because they are linked to the first call by hash.
		return t.FloorError(e)
	}
	return nil
}

// CheckReset returns an error of kind BelowFloor unless the reset e may follow t. Callers need not
// call it for a chain without rows, which accepts any reset.
func (t Tip) CheckReset(e *envelope.Envelope) error {
	if !e.Time.After(t.Floor) {
		return t.FloorError(e)
	}
	return nil
}

func (t Tip) FloorError(e *envelope.Envelope) error {
	return problem.New(problem.BelowFloor, "replay/out-of-order envelope: timestamp %s <= floor %s", canon.FormatTime(e.Time), canon.FormatTime(t.Floor))
}

func (t Tip) WithEnvelope(e *envelope.Envelope, h identity.Hash) Tip {
	return Tip{Seq: e.Seq, Hash: h, Epoch: t.Epoch, Floor: latest(t.Floor, e.Time)}
}

func (t Tip) WithReset(e *envelope.Envelope) Tip {
	return Tip{Epoch: t.Epoch + 1, Floor: latest(t.Floor, e.Time)}
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
