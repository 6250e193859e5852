package envelope

import (
	"math/bits"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// Request is what a caller sent.
type Request struct {
	// ID is the JSON-RPC id as it was written, nil if there was none. It is
	// unsigned, echoed byte for byte and used for nothing else (PROTOCOL §5.3). It
	// is a piece of the body.
	ID       []byte
	Envelope Envelope
}

// DecodeRequest reads the body of message/send by the strict rules of PROTOCOL
// §5.4 and checks jsonrpc and method. The signature is not verified.
//
// A body that is not one JSON object is problem.NotJSON, one that is too large
// problem.TooLarge, and everything else problem.Malformed with a text that
// names the field, what was expected and what came. When several members are
// wrong, the first in the order of PROTOCOL §6.2 is named. The body must not
// change while the request is in use.
func DecodeRequest(body []byte) (Request, error) {
	return decodeRequest(body, true)
}

// DecodeResetRequest reads the body of chain/reset: a request whose jsonrpc
// and method are not looked at (PROTOCOL §9).
func DecodeResetRequest(body []byte) (Request, error) {
	return decodeRequest(body, false)
}

func decodeRequest(body []byte, rpc bool) (Request, error) {
	r := newReader(body, canon.DefaultLimits())
	r.rpc = rpc
	need := of(params) | of(message) | signed
	if rpc {
		need |= of(jsonrpc) | of(method)
	}
	e, err := r.envelope(r.request, need)
	if err != nil {
		return Request{}, err
	}
	return Request{ID: r.id, Envelope: e}, nil
}

// DecodeResponse reads result.message of a response body. Its jsonrpc and id
// are not looked at (PROTOCOL §16).
func DecodeResponse(body []byte) (Envelope, error) {
	r := newReader(body, canon.AnswerLimits())
	r.answer = true
	return r.envelope(r.response, of(result)|of(message)|signed)
}

// DecodeMessage reads a message object alone, as AppendMessage writes it.
func DecodeMessage(raw []byte) (Envelope, error) {
	r := newReader(raw, canon.AnswerLimits())
	return r.envelope(r.message, signed)
}

// reader reads one envelope. A member of a wrong kind is noted and skipped, so
// that a body which is not JSON at all is refused as that wherever the damage
// is, and so that of several wrong members the one that the reference looks at
// first is named.
type reader struct {
	d      *canon.Decoder
	rpc    bool   // jsonrpc and method are looked at
	answer bool   // it is a response
	seen   set    // the members that are there
	worst  member // of those that are wrong, the one that is looked at first
	err    error  // what is wrong with it
	id     []byte
	e      Envelope
}

func newReader(body []byte, l canon.Limits) reader {
	r := reader{d: canon.NewDecoder(body, l), worst: none}
	r.e.Payload.Role = RoleUser
	return r
}

// member is a place in the body, in the order in which they are looked at.
type member uint8

const (
	jsonrpc member = iota
	method
	params
	result
	message
	metadata
	block
	from
	to
	seq
	timestamp
	prev
	signature
	idempotencyKey
	selfEval
	role
	parts
	contextID
	messageID
	none
)

// set is a set of members.
type set uint32

func of(m member) set { return 1 << m }

// signed is what every message object must have (PROTOCOL §5.4).
const signed = set(1<<metadata | 1<<block | 1<<from | 1<<to | 1<<seq | 1<<timestamp | 1<<prev | 1<<signature)

// names holds the keys of the members.
var names = [none]string{"jsonrpc", "method", "params", "result", "message", "metadata", blockKey, "from_vacant_id",
	"to_vacant_id", "sequence_no", "timestamp", "prev_envelope_hash", "caller_signature", "idempotency_key", "selfEval",
	"role", "parts", "contextId", "messageId"}

// blockKey is where the metadata carry the envelope.
const blockKey = "urn:vacant:v1"

// envelope reads the whole document by f, whose members need must be there.
func (r *reader) envelope(f func(key string) error, need set) (Envelope, error) {
	if err := r.d.Document(f); err != nil {
		return Envelope{}, err
	}
	if err := r.verdict(need); err != nil {
		return Envelope{}, err
	}
	return r.e, nil
}

// refuse notes that m is wrong.
func (r *reader) refuse(m member, err error) {
	if m < r.worst {
		r.worst, r.err = m, r.prefixed(m, err)
	}
}

// verdict is what is wrong with the body, now that it is read: a wrong member
// or a missing one, whichever is looked at first.
func (r *reader) verdict(need set) error {
	missing := need &^ r.seen
	if missing == 0 {
		return r.err
	}
	m := member(bits.TrailingZeros32(uint32(missing)))
	if m >= r.worst {
		return r.err
	}
	switch m {
	case jsonrpc, method:
		return wrongConstant(m, "None")
	case result, message:
		if r.answer {
			return missingField(m, notAResult)
		}
	}
	if m > block {
		return missingField(m, "invalid metadata: ")
	}
	return missingField(m, "missing field: ")
}

// notAResult begins the refusal of a response without an envelope (PROTOCOL §16).
const notAResult = "transport response is not a valid A2A result: "

func missingField(m member, prefix string) error {
	return &problem.Error{Kind: problem.Malformed, Detail: prefix + "'" + names[m] + "'", Field: names[m], Want: "a value", Got: "nothing"}
}

// prefixed puts before err the words that the wire fixes for its place (PROTOCOL
// §6.2).
func (r *reader) prefixed(m member, err error) error {
	e := *problem.Of(err)
	switch {
	case m >= block && m <= idempotencyKey:
		e.Detail = "invalid metadata: " + e.Text()
	case m == selfEval:
		e.Detail = "invalid selfEval: " + e.Text()
	case r.answer && (m == result || m == message):
		e.Detail = notAResult + e.Text()
	}
	return &e
}
