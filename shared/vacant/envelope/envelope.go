// Package envelope implements the signed message between two vacants: its
// fields, its signing bytes, and its JSON-RPC encoding (PROTOCOL §4, §5).
//
// Invariants: the hashed and signed bytes are rebuilt from the parsed fields,
// never taken from the wire; a parsed envelope signs to the same bytes again;
// members that the signature does not cover are never passed on.
package envelope

import (
	"context"
	"strings"
	"time"
	"unicode"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Role is the sender's role in a message.
type Role string

// The roles of PROTOCOL §4.3. User is the default.
const (
	RoleUser  Role = "ROLE_USER"
	RoleAgent Role = "ROLE_AGENT"
	RoleTool  Role = "ROLE_TOOL"
)

// ResetText is the text of a chain reset (PROTOCOL §9).
const ResetText = "RESET_CHAIN"

// MaxSeq is the largest sequence number: integers up to it are exact in every
// JSON reader.
const MaxSeq = 1<<53 - 1

// SelfEval is the sender's evaluation of its message, each dimension in [0, 1].
type SelfEval struct {
	Adoption, Confidence, Factual, Honesty, Logical, Relevance float64
}

// Message is the content of an envelope. Parts are texts; the protocol has no
// other kind. A nil ContextID or MessageID is signed as null, which differs
// from the empty string.
type Message struct {
	Role      Role
	Parts     []string
	ContextID *string
	MessageID *string
	SelfEval  *SelfEval
}

// Text joins the parts with one space, as the reference's behaviours do.
func (m Message) Text() string {
	if len(m.Parts) == 1 {
		return m.Parts[0]
	}
	return strings.Join(m.Parts, " ")
}

// Envelope is a message with its position in the chain of an ordered pair.
type Envelope struct {
	From, To       identity.ID
	Seq            int64         // 1 to MaxSeq
	Time           time.Time     // UTC, whole microseconds
	Prev           identity.Hash // hash of the previous envelope; zeros for the first
	Payload        Message
	IdempotencyKey string
	Signature      []byte // 64 bytes when well formed; any length parses, and does not verify
}

// Hash is the BLAKE2b-256 of the signing bytes, without the signature. It
// identifies the envelope in a chain.
func (e *Envelope) Hash() identity.Hash { return identity.Sum(e.AppendSigning(nil)) }

// Sign sets e.Signature with s, whose id must be e.From, and returns the hash.
func (e *Envelope) Sign(ctx context.Context, s identity.Signer) (identity.Hash, error) {
	b := e.AppendSigning(nil)
	sig, err := s.Sign(ctx, b)
	if err != nil {
		return identity.Hash{}, err
	}
	e.Signature = sig
	return identity.Sum(b), nil
}

// Verify reports whether e is signed by the key in From, and returns the hash.
func (e *Envelope) Verify() (identity.Hash, bool) { return e.VerifyBy(e.From) }

// VerifyBy reports whether e is signed by the key of id, and returns the hash.
// Callers verify answers with the target's key, not with the claimed sender's
// (PROTOCOL §16).
func (e *Envelope) VerifyBy(id identity.ID) (identity.Hash, bool) {
	b := e.AppendSigning(nil)
	return identity.Sum(b), identity.Verify(id, b, e.Signature)
}

// IsReset reports whether e is a chain reset: its trimmed text is ResetText.
// Sequence number, prev and role do not matter (PROTOCOL §9).
func (e *Envelope) IsReset() bool {
	return strings.TrimFunc(e.Payload.Text(), pythonSpace) == ResetText
}

// pythonSpace reports whether the reference trims r: Python also treats U+001C
// to U+001F as white space.
func pythonSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// replyPrefix begins the idempotency key of an answer, followed by the
// request's hash in hex. It binds an answer to its request under the signature,
// which the protocol itself does not (PROTOCOL §23 A2).
const replyPrefix = "re:"

// ReplyKey is the idempotency key of the answer to the request with hash h.
func ReplyKey(h identity.Hash) string {
	return string(h.AppendHex(append(make([]byte, 0, len(replyPrefix)+2*identity.Size), replyPrefix...)))
}

// IsReplyKey reports whether key has the form of an answer's idempotency key.
func IsReplyKey(key string) bool { return strings.HasPrefix(key, replyPrefix) }
