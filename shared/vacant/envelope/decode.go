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

func decodeRequest(body []byte, checkRPC bool) (Request, error) {
	r := newReader(body, canon.DefaultLimits())
	r.checkRPC = checkRPC
	required := setOf(memberParams) | setOf(memberMessage) | requiredMembers
	if checkRPC {
		required |= setOf(memberJSONRPC) | setOf(memberMethod)
	}
	e, err := r.decode(r.readRequestMember, required)
	if err != nil {
		return Request{}, err
	}
	return Request{ID: r.rpcID, Envelope: e}, nil
}

// DecodeResponse decodes result.message of a response body. It does not check jsonrpc and id
// (PROTOCOL §16).
func DecodeResponse(body []byte) (Envelope, error) {
	r := newReader(body, canon.AnswerLimits())
	r.isResponse = true
	return r.decode(r.readResponseMember, setOf(memberResult)|setOf(memberMessage)|requiredMembers)
}

func DecodeMessage(raw []byte) (Envelope, error) {
	r := newReader(raw, canon.AnswerLimits())
	return r.decode(r.readMessageMember, requiredMembers)
}

// reader decodes one envelope. If a member is wrong, it records the error and continues to the end
// of the body. A body with a JSON syntax error is therefore refused as not JSON, even if a wrong
// member comes before the syntax error. If several members are wrong, the error is about the member
// that the Python reference checks first.
type reader struct {
	dec        *canon.Decoder
	checkRPC   bool      // whether to check jsonrpc and method
	isResponse bool      // whether the body is a response
	found      memberSet // members found so far
	firstWrong member    // first wrong member in the order of checks
	err        error     // error about firstWrong
	rpcID      []byte
	env        Envelope
}

func newReader(body []byte, l canon.Limits) reader {
	r := reader{dec: canon.NewDecoder(body, l), firstWrong: memberNone}
	r.env.Payload.Role = RoleUser
	return r
}

// member identifies a member of the body. The constants are in the order of checks.
type member uint8

const (
	memberJSONRPC member = iota
	memberMethod
	memberParams
	memberResult
	memberMessage
	memberMetadata
	memberBlock
	memberFrom
	memberTo
	memberSeq
	memberTimestamp
	memberPrev
	memberSignature
	memberIdempotencyKey
	memberSelfEval
	memberRole
	memberParts
	memberContextID
	memberMessageID
	memberNone
)

type memberSet uint32

func setOf(m member) memberSet { return 1 << m }

// requiredMembers contains the members that each message object must have (PROTOCOL §5.4).
const requiredMembers = memberSet(1<<memberMetadata | 1<<memberBlock | 1<<memberFrom | 1<<memberTo | 1<<memberSeq | 1<<memberTimestamp | 1<<memberPrev | 1<<memberSignature)

// memberKeys maps each member to its JSON key.
var memberKeys = [memberNone]string{"jsonrpc", "method", "params", "result", "message", "metadata", blockKey, "from_vacant_id",
	"to_vacant_id", "sequence_no", "timestamp", "prev_envelope_hash", "caller_signature", "idempotency_key", "selfEval",
	"role", "parts", "contextId", "messageId"}

// blockKey is the key of the envelope's block in the metadata.
const blockKey = "urn:vacant:v1"

func (r *reader) decode(readMember func(key string) error, required memberSet) (Envelope, error) {
	if err := r.dec.Document(readMember); err != nil {
		return Envelope{}, err
	}
	if err := r.firstError(required); err != nil {
		return Envelope{}, err
	}
	return r.env, nil
}

func (r *reader) recordError(m member, err error) {
	if m < r.firstWrong {
		r.firstWrong, r.err = m, r.addPrefix(m, err)
	}
}

// firstError returns the error about the wrong or missing member that is checked first. If all
// members in required were found and no member is wrong, it returns nil.
func (r *reader) firstError(required memberSet) error {
	missing := required &^ r.found
	if missing == 0 {
		return r.err
	}
	m := member(bits.TrailingZeros32(uint32(missing)))
	if m >= r.firstWrong {
		return r.err
	}
	switch m {
	case memberJSONRPC, memberMethod:
		return wrongConstantError(m, "None")
	case memberResult, memberMessage:
		if r.isResponse {
			return missingFieldError(m, notAResultPrefix)
		}
	}
	if m > memberBlock {
		return missingFieldError(m, "invalid metadata: ")
	}
	return missingFieldError(m, "missing field: ")
}

// notAResultPrefix begins the error about a response without an envelope (PROTOCOL §16).
const notAResultPrefix = "transport response is not a valid A2A result: "

func missingFieldError(m member, prefix string) error {
	return &problem.Error{Kind: problem.Malformed, Detail: prefix + "'" + memberKeys[m] + "'", Field: memberKeys[m], Want: "a value", Got: "nothing"}
}

// addPrefix prefixes err with the words that the protocol fixes for errors about m (PROTOCOL §6.2).
func (r *reader) addPrefix(m member, err error) error {
	e := *problem.AsError(err)
	switch {
	case m >= memberBlock && m <= memberIdempotencyKey:
		e.Detail = "invalid metadata: " + e.Text()
	case m == memberSelfEval:
		e.Detail = "invalid selfEval: " + e.Text()
	case r.isResponse && (m == memberResult || m == memberMessage):
		e.Detail = notAResultPrefix + e.Text()
	}
	return &e
}
