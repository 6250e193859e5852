package call

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Answers are stored without their idempotency key, which ResponseRow.Envelope derives from the
// request's hash.

const (
	contextFlag = 1 << iota
	messageFlag
	selfEvalFlag
	keyFlag
	toolsFlag
)

// roles lists the roles in stored order: the index is the byte in a row.
var roles = [...]envelope.Role{envelope.RoleUser, envelope.RoleAgent, envelope.RoleTool}

func encodePayload(m *envelope.Message, key string) []byte {
	size := 64 + len(key)
	for _, p := range m.Parts {
		size += len(p) + 4
	}
	b := make([]byte, 0, size)
	flags := byte(0)
	for i, isSet := range []bool{m.ContextID != nil, m.MessageID != nil, m.SelfEval != nil, key != ""} {
		if isSet {
			flags |= 1 << i
		}
	}
	role := byte(0)
	for i, r := range roles {
		if r == m.Role {
			role = byte(i)
		}
	}
	b = append(b, flags, role)
	if m.ContextID != nil {
		b = appendString(b, *m.ContextID)
	}
	if m.MessageID != nil {
		b = appendString(b, *m.MessageID)
	}
	if s := m.SelfEval; s != nil {
		for _, f := range []float64{s.Adoption, s.Confidence, s.Factual, s.Honesty, s.Logical, s.Relevance} {
			b = binary.BigEndian.AppendUint64(b, math.Float64bits(f))
		}
	}
	if key != "" {
		b = appendString(b, key)
	}
	b = binary.AppendUvarint(b, uint64(len(m.Parts)))
	for _, p := range m.Parts {
		b = appendString(b, p)
	}
	return b
}

func parsePayload(b []byte) (m envelope.Message, key string, err error) {
	m, key, _, err = parsePayloadAndTools(b)
	return m, key, err
}

func parsePayloadAndTools(b []byte) (m envelope.Message, key string, tools []RecordedToolCall, err error) {
	d := &reader{b: b}
	flags, role := d.readByte(), d.readByte()
	if int(role) >= len(roles) {
		return m, "", nil, fmt.Errorf("%w: role %d", errInvalidRow, role)
	}
	m.Role = roles[role]
	if flags&contextFlag != 0 {
		s := d.readString()
		m.ContextID = &s
	}
	if flags&messageFlag != 0 {
		s := d.readString()
		m.MessageID = &s
	}
	if flags&selfEvalFlag != 0 {
		s := &envelope.SelfEval{}
		for _, f := range []*float64{&s.Adoption, &s.Confidence, &s.Factual, &s.Honesty, &s.Logical, &s.Relevance} {
			if v := d.readBytes(8); v != nil {
				*f = math.Float64frombits(binary.BigEndian.Uint64(v))
			}
		}
		m.SelfEval = s
	}
	if flags&keyFlag != 0 {
		key = d.readString()
	}
	n := d.readUvarint(uint64(len(d.b)))
	for i := uint64(0); i < n && !d.bad; i++ {
		m.Parts = append(m.Parts, d.readString())
	}
	if flags&toolsFlag != 0 {
		tools = d.readTools()
	}
	if d.bad || len(d.b) > 0 {
		return m, "", nil, fmt.Errorf("%w: a text of %d bytes is malformed", errInvalidRow, len(b))
	}
	return m, key, tools, nil
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func (d *reader) readString() string {
	return string(d.readBytes(int(d.readUvarint(uint64(len(d.b))))))
}

// additionalData prevents a sealed text from being moved to another row.
func additionalData(s store.Stream, h identity.Hash) []byte {
	b := make([]byte, 0, len(s)+len(h))
	b = append(b, s...)
	return append(b, h[:]...)
}

func (r *RequestRow) Envelope(pair Pair, plain []byte) (envelope.Envelope, error) {
	m, key, err := parsePayload(plain)
	return envelope.Envelope{
		From: pair.Caller, To: pair.Vacant, Seq: r.Seq, Time: r.Time, Prev: r.Prev,
		Payload: m, IdempotencyKey: key, Signature: r.Signature,
	}, err
}

func (r *ResponseRow) Envelope(pair Pair, plain []byte) (envelope.Envelope, error) {
	m, _, err := parsePayload(plain)
	return envelope.Envelope{
		From: pair.Vacant, To: pair.Caller, Seq: r.Seq, Time: r.Time, Prev: r.Prev,
		Payload: m, IdempotencyKey: envelope.ReplyKey(r.RequestHash), Signature: r.Signature,
	}, err
}

func (r *RequestRow) SealedText(pair Pair) (textkeys.Sealed, []byte) {
	return r.Text, additionalData(pair.Requests(), r.Hash)
}

func (r *ResponseRow) SealedText(pair Pair) (textkeys.Sealed, []byte) {
	return r.Text, additionalData(pair.Responses(), r.Hash)
}
