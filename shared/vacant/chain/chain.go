// Package chain detects replays, gaps and forks in the chain of an ordered pair, and enforces the
// time floor of a reset (PROTOCOL §7).
package chain

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type Tip struct {
	Seq   int64         // last sequence number of the epoch
	Hash  identity.Hash // hash of the last envelope of the epoch
	Epoch uint64
	Floor time.Time // latest signed time in any epoch
}

// CheckNext returns an error unless e may follow t. PROTOCOL §7 fixes the order of the checks.
func (t Tip) CheckNext(e *envelope.Envelope) error {
	switch {
	case e.Seq <= t.Seq:
		return problem.New(problem.Replay, "replay/out-of-order envelope: seq %d <= last_seen %d", e.Seq, t.Seq)
	case e.Seq != t.Seq+1:
		return problem.New(problem.Gap, "non-monotonic sequence_no: expected %d, got %d", t.Seq+1, e.Seq)
	case e.Prev != t.Hash:
		return problem.New(problem.Fork, "prev_envelope_hash mismatch: expected %s, got %s", t.Hash, e.Prev)
	case t.Epoch > 0 && t.Seq == 0 && !e.Time.After(t.Floor):
		// A reset restarts the sequence numbers, so a call from before the reset could be accepted
		// again.
		return t.FloorError(e)
	}
	return nil
}

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
