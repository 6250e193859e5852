package envelope

import (
	"math/bits"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// Request is a decoded request of a caller.
type Request struct {
	// ID is the JSON-RPC id as written, nil if missing. It is unsigned;
	// responses echo it byte for byte, and nothing else uses it (PROTOCOL
	// §5.3). It aliases the body.
	ID       []byte
	Envelope Envelope
}

// DecodeRequest decodes the body of message/send by the strict rules of
// PROTOCOL §5.4 and checks jsonrpc and method. It does not verify the
// signature.
//
// Errors: problem.NotJSON if the body is not one JSON object, problem.TooLarge
// if it is too large, and otherwise problem.Malformed with the field, what was
// expected and what came. If several members are wrong, the error names the
// first in the order of PROTOCOL §6.2. The body must not change while the
// request is in use.
func DecodeRequest(body []byte) (Request, error) {
	return decodeRequest(body, true)
}

// DecodeResetRequest decodes the body of chain/reset: a request whose jsonrpc
// and method are not checked (PROTOCOL §9).
func DecodeResetRequest(body []byte) (Request, error) {
	return decodeRequest(body, false)
}

func decodeRequest(body []byte, rpc bool) (Request, error) {
	r := newReader(body, canon.DefaultLimits())
	r.rpc = rpc
	need := bit(params) | bit(message) | signed
	if rpc {
		need |= bit(jsonrpc) | bit(method)
	}
	e, err := r.envelope(r.request, need)
	if err != nil {
		return Request{}, err
	}
	return Request{ID: r.id, Envelope: e}, nil
}

// DecodeResponse decodes result.message of a response body. It does not check
// jsonrpc and id (PROTOCOL §16).
func DecodeResponse(body []byte) (Envelope, error) {
	r := newReader(body, canon.AnswerLimits())
	r.answer = true
	return r.envelope(r.response, bit(result)|bit(message)|signed)
}

// DecodeMessage decodes a message object, as AppendMessage writes it.
func DecodeMessage(raw []byte) (Envelope, error) {
	r := newReader(raw, canon.AnswerLimits())
	return r.envelope(r.message, signed)
}

// reader decodes one envelope. It notes a wrong member and continues. So a body
// that is not JSON is refused as such wherever the damage is, and of several
// wrong members the error names the one that the reference checks first.
type reader struct {
	d      *canon.Decoder
	rpc    bool   // check jsonrpc and method
	answer bool   // the body is a response
	seen   set    // members found so far
	worst  member // the wrong member that is checked first
	err    error  // the error of worst
	id     []byte
	e      Envelope
}

func newReader(body []byte, l canon.Limits) reader {
	r := reader{d: canon.NewDecoder(body, l), worst: none}
	r.e.Payload.Role = RoleUser
	return r
}

// member is a member of the body. Members are numbered in the order in which
// they are checked.
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

func bit(m member) set { return 1 << m }

// signed are the required members of every message object (PROTOCOL §5.4).
const signed = set(1<<metadata | 1<<block | 1<<from | 1<<to | 1<<seq | 1<<timestamp | 1<<prev | 1<<signature)

// names are the keys of the members.
var names = [none]string{"jsonrpc", "method", "params", "result", "message", "metadata", blockKey, "from_vacant_id",
	"to_vacant_id", "sequence_no", "timestamp", "prev_envelope_hash", "caller_signature", "idempotency_key", "selfEval",
	"role", "parts", "contextId", "messageId"}

// blockKey is the metadata key of the envelope.
const blockKey = "urn:vacant:v1"

// envelope decodes the whole document with f and requires the members in need.
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

// verdict returns the error of the body after decoding: for a wrong or a
// missing member, whichever is checked first.
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

// notAResult begins the error for a response without an envelope (PROTOCOL
// §16).
const notAResult = "transport response is not a valid A2A result: "

func missingField(m member, prefix string) error {
	return &problem.Error{Kind: problem.Malformed, Detail: prefix + "'" + names[m] + "'", Field: names[m], Want: "a value", Got: "nothing"}
}

// prefixed prefixes err with the words that the wire fixes for m (PROTOCOL
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
