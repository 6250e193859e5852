package envelope

import (
	"slices"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// AppendSignedBytes appends the hashed and signed bytes: the canonical JSON of the seven signed
// fields, all of which are always present (PROTOCOL §4.2).
func (e *Envelope) AppendSignedBytes(dst []byte) []byte {
	dst = e.grow(dst, 480)
	// The keys are in canonical order.
	dst = append(dst, `{"from":"`...)
	dst = e.From.AppendHex(dst)
	dst = append(dst, `","idem":`...)
	dst = canon.AppendString(dst, e.IdempotencyKey)
	dst = append(dst, `,"payload":`...)
	dst = e.Payload.appendSignedBytes(dst)
	dst = append(dst, `,"prev":"`...)
	dst = e.Prev.AppendHex(dst)
	dst = append(dst, `","seq":`...)
	dst = strconv.AppendInt(dst, e.Seq, 10)
	dst = append(dst, `,"to":"`...)
	dst = e.To.AppendHex(dst)
	dst = append(dst, `","ts":"`...)
	dst = canon.AppendTime(dst, e.Time)
	return append(dst, `"}`...)
}

func (m *Message) appendSignedBytes(dst []byte) []byte {
	dst = append(dst, `{"contextId":`...)
	dst = appendOptional(dst, m.ContextID)
	dst = append(dst, `,"messageId":`...)
	dst = appendOptional(dst, m.MessageID)
	dst = append(dst, `,"parts":[`...)
	for i, p := range m.Parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"text":`...)
		dst = canon.AppendString(dst, p)
		dst = append(dst, `,"type":"text"}`...)
	}
	dst = append(dst, `],"role":`...)
	dst = canon.AppendString(dst, string(m.Role))
	dst = append(dst, `,"selfEval":`...)
	if s := m.SelfEval; s != nil {
		dst = canon.AppendFloat(append(dst, `{"adoption":`...), s.Adoption)
		dst = canon.AppendFloat(append(dst, `,"confidence":`...), s.Confidence)
		dst = canon.AppendFloat(append(dst, `,"factual":`...), s.Factual)
		dst = canon.AppendFloat(append(dst, `,"honesty":`...), s.Honesty)
		dst = canon.AppendFloat(append(dst, `,"logical":`...), s.Logical)
		dst = canon.AppendFloat(append(dst, `,"relevance":`...), s.Relevance)
		return append(dst, `}}`...)
	}
	return append(dst, `null}`...) // the wire form omits an absent selfEval (PROTOCOL §4.3)
}

func appendOptional(dst []byte, s *string) []byte {
	if s == nil {
		return append(dst, `null`...)
	}
	return canon.AppendString(dst, *s)
}

func (e *Envelope) grow(dst []byte, fixedSize int) []byte {
	// The estimate avoids a second allocation.
	n := fixedSize + len(e.IdempotencyKey)
	for _, p := range e.Payload.Parts {
		n += 32 + len(p) + len(p)/32
	}
	return slices.Grow(dst, n)
}
