package dispatch

import (
	"bytes"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Point is the sequence number and hash of the last envelope of a chain. The zero Point is an empty
// chain.
type Point struct {
	Seq  int64
	Hash identity.Hash
}

// State is the state of one identity's calls to one target. A Book stores it as a whole. Its slices
// are replaced, but never changed in place.
type State struct {
	Self, Target identity.ID

	RequestTip  Point // last settled call
	ResponseTip Point // last verified answer in the chain

	// Sent contains every envelope signed for the sequence number after RequestTip, the oldest first.
	// The envelope that the host accepted is recognized by its hash.
	Sent []envelope.Envelope
	// Overtaken contains envelopes that another envelope or a reset has replaced. The host is asked
	// for their fates, but they are never resent.
	Overtaken []envelope.Envelope
	// Acceptable contains envelopes that the host does not know but may still accept: a call refused
	// as signed ahead of the clock, or a first call later than the floor. The host is asked for their
	// fates after the next settlement.
	Acceptable []envelope.Envelope
	// PendingReset is a signed chain reset that is not confirmed.
	PendingReset *envelope.Envelope

	// CallKey is the idempotency key of all envelopes of the call in hand. It is empty after the
	// outcome of the call was returned, or the call was refused or given up.
	CallKey string

	LastSignedTime time.Time     // latest time ever signed for this target
	ClockOffset    time.Duration // how far the host's clock is ahead of ours, according to the host

	BindsAnswers bool  // whether the target has bound an answer to its request, and so must bind all answers
	LostAnswers  int64 // number of accepted calls with lost answers, which may leave gaps (PROTOCOL §23 A9)

	// ThreadID is the context id of the last call that was signed with a Caller.Thread other than
	// AnyThread and had a context id. It may be "".
	ThreadID string

	// Answered contains the last answered calls, at most maxAnswered, the newest last.
	Answered []Point

	// UnreturnedOutcomes contains outcomes that were learned but not returned yet: the outcome of the
	// call in hand, in case of a crash before Call returns, and the outcomes of calls that were given
	// up.
	UnreturnedOutcomes []CallOutcome
}

// Fate is the outcome of a call.
type Fate string

const (
	Answered   Fate = "answered"   // answered and verified
	TextGone   Fate = "text_gone"  // answered, but the host no longer has the text
	Unanswered Fate = "unanswered" // accepted, but will not be answered
	AnswerLost Fate = "lost"       // accepted by a host that cannot return the answer
)

type CallOutcome struct {
	Request   envelope.Envelope
	Fate      Fate
	Detail    string             // the host's reason for a missing answer
	Code      string             // code of the reason; may be empty
	Reply     *envelope.Envelope // set for Answered
	ReplySeq  int64              // set for Answered and TextGone
	ReplyHash identity.Hash      // set for Answered and TextGone
	// CutReason is the host's reason why Reply is incomplete, or "". It is not signed.
	CutReason string
}

// MaxListed limits the envelopes that are listed for one sequence number. A caller at the limit
// must learn their fate or reset before it signs another envelope, because dropping an envelope
// could lose its answer.
const MaxListed = 64

// maxAnswered limits the answered calls that a caller can review later.
const maxAnswered = 16

// LastAnswered returns the newest answered call with sequence number seq. If seq is 0, it returns
// the newest answered call. The state of an earlier program version contains only the last settled
// call, which may have no answer.
func (s *State) LastAnswered(seq int64) (p Point, ok bool) {
	points := s.Answered
	if len(points) == 0 && s.RequestTip.Seq > 0 {
		points = []Point{s.RequestTip}
	}
	for _, p := range slices.Backward(points) {
		if seq == 0 || p.Seq == seq {
			return p, true
		}
	}
	return Point{}, false
}

func (s *State) callEnvelope() *envelope.Envelope {
	if s.CallKey == "" {
		return nil
	}
	for i := len(s.Sent) - 1; i >= 0; i-- {
		if s.Sent[i].IdempotencyKey == s.CallKey {
			return &s.Sent[i]
		}
	}
	return nil
}

func (s *State) anyCallEnvelope() *envelope.Envelope {
	if e := s.callEnvelope(); e != nil || s.CallKey == "" {
		return e
	}
	if outcome := s.callOutcome(); outcome != nil {
		return &outcome.Request
	}
	for _, list := range [][]envelope.Envelope{s.Acceptable, s.Overtaken} {
		for i := range list {
			if list[i].IdempotencyKey == s.CallKey {
				return &list[i]
			}
		}
	}
	return nil
}

func (s *State) findNext(h identity.Hash) *envelope.Envelope {
	for _, list := range [][]envelope.Envelope{s.Sent, s.Acceptable} {
		for i := range list {
			if list[i].Seq == s.RequestTip.Seq+1 && list[i].Hash() == h {
				return &list[i]
			}
		}
	}
	return nil
}

func (s *State) findListed(h identity.Hash) *envelope.Envelope {
	for _, list := range [][]envelope.Envelope{s.Sent, s.Acceptable, s.Overtaken} {
		for i := range list {
			if list[i].Hash() == h {
				return &list[i]
			}
		}
	}
	return nil
}

func (s *State) advance(call Point, answer *Point) {
	if answer != nil {
		s.ResponseTip = *answer
	}
	s.RequestTip = call
	s.moveAllToOvertaken(call.Hash)
}

// moveAllToOvertaken moves all listed envelopes to Overtaken, except the envelope with hash h,
// which it drops.
func (s *State) moveAllToOvertaken(h identity.Hash) {
	listed := slices.Concat(s.Overtaken, s.Sent, s.Acceptable)
	s.Overtaken = removeEnvelope(listed, h)
	s.Sent, s.Acceptable = nil, nil
}

func (s *State) dropOvertaken(h identity.Hash) { s.Overtaken = removeEnvelope(s.Overtaken, h) }

func (s *State) callOutcome() *CallOutcome {
	for i := range s.UnreturnedOutcomes {
		if s.CallKey != "" && s.UnreturnedOutcomes[i].Request.IdempotencyKey == s.CallKey {
			return &s.UnreturnedOutcomes[i]
		}
	}
	return nil
}

func (s *State) resetChains() {
	s.moveAllToOvertaken(identity.Hash{})
	s.RequestTip, s.ResponseTip, s.PendingReset, s.LostAnswers = Point{}, Point{}, nil, 0
}

func (s *State) moveToAcceptable(h identity.Hash) {
	for _, e := range s.Sent {
		if e.Hash() == h {
			s.Acceptable = append(slices.Clone(s.Acceptable), e)
		}
	}
	s.Sent = removeEnvelope(s.Sent, h)
}

func (s *State) nextSignTime(now time.Time) time.Time {
	t := now.Add(s.ClockOffset).UTC().Truncate(time.Microsecond)
	// A time must be later than all earlier signed times.
	if earliest := s.LastSignedTime.Add(time.Microsecond); !s.LastSignedTime.IsZero() && t.Before(earliest) {
		t = earliest
	}
	return t
}

func (s *State) recordSignedTime(t time.Time) {
	if t.After(s.LastSignedTime) {
		s.LastSignedTime = t
	}
}

// setClockOffset replaces the difference to the host's clock. It does not add to the old
// difference, because two corrections of one error would double it.
func (s *State) setClockOffset(hostTime, now time.Time) {
	s.ClockOffset = hostTime.Sub(now).Truncate(time.Microsecond)
	if s.LastSignedTime.After(hostTime) {
		s.LastSignedTime = hostTime
	}
}

func removeEnvelope(list []envelope.Envelope, h identity.Hash) []envelope.Envelope {
	var out []envelope.Envelope
	for _, e := range list {
		if h.IsZero() || e.Hash() != h {
			out = append(out, e)
		}
	}
	return out
}

func isSameMessage(a, b envelope.Message) bool {
	x, y := envelope.Envelope{Payload: a}, envelope.Envelope{Payload: b}
	return bytes.Equal(x.AppendSignedBytes(nil), y.AppendSignedBytes(nil))
}
