package envelope

import (
	"math/bits"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// Request is a decoded request of a caller.
type Request struct {
	// ID is the JSON-RPC id as it was received, or nil if it is missing. It is not signed and is
	// used only to be echoed unchanged in the response (PROTOCOL §5.3). It aliases the body.
	ID       []byte
	Envelope Envelope
}

// DecodeRequest decodes the body of message/send strictly (PROTOCOL §5.4) and checks jsonrpc and
// method. It does not verify the signature. The caller must not change body while it uses the
// request.
//
// The error has kind problem.NotJSON if body is not one JSON object, problem.TooLarge if it is too
// large, and otherwise problem.Malformed. If several members are wrong, the error is about the
// member that is checked first (PROTOCOL §6.2).
func DecodeRequest(body []byte) (Request, error) {
	return decodeRequest(body, true)
}

// DecodeResetRequest decodes the body of chain/reset. It is like DecodeRequest, but does not check
// jsonrpc and method (PROTOCOL §9).
func DecodeResetRequest(body []byte) (Request, error) {
	return decodeRequest(body, false)
}

func decodeRequest(body []byte, rpc bool) (Request, error) {
	r := newReader(body, canon.DefaultLimits())
	r.checkRPC = rpc
	need := setOf(params) | setOf(message) | signed
	if rpc {
		need |= setOf(jsonrpc) | setOf(method)
	}
	e, err := r.envelope(r.readRequestMember, need)
	if err != nil {
		return Request{}, err
	}
	return Request{ID: r.id, Envelope: e}, nil
}

// DecodeResponse decodes result.message of a response body. It does not check jsonrpc and id
// (PROTOCOL §16).
func DecodeResponse(body []byte) (Envelope, error) {
	r := newReader(body, canon.AnswerLimits())
	r.answer = true
	return r.envelope(r.response, setOf(result)|setOf(message)|signed)
}

func DecodeMessage(raw []byte) (Envelope, error) {
	r := newReader(raw, canon.AnswerLimits())
	return r.envelope(r.message, signed)
}

// reader decodes one envelope. If a member is wrong, it records the error and continues to the end
// of the body. A body with a JSON syntax error is therefore refused as not JSON, even if a wrong
// member comes before the syntax error. If several members are wrong, the error is about the member
// that the reference checks first.
type reader struct {
	d          *canon.Decoder
	checkRPC   bool   // whether to check jsonrpc and method
	answer     bool   // whether the body is a response
	seen       set    // members found so far
	firstWrong member // first wrong member in the order of checks
	err        error  // error about firstWrong
	id         []byte
	e          Envelope
}

func newReader(body []byte, l canon.Limits) reader {
	r := reader{d: canon.NewDecoder(body, l), firstWrong: none}
	r.e.Payload.Role = RoleUser
	return r
}

// member identifies a member of the body. The constants are in the order of checks.
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

type set uint32

func setOf(m member) set { return 1 << m }

// signed contains the members that each message object must have (PROTOCOL §5.4).
const signed = set(1<<metadata | 1<<block | 1<<from | 1<<to | 1<<seq | 1<<timestamp | 1<<prev | 1<<signature)

// names maps each member to its JSON key.
var names = [none]string{"jsonrpc", "method", "params", "result", "message", "metadata", blockKey, "from_vacant_id",
	"to_vacant_id", "sequence_no", "timestamp", "prev_envelope_hash", "caller_signature", "idempotency_key", "selfEval",
	"role", "parts", "contextId", "messageId"}

// blockKey is the key of the envelope's block in the metadata.
const blockKey = "urn:vacant:v1"

func (r *reader) envelope(f func(key string) error, need set) (Envelope, error) {
	if err := r.d.Document(f); err != nil {
		return Envelope{}, err
	}
	if err := r.firstError(need); err != nil {
		return Envelope{}, err
	}
	return r.e, nil
}

func (r *reader) record(m member, err error) {
	if m < r.firstWrong {
		r.firstWrong, r.err = m, r.addPrefix(m, err)
	}
}

// firstError returns the error about the wrong or missing member that is checked first. If all members
// in need were found and no member is wrong, it returns nil.
func (r *reader) firstError(need set) error {
	missing := need &^ r.seen
	if missing == 0 {
		return r.err
	}
	m := member(bits.TrailingZeros32(uint32(missing)))
	if m >= r.firstWrong {
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

// notAResult begins the error about a response without an envelope (PROTOCOL §16).
const notAResult = "transport response is not a valid A2A result: "

func missingField(m member, prefix string) error {
	return &problem.Error{Kind: problem.Malformed, Detail: prefix + "'" + names[m] + "'", Field: names[m], Want: "a value", Got: "nothing"}
}

// addPrefix prefixes err with the words that the protocol fixes for errors about m (PROTOCOL §6.2).
func (r *reader) addPrefix(m member, err error) error {
	e := *problem.AsError(err)
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
