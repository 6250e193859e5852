package envelope

import (
	"math/bits"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

type Request struct {
	// ID is the unchanged JSON-RPC id, which is not signed (PROTOCOL §5.3).
	ID       []byte
	Envelope Envelope
}

// DecodeRequest decodes the body of message/send strictly (PROTOCOL §5.4) and does not verify the
// signature. The caller must not change body while it uses the request. If several members are
// wrong, PROTOCOL §6.2 determines which error is returned.
func DecodeRequest(body []byte) (Request, error) {
	return decodeRequest(body, true)
}

// DecodeResetRequest decodes the body of chain/reset without checking jsonrpc and method (PROTOCOL
// §9).
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

// DecodeResponse decodes result.message without checking jsonrpc and id (PROTOCOL §16).
func DecodeResponse(body []byte) (Envelope, error) {
	r := newReader(body, canon.AnswerLimits())
	r.isResponse = true
	return r.decode(r.readResponseMember, setOf(memberResult)|setOf(memberMessage)|requiredMembers)
}

func DecodeMessage(raw []byte) (Envelope, error) {
	r := newReader(raw, canon.AnswerLimits())
	return r.decode(r.readMessageMember, requiredMembers)
}

// reader decodes one envelope. After a wrong member it continues to the end of the body, so that a
// later syntax error has priority.
type reader struct {
	dec              *canon.Decoder
	checkRPC         bool
	isResponse       bool
	foundMembers     memberSet
	firstWrongMember member
	err              error // error about the first wrong member
	rpcID            []byte
	env              Envelope
}

func newReader(body []byte, l canon.Limits) reader {
	r := reader{dec: canon.NewDecoder(body, l), firstWrongMember: memberNone}
	r.env.Payload.Role = RoleUser
	return r
}

// member identifies a member of the body. PROTOCOL §6.2 fixes the order of the constants.
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

// requiredMembers must occur in each message object (PROTOCOL §5.4).
const requiredMembers = memberSet(1<<memberMetadata | 1<<memberBlock | 1<<memberFrom | 1<<memberTo | 1<<memberSeq | 1<<memberTimestamp | 1<<memberPrev | 1<<memberSignature)

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
	if m < r.firstWrongMember {
		r.firstWrongMember, r.err = m, r.addPrefix(m, err)
	}
}

func (r *reader) firstError(required memberSet) error {
	missing := required &^ r.foundMembers
	if missing == 0 {
		return r.err
	}
	m := member(bits.TrailingZeros32(uint32(missing)))
	if m >= r.firstWrongMember {
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

const notAResultPrefix = "transport response is not a valid A2A result: "

func missingFieldError(m member, prefix string) error {
	return &problem.Error{Kind: problem.Malformed, Detail: prefix + "'" + memberKeys[m] + "'", Field: memberKeys[m], Want: "a value", Got: "nothing"}
}

// addPrefix prefixes err with the words that PROTOCOL §6.2 fixes for m.
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
