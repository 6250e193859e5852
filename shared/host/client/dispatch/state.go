package dispatch

import (
	"bytes"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Point is the last envelope of a chain: its sequence number and hash. The
// zero Point is a chain without envelopes.
type Point struct {
	Seq  int64
	Hash identity.Hash
}

// State is where the calls of one identity to one target stand. A Book keeps
// it as a whole; its slices are replaced, never changed in place.
type State struct {
	Self, Target identity.ID

	Request  Point // the last call that is settled
	Response Point // the last answer that was verified in the chain

	// Sent holds every envelope signed for the sequence number after Request,
	// oldest first: whichever of them the host took is recognised by its hash
	//.
	Sent []envelope.Envelope
	// Old holds envelopes that another one has overtaken. They are asked for,
	// never sent again.
	Old []envelope.Envelope
	// Live holds what the host does not know but may still accept: a call that
	// was refused as signed ahead of the clock, or a first call later than the
	// floor. They are asked for after the next settlement.
	Live []envelope.Envelope
	// Reset is a chain reset that is signed and not confirmed.
	Reset *envelope.Envelope

	// Job is the idempotency key of the call in hand: all envelopes signed for
	// it carry it. Empty when the last call is handed over, refused or given up.
	Job string

	Signed time.Time     // the largest time ever signed for this target
	Ahead  time.Duration // how far the host's clock is ahead of ours, as it said

	Bound bool  // the target has bound an answer to its request: from now on it must
	Lost  int64 // calls that were accepted and whose answer is lost: gaps that may show (PROTOCOL §23 A9)

	// Late holds outcomes that were learnt and not handed over yet: of the call
	// in hand, should we die before it returns, and of calls that were given up.
	Late []Late
}

// Fate is what became of a call.
type Fate string

// The fates.
const (
	Answered   Fate = "answered"   // the verified answer is beside it
	TextGone   Fate = "text_gone"  // answered, but the host no longer has the text
	Unanswered Fate = "unanswered" // accepted, and will never be answered
	AnswerLost Fate = "lost"       // accepted; its answer cannot be had from this host
)

// Late is what became of a call.
type Late struct {
	Request   envelope.Envelope
	Fate      Fate
	Detail    string             // the host's words on why there is no answer
	Reply     *envelope.Envelope // with Answered
	ReplySeq  int64              // with Answered and TextGone
	ReplyHash identity.Hash      // with Answered and TextGone
}

// MaxListed bounds the envelopes listed for one sequence number. A caller that
// reaches it must learn what became of them, or reset, before it signs more:
// forgetting one could lose an answer.
const MaxListed = 64

// inHand is the envelope of the call in hand among those for the next sequence
// number, nil if there is none to send.
func (s *State) inHand() *envelope.Envelope {
	if s.Job == "" {
		return nil
	}
	for i := len(s.Sent) - 1; i >= 0; i-- {
		if s.Sent[i].IdempotencyKey == s.Job {
			return &s.Sent[i]
		}
	}
	return nil
}

// ofJob is any envelope of the call in hand.
func (s *State) ofJob() *envelope.Envelope {
	if e := s.inHand(); e != nil || s.Job == "" {
		return e
	}
	if l := s.outcome(); l != nil {
		return &l.Request
	}
	for _, list := range [][]envelope.Envelope{s.Live, s.Old} {
		for i := range list {
			if list[i].IdempotencyKey == s.Job {
				return &list[i]
			}
		}
	}
	return nil
}

// nextNamed finds the envelope with hash h among those that may take the next
// sequence number.
func (s *State) nextNamed(h identity.Hash) *envelope.Envelope {
	for _, list := range [][]envelope.Envelope{s.Sent, s.Live} {
		for i := range list {
			if list[i].Seq == s.Request.Seq+1 && list[i].Hash() == h {
				return &list[i]
			}
		}
	}
	return nil
}

// listed finds the envelope with hash h wherever it is listed.
func (s *State) listed(h identity.Hash) *envelope.Envelope {
	for _, list := range [][]envelope.Envelope{s.Sent, s.Live, s.Old} {
		for i := range list {
			if list[i].Hash() == h {
				return &list[i]
			}
		}
	}
	return nil
}

// settle closes the next sequence number with a call, whose answer is at rsp,
// or which has none.
func (s *State) settle(call Point, rsp *Point) {
	if rsp != nil {
		s.Response = *rsp
	}
	s.Request = call
	s.retire(call.Hash)
}

// retire moves everything listed for the next sequence number to Old, except
// the envelope with hash h, whose fate is known.
func (s *State) retire(h identity.Hash) {
	rest := slices.Concat(s.Old, s.Sent, s.Live)
	s.Old = without(rest, h)
	s.Sent, s.Live = nil, nil
}

// drop removes the envelope with hash h from Old.
func (s *State) drop(h identity.Hash) { s.Old = without(s.Old, h) }

// outcome is what was learnt of the call in hand, nil if it is open.
func (s *State) outcome() *Late {
	for i := range s.Late {
		if s.Job != "" && s.Late[i].Request.IdempotencyKey == s.Job {
			return &s.Late[i]
		}
	}
	return nil
}

// resetDone starts both chains again, as a confirmed reset does.
func (s *State) resetDone() {
	s.retire(identity.Hash{})
	s.Request, s.Response, s.Reset, s.Lost = Point{}, Point{}, nil, 0
}

// ahead takes e out of what is sent: it was refused as signed too far ahead of
// the host's clock, which is not final.
func (s *State) ahead(h identity.Hash) {
	for _, e := range s.Sent {
		if e.Hash() == h {
			s.Live = append(slices.Clone(s.Live), e)
		}
	}
	s.Sent = without(s.Sent, h)
}

// stamp is the next time to sign: the host's clock as far as we know it, and
// later than anything signed before.
func (s *State) stamp(now time.Time) time.Time {
	t := now.Add(s.Ahead).UTC().Truncate(time.Microsecond)
	if least := s.Signed.Add(time.Microsecond); !s.Signed.IsZero() && t.Before(least) {
		t = least
	}
	return t
}

// signed notes a time that was signed.
func (s *State) signed(t time.Time) {
	if t.After(s.Signed) {
		s.Signed = t
	}
}

// correct takes the difference to the host's clock from what the host says. It
// is never added up: two corrections of one fault would double it.
func (s *State) correct(host, now time.Time) {
	s.Ahead = host.Sub(now).Truncate(time.Microsecond)
	if s.Signed.After(host) {
		s.Signed = host
	}
}

// without is list without the envelope of hash h, in a slice of its own.
func without(list []envelope.Envelope, h identity.Hash) []envelope.Envelope {
	var out []envelope.Envelope
	for _, e := range list {
		if h.IsZero() || e.Hash() != h {
			out = append(out, e)
		}
	}
	return out
}

// sameMessage reports whether two messages sign alike.
func sameMessage(a, b envelope.Message) bool {
	x, y := envelope.Envelope{Payload: a}, envelope.Envelope{Payload: b}
	return bytes.Equal(x.AppendSigning(nil), y.AppendSigning(nil))
}
