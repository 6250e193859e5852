package envelope

import (
	"encoding/hex"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// AppendRequest appends the JSON-RPC request that carries e (PROTOCOL §5.1). If id is nil, the id
// is the idempotency key or, if the key is empty, the hash of e (PROTOCOL §5.3).
func AppendRequest(dst, id []byte, e *Envelope) []byte {
	dst = e.grow(dst, len(id)+880)
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	switch {
	case id != nil:
		dst = append(dst, id...)
	case e.IdempotencyKey != "":
		dst = canon.AppendString(dst, e.IdempotencyKey)
	default:
		dst = append(e.Hash().AppendHex(append(dst, '"')), '"')
	}
	dst = append(dst, `,"method":"message/send","params":{"message":`...)
	return append(AppendMessage(dst, e), `}}`...)
}

// AppendResponse appends the JSON-RPC response that carries e (PROTOCOL §5.2).
func AppendResponse(dst, id []byte, e *Envelope) []byte {
	dst = e.grow(dst, len(id)+880)
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	if id == nil {
		dst = append(dst, `null`...)
	}
	dst = append(dst, id...)
	dst = append(dst, `,"result":{"message":`...)
	return append(AppendMessage(dst, e), `}}`...)
}

// AppendMessage appends e as a message object (PROTOCOL §5.1).
func AppendMessage(dst []byte, e *Envelope) []byte {
	m := &e.Payload
	dst = e.grow(dst, 720)
	dst = append(dst, `{"role":`...)
	dst = canon.AppendString(dst, string(m.Role))
	dst = append(dst, `,"parts":[`...)
	for i, p := range m.Parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = canon.AppendString(append(dst, `{"type":"text","text":`...), p)
		dst = append(dst, '}')
	}
	dst = appendOptional(append(dst, `],"contextId":`...), m.ContextID)
	dst = appendOptional(append(dst, `,"messageId":`...), m.MessageID)
	dst = AppendMetadata(append(dst, `,"metadata":`...), e)
	if s := m.SelfEval; s != nil {
		dst = canon.AppendFloat(append(dst, `,"selfEval":{"factual":`...), s.Factual)
		dst = canon.AppendFloat(append(dst, `,"logical":`...), s.Logical)
		dst = canon.AppendFloat(append(dst, `,"relevance":`...), s.Relevance)
		dst = canon.AppendFloat(append(dst, `,"honesty":`...), s.Honesty)
		dst = canon.AppendFloat(append(dst, `,"adoption":`...), s.Adoption)
		dst = canon.AppendFloat(append(dst, `,"confidence":`...), s.Confidence)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

func AppendMetadata(dst []byte, e *Envelope) []byte {
	dst = e.From.AppendHex(append(dst, `{"urn:vacant:v1":{"from_vacant_id":"`...))
	dst = e.To.AppendHex(append(dst, `","to_vacant_id":"`...))
	dst = strconv.AppendInt(append(dst, `","sequence_no":`...), e.Seq, 10)
	dst = canon.AppendTime(append(dst, `,"timestamp":"`...), e.Time)
	dst = e.Prev.AppendHex(append(dst, `","prev_envelope_hash":"`...))
	dst = canon.AppendString(append(dst, `","idempotency_key":`...), e.IdempotencyKey)
	dst = hex.AppendEncode(append(dst, `,"caller_signature":"`...), e.Signature)
	return append(dst, `"}}`...)
}
