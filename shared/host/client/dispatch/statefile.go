package dispatch

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const StateFormat = 1

var stateLimits = canon.Limits{Bytes: 64 << 20, Depth: 32, Keys: 1024}

func (s *State) AppendJSON(dst []byte) []byte {
	dst = fmt.Appendf(dst, "{\n\"format\": %d,\n\"self\": %q,\n\"target\": %q", StateFormat, s.Self, s.Target)
	dst = appendPoint(append(dst, ",\n\"request\": "...), s.RequestTip)
	dst = appendPoint(append(dst, ",\n\"response\": "...), s.ResponseTip)
	dst = appendEnvelopes(append(dst, ",\n\"sent\": "...), s.Sent)
	dst = appendEnvelopes(append(dst, ",\n\"live\": "...), s.Acceptable)
	dst = appendEnvelopes(append(dst, ",\n\"old\": "...), s.Overtaken)
	dst = appendEnvelope(append(dst, ",\n\"reset\": "...), s.PendingReset)
	dst = canon.AppendString(append(dst, ",\n\"job\": "...), s.CallKey)
	if s.ThreadID != "" {
		dst = canon.AppendString(append(dst, ",\n\"thread\": "...), s.ThreadID)
	}
	if len(s.Answered) > 0 {
		dst = append(dst, ",\n\"answered\": ["...)
		for i, p := range s.Answered {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = appendPoint(dst, p)
		}
		dst = append(dst, ']')
	}
	dst = append(dst, ",\n\"signed\": "...)
	if s.LastSignedTime.IsZero() {
		dst = append(dst, "null"...)
	} else {
		dst = append(canon.AppendTime(append(dst, '"'), s.LastSignedTime), '"')
	}
	dst = fmt.Appendf(dst, ",\n\"ahead_us\": %d,\n\"bound\": %t,\n\"lost\": %d,\n\"late\": [", s.ClockOffset.Microseconds(), s.BindsAnswers, s.LostAnswers)
	for i, outcome := range s.UnreturnedOutcomes {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendEnvelope(append(dst, "\n{\"request\": "...), &outcome.Request)
		dst = canon.AppendString(append(dst, ", \"fate\": "...), string(outcome.Fate))
		dst = canon.AppendString(append(dst, ", \"detail\": "...), outcome.Detail)
		if outcome.Code != "" {
			dst = canon.AppendString(append(dst, ", \"code\": "...), outcome.Code)
		}
		if outcome.CutReason != "" {
			dst = canon.AppendString(append(dst, ", \"cut\": "...), outcome.CutReason)
		}
		dst = appendEnvelope(append(dst, ", \"reply\": "...), outcome.Reply)
		dst = fmt.Appendf(dst, ", \"reply_seq\": %d, \"reply_hash\": %q}", outcome.ReplySeq, outcome.ReplyHash)
	}
	return append(dst, "]\n}\n"...)
}

func appendPoint(dst []byte, p Point) []byte {
	dst = strconv.AppendInt(append(dst, `{"seq": `...), p.Seq, 10)
	return append(p.Hash.AppendHex(append(dst, `, "hash": "`...)), `"}`...)
}

func appendEnvelope(dst []byte, e *envelope.Envelope) []byte {
	if e == nil {
		return append(dst, "null"...)
	}
	return envelope.AppendMessage(dst, e)
}

func appendEnvelopes(dst []byte, list []envelope.Envelope) []byte {
	dst = append(dst, '[')
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = envelope.AppendMessage(append(dst, '\n'), &list[i])
	}
	return append(dst, ']')
}

// DecodeState parses the output of AppendJSON strictly. Its errors have kind Damaged.
func DecodeState(data []byte) (State, error) {
	s, err := decodeState(data)
	if err != nil {
		return State{}, &problem.Error{Kind: problem.Damaged, Detail: "call state: " + problem.AsError(err).Text(), Err: errors.Unwrap(err)}
	}
	return s, nil
}

const stateMembers = 15 // without the optional thread and answered

func decodeState(data []byte) (State, error) {
	var s State
	d := canon.NewDecoder(data, stateLimits)
	n := 0
	err := d.Document(func(key string) error {
		if n++; n == 1 && key != "format" {
			return problem.Invalid("format", "the first member", key)
		}
		return s.decodeMember(d, key)
	})
	if s.ThreadID != "" {
		n--
	}
	if len(s.Answered) > 0 {
		n--
	}
	switch {
	case err != nil:
		return State{}, err
	case n != stateMembers:
		return State{}, problem.Invalid("members", strconv.Itoa(stateMembers), strconv.Itoa(n))
	}
	return s, s.check()
}

func (s *State) decodeMember(d *canon.Decoder, key string) (err error) {
	switch key {
	case "format":
		var n int64
		if n, err = d.Int64(); err == nil && n != StateFormat {
			err = problem.Invalid("format", fmt.Sprintf("%d, the format of this program version", StateFormat), strconv.FormatInt(n, 10))
		}
	case "self":
		s.Self, err = decodeID(d)
	case "target":
		s.Target, err = decodeID(d)
	case "request":
		s.RequestTip, err = decodePoint(d)
	case "response":
		s.ResponseTip, err = decodePoint(d)
	case "sent":
		s.Sent, err = decodeEnvelopes(d)
	case "live":
		s.Acceptable, err = decodeEnvelopes(d)
	case "old":
		s.Overtaken, err = decodeEnvelopes(d)
	case "reset":
		s.PendingReset, err = decodeEnvelope(d)
	case "job":
		s.CallKey, err = d.String()
	case "thread":
		s.ThreadID, err = d.String()
	case "answered":
		err = d.Array(func(int) error {
			p, err := decodePoint(d)
			s.Answered = append(s.Answered, p)
			return err
		})
	case "signed":
		if d.Kind() == canon.Null {
			return d.Null()
		}
		var text string
		if text, err = d.String(); err == nil {
			s.LastSignedTime, err = canon.ParseTime(text)
		}
	case "ahead_us":
		var n int64
		if n, err = d.Int64(); err == nil {
			s.ClockOffset = time.Duration(n) * time.Microsecond
			if s.ClockOffset.Abs() > maxSkew || n != s.ClockOffset.Microseconds() {
				err = problem.Invalid(key, "at most an hour", strconv.FormatInt(n, 10))
			}
		}
	case "bound":
		s.BindsAnswers, err = d.Bool()
	case "lost":
		s.LostAnswers, err = d.Int64()
	case "late":
		err = d.Array(func(int) error {
			l, err := decodeOutcome(d)
			s.UnreturnedOutcomes = append(s.UnreturnedOutcomes, l)
			return err
		})
	default:
		err = problem.Invalid(key, "a member of a call state", "another")
	}
	return err
}

func (s *State) check() error {
	for _, p := range append([]Point{s.RequestTip, s.ResponseTip}, s.Answered...) {
		if p.Seq < 0 || p.Seq > envelope.MaxSeq || (p.Seq == 0) != p.Hash.IsZero() {
			return problem.Invalid("seq", "a sequence number and its hash", strconv.FormatInt(p.Seq, 10))
		}
	}
	lists := [][]envelope.Envelope{s.Sent, s.Acceptable, s.Overtaken}
	if s.PendingReset != nil {
		lists = append(lists, []envelope.Envelope{*s.PendingReset})
	}
	for i, list := range lists {
		for _, e := range list {
			switch {
			case e.From != s.Self || e.To != s.Target:
				return problem.Invalid("envelope", "one from self to target", e.From.Short()+" to "+e.To.Short())
			case i == 0 && (e.Seq != s.RequestTip.Seq+1 || e.Prev != s.RequestTip.Hash):
				return problem.Invalid("sent", "envelopes that follow the last settled one", strconv.FormatInt(e.Seq, 10))
			}
		}
	}
	if s.LostAnswers < 0 {
		return problem.Invalid("lost", "a count", strconv.FormatInt(s.LostAnswers, 10))
	}
	return nil
}

func decodeID(d *canon.Decoder) (id identity.ID, err error) {
	t, err := d.String()
	if err != nil {
		return id, err
	}
	return identity.ParseID(t)
}

func decodeHash(d *canon.Decoder) (h identity.Hash, err error) {
	t, err := d.String()
	if err != nil {
		return h, err
	}
	return identity.ParseHash(t)
}

func decodePoint(d *canon.Decoder) (p Point, err error) {
	err = d.Object(func(key string) (err error) {
		switch key {
		case "seq":
			p.Seq, err = d.Int64()
		case "hash":
			p.Hash, err = decodeHash(d)
		default:
			err = problem.Invalid(key, "seq or hash", "another")
		}
		return err
	})
	return p, err
}

func decodeEnvelope(d *canon.Decoder) (*envelope.Envelope, error) {
	if d.Kind() == canon.Null {
		return nil, d.Null()
	}
	raw, err := d.Raw()
	if err != nil {
		return nil, err
	}
	e, err := envelope.DecodeMessage(raw)
	return &e, err
}

func decodeEnvelopes(d *canon.Decoder) (list []envelope.Envelope, err error) {
	err = d.Array(func(int) error {
		e, err := decodeEnvelope(d)
		if err == nil && e == nil {
			err = problem.Invalid("envelope", "a message", "null")
		}
		if err == nil {
			list = append(list, *e)
		}
		return err
	})
	return list, err
}

func decodeOutcome(d *canon.Decoder) (outcome CallOutcome, err error) {
	var request *envelope.Envelope
	err = d.Object(func(key string) (err error) {
		switch key {
		case "request":
			request, err = decodeEnvelope(d)
		case "fate":
			var f string
			f, err = d.String()
			outcome.Fate = Fate(f)
		case "detail":
			outcome.Detail, err = d.String()
		case "code":
			outcome.Code, err = d.String()
		case "cut":
			outcome.CutReason, err = d.String()
		case "reply":
			outcome.Reply, err = decodeEnvelope(d)
		case "reply_seq":
			outcome.ReplySeq, err = d.Int64()
		case "reply_hash":
			outcome.ReplyHash, err = decodeHash(d)
		default:
			err = problem.Invalid(key, "a member of a late outcome", "another")
		}
		return err
	})
	switch {
	case err != nil:
		return outcome, err
	case request == nil:
		return outcome, problem.Invalid("request", "the envelope of a late outcome", "none")
	}
	switch outcome.Fate {
	case Answered, TextGone, Unanswered, AnswerLost:
	default:
		return outcome, problem.Invalid("fate", "a fate", fmt.Sprintf("%.20q", string(outcome.Fate)))
	}
	if (outcome.Fate == Answered) != (outcome.Reply != nil) {
		return outcome, problem.Invalid("reply", "an answer if and only if the fate is answered", string(outcome.Fate))
	}
	outcome.Request = *request
	return outcome, nil
}
