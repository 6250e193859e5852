// Package envelope holds the signed message between two vacants: its fields,
// its signing bytes, and the JSON-RPC codec that carries it (PROTOCOL §4, §5).
//
// The invariants: the bytes that are hashed and signed are rebuilt from the
// parsed fields, never taken from the wire; what parses can be signed again to
// the same bytes; what is not covered by the signature is never handed on.
package envelope

import (
	"context"
	"strings"
	"time"
	"unicode"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Role says in what part a message speaks.
type Role string

// The roles of PROTOCOL §4.3. User is the default of a message that names none.
const (
	RoleUser  Role = "ROLE_USER"
	RoleAgent Role = "ROLE_AGENT"
	RoleTool  Role = "ROLE_TOOL"
)

// ResetText is the text of a chain reset (PROTOCOL §9).
const ResetText = "RESET_CHAIN"

// MaxSeq bounds sequence numbers: they stay below 2^53, where every JSON
// reader is exact.
const MaxSeq = 1<<53 - 1

// SelfEval is a message's estimate of itself, each dimension in [0, 1].
type SelfEval struct {
	Adoption, Confidence, Factual, Honesty, Logical, Relevance float64
}

// Message is what one vacant tells another. Parts are texts; no other kind
// exists in the protocol. A nil ContextID or MessageID is signed as null,
// which differs from the empty string.
type Message struct {
	Role      Role
	Parts     []string
	ContextID *string
	MessageID *string
	SelfEval  *SelfEval
}

// Text joins the parts with one space, as the reference's behaviours read a
// message.
func (m Message) Text() string {
	if len(m.Parts) == 1 {
		return m.Parts[0]
	}
	return strings.Join(m.Parts, " ")
}

// Envelope is a message at its place in the chain of an ordered pair.
type Envelope struct {
	From, To       identity.ID
	Seq            int64         // 1 to MaxSeq
	Time           time.Time     // UTC, whole microseconds
	Prev           identity.Hash // hash of the envelope before; zeros for the first
	Payload        Message
	IdempotencyKey string
	Signature      []byte // 64 bytes when well formed; any length parses, and does not verify
}

// Hash is the BLAKE2b-256 of the signing bytes: the envelope's identity in a
// chain. The signature is not part of it.
func (e *Envelope) Hash() identity.Hash { return identity.Sum(e.AppendSigning(nil)) }

// Sign sets e.Signature by s, whose id must be e.From, and returns the hash.
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

// VerifyBy reports whether e is signed by the key of id. Callers of a target
// verify under the target's key, not under the claimed sender (PROTOCOL §16).
func (e *Envelope) VerifyBy(id identity.ID) (identity.Hash, bool) {
	b := e.AppendSigning(nil)
	return identity.Sum(b), identity.Verify(id, b, e.Signature)
}

// IsReset reports whether e reads as a chain reset: its text, trimmed, is
// ResetText. Sequence number, prev and role do not matter (PROTOCOL §9).
func (e *Envelope) IsReset() bool {
	return strings.TrimFunc(e.Payload.Text(), pythonSpace) == ResetText
}

// pythonSpace reports what the reference trims: to Python the separators
// U+001C to U+001F are white space too.
func pythonSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// replyPrefix marks the idempotency key of an answer; the hash of the request
// follows in hex. It binds an answer to its request under the signature, which
// the protocol itself does not (PROTOCOL §23 A2).
const replyPrefix = "re:"

// ReplyKey is the idempotency key of the answer to the request with hash h.
func ReplyKey(h identity.Hash) string {
	return string(h.AppendHex(append(make([]byte, 0, len(replyPrefix)+2*identity.Size), replyPrefix...)))
}

// IsReplyKey reports whether key has the form that only answers carry.
func IsReplyKey(key string) bool { return strings.HasPrefix(key, replyPrefix) }
