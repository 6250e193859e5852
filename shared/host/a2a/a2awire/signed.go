package a2awire

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// Extension is the URI of the vacant protocol as an A2A extension, and the metadata key of
// envelopes.
const Extension = "urn:vacant:v1"

// PriceUnit is the unit of prices in cards, a millionth of a dollar.
const PriceUnit = "micro-USD"

// ParseEnvelope returns the envelope in a message's metadata, or nil. It does not verify the
// envelope.
func ParseEnvelope(m *task.Message) (*envelope.Envelope, error) {
	envelopeJSON, err := metadataMember(m.Metadata, Extension)
	if err != nil || envelopeJSON == nil {
		return nil, err
	}
	role := envelope.RoleUser
	if m.Role == task.Agent {
		role = envelope.RoleAgent
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"role":%q,"parts":[`, role)
	for i, p := range m.Parts {
		if p.Kind != task.Text {
			return nil, problem.Invalid(fmt.Sprintf("parts[%d]", i), "a text part, because an envelope signs only text", string(p.Kind))
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"type":"text","text":`)
		b.Write(canon.AppendString(nil, p.Text))
		b.WriteByte('}')
	}
	b.WriteString(`],"messageId":`)
	b.Write(textOrNull(m.ID))
	b.WriteString(`,"contextId":`)
	b.Write(textOrNull(m.Context))
	b.WriteString(`,"metadata":{"` + Extension + `":`)
	b.Write(envelopeJSON)
	b.WriteString(`}}`)
	e, err := envelope.DecodeMessage(b.Bytes())
	if err != nil {
		return nil, err
	}
	return &e, nil
}

// EnvelopeMessage returns the message that carries an envelope. It is the inverse of ParseEnvelope.
func EnvelopeMessage(e *envelope.Envelope) task.Message {
	m := task.Message{Role: task.User, Metadata: envelope.AppendMetadata(nil, e)}
	if id := e.Payload.MessageID; id != nil {
		m.ID = *id
	}
	if id := e.Payload.ContextID; id != nil {
		m.Context = *id
	}
	for _, text := range e.Payload.Parts {
		m.Parts = append(m.Parts, task.Part{Kind: task.Text, Text: text})
	}
	return m
}

func textOrNull(s string) []byte {
	if s == "" {
		return []byte("null")
	}
	return canon.AppendString(nil, s)
}

// CutReason reads from a message's metadata why an answer is incomplete, or returns "".
func CutReason(m *task.Message) (reason string) {
	member, err := metadataMember(m.Metadata, task.CutMember)
	if err == nil && json.Unmarshal(member, &reason) != nil {
		return ""
	}
	return reason
}

func metadataMember(metadata []byte, name string) (member []byte, err error) {
	if metadata == nil {
		return nil, nil
	}
	d := canon.NewDecoder(metadata, canon.DefaultLimits())
	err = d.Object(func(key string) (err error) {
		if key != name {
			return d.Skip()
		}
		member, err = d.Raw()
		return err
	})
	return member, err
}
