package dispatch

import (
	"bytes"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type Point struct {
	Seq  int64
	Hash identity.Hash
}

// State is the state of one identity's calls to one target. Its slices are replaced, but never
// changed in place.
type State struct {
	Self, Target identity.ID

	RequestTip  Point
	ResponseTip Point

	// Sent contains the envelopes signed for the next sequence number.
	Sent []envelope.Envelope
	// Overtaken contains envelopes that another envelope or a reset has replaced. They are never
	// resent.
	Overtaken []envelope.Envelope
	// Acceptable contains envelopes that the host does not know but may still accept.
	Acceptable   []envelope.Envelope
	PendingReset *envelope.Envelope

	// CallKey is the idempotency key of the call in hand, or "".
	CallKey string

	LastSignedTime time.Time
	ClockOffset    time.Duration // host's time minus local time

	BindsAnswers bool  // whether the target has bound an answer to its request
	LostAnswers  int64 // PROTOCOL §23 A9

	// ThreadID is the context id that LastThread continues.
	ThreadID string

	Answered []Point

	UnreturnedOutcomes []CallOutcome
}

type Fate string

const (
	Answered   Fate = "answered"
	TextGone   Fate = "text_gone"  // answered, but the host no longer has the text
	Unanswered Fate = "unanswered" // accepted, but will not be answered
	AnswerLost Fate = "lost"       // accepted by a host that cannot return the answer
)

type CallOutcome struct {
	Request   envelope.Envelope
	Fate      Fate
	Detail    string
	Code      string
	Reply     *envelope.Envelope // set for Answered
	ReplySeq  int64
	ReplyHash identity.Hash
	// CutReason is the host's unsigned reason why Reply is incomplete, or "".
	CutReason string
}

// MaxListed limits the listed envelopes of one sequence number. A caller at the limit must ask or
// reset, because dropping an envelope could lose its answer.
const MaxListed = 64

const maxAnswered = 16

// LastAnswered returns the newest answered call with sequence number seq, or the newest one if seq
// is 0. If Answered is empty, as in states of earlier program versions, it uses RequestTip.
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
