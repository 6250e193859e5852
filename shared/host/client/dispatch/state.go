package dispatch

import (
	"bytes"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Point is the last envelope of a chain: sequence number and hash. The zero
// Point is an empty chain.
type Point struct {
	Seq  int64
	Hash identity.Hash
}

// State is the state of one identity's calls to one target. A Book stores it as
// a whole; its slices are replaced, never changed in place.
type State struct {
	Self, Target identity.ID

	Request  Point // the last settled call
	Response Point // the last verified answer in the chain

	// Sent holds every envelope signed for the sequence number after Request,
	// oldest first. The one that the host accepted is recognised by its hash.
	Sent []envelope.Envelope
	// Old holds overtaken envelopes. They are asked for, never sent again.
	Old []envelope.Envelope
	// Live holds envelopes that the host does not know but may still accept: a
	// call that was refused as signed ahead of the clock, or a first call later
	// than the floor. They are asked for after the next settlement.
	Live []envelope.Envelope
	// Reset is a signed chain reset that is not confirmed.
	Reset *envelope.Envelope

	// Job is the idempotency key of the call in hand, which all its envelopes
	// carry. Empty once the call is handed over, refused or given up.
	Job string

	Signed time.Time     // the largest time ever signed for this target
	Ahead  time.Duration // how far the host's clock is ahead of ours, by its own word

	Bound bool  // the target has bound an answer to its request, so it must from now on
	Lost  int64 // accepted calls whose answer is lost: possible gaps (PROTOCOL §23 A9)

	// Thread is the context id of the last signed call that had one and whose Caller.Thread was not AnyThread, or "".
	Thread string

	// Late holds outcomes that were learnt and not handed over: of the call in
	// hand, in case of a crash before it returns, and of calls that were given
	// up.
	Late []Late
}

// Fate is the outcome of a call.
type Fate string

// The fates.
const (
	Answered   Fate = "answered"   // with the verified answer
	TextGone   Fate = "text_gone"  // answered, but the host no longer has the text
	Unanswered Fate = "unanswered" // accepted, and will never be answered
	AnswerLost Fate = "lost"       // accepted; this host cannot return the answer
)

// Late is the outcome of a call.
type Late struct {
	Request   envelope.Envelope
	Fate      Fate
	Detail    string             // the host's reason for no answer
	Code      string             // and its word for it; "" if it gave none
	Reply     *envelope.Envelope // with Answered
	ReplySeq  int64              // with Answered and TextGone
	ReplyHash identity.Hash      // with Answered and TextGone
	// Cut is the host's word for why Reply is only a part of the answer; "" for a whole one.
	// It is not signed.
	Cut string
}

// MaxListed bounds the envelopes listed for one sequence number. At the bound,
// a caller must learn their fate or reset before it signs more: forgetting one
// could lose an answer.
const MaxListed = 64

// jobEnvelope returns the call in hand's envelope for the next sequence number, or
// nil.
func (s *State) jobEnvelope() *envelope.Envelope {
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

// anyJobEnvelope is any envelope of the call in hand.
func (s *State) anyJobEnvelope() *envelope.Envelope {
	if e := s.jobEnvelope(); e != nil || s.Job == "" {
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

// nextNamed finds the envelope with hash h among those for the next sequence
// number.
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

// listed finds the envelope with hash h in any list.
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

// settle closes the next sequence number with a call and its answer at rsp, or
// nil for none.
func (s *State) settle(call Point, rsp *Point) {
	if rsp != nil {
		s.Response = *rsp
	}
	s.Request = call
	s.retire(call.Hash)
}

// retire moves the envelopes for the next sequence number to Old, except the
// one with hash h, whose fate is known.
func (s *State) retire(h identity.Hash) {
	rest := slices.Concat(s.Old, s.Sent, s.Live)
	s.Old = without(rest, h)
	s.Sent, s.Live = nil, nil
}

// drop removes the envelope with hash h from Old.
func (s *State) drop(h identity.Hash) { s.Old = without(s.Old, h) }

// outcome is the known outcome of the call in hand, nil if it is open.
func (s *State) outcome() *Late {
	for i := range s.Late {
		if s.Job != "" && s.Late[i].Request.IdempotencyKey == s.Job {
			return &s.Late[i]
		}
	}
	return nil
}

// restart restarts both chains, after a confirmed reset.
func (s *State) restart() {
	s.retire(identity.Hash{})
	s.Request, s.Response, s.Reset, s.Lost = Point{}, Point{}, nil, 0
}

// moveToLive moves an envelope from Sent to Live that was refused as signed too far ahead
// of the host's clock, which is not final.
func (s *State) moveToLive(h identity.Hash) {
	for _, e := range s.Sent {
		if e.Hash() == h {
			s.Live = append(slices.Clone(s.Live), e)
		}
	}
	s.Sent = without(s.Sent, h)
}

// stamp is the next time to sign: the host's clock as far as it is known, and
// later than anything signed before.
func (s *State) stamp(now time.Time) time.Time {
	t := now.Add(s.Ahead).UTC().Truncate(time.Microsecond)
	if least := s.Signed.Add(time.Microsecond); !s.Signed.IsZero() && t.Before(least) {
		t = least
	}
	return t
}

// noteSigned records a signed time.
func (s *State) noteSigned(t time.Time) {
	if t.After(s.Signed) {
		s.Signed = t
	}
}

// correct sets the difference to the host's clock from the host's word.
// Corrections are never added: two corrections of one error would double it.
func (s *State) correct(host, now time.Time) {
	s.Ahead = host.Sub(now).Truncate(time.Microsecond)
	if s.Signed.After(host) {
		s.Signed = host
	}
}

// without returns a copy of list without the envelope with hash h.
func without(list []envelope.Envelope, h identity.Hash) []envelope.Envelope {
	var out []envelope.Envelope
	for _, e := range list {
		if h.IsZero() || e.Hash() != h {
			out = append(out, e)
		}
	}
	return out
}

// sameMessage reports whether two messages have the same signed form.
func sameMessage(a, b envelope.Message) bool {
	x, y := envelope.Envelope{Payload: a}, envelope.Envelope{Payload: b}
	return bytes.Equal(x.AppendSigning(nil), y.AppendSigning(nil))
}
