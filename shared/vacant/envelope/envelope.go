// Package envelope implements the signed message between two vacants: its fields, its signed bytes
// and its JSON-RPC encoding (PROTOCOL §4, §5). Comments call the reference implementation of the
// protocol, which is written in Python, "the reference".
//
// The hashed and signed bytes are built from the parsed fields and never copied from the wire. A
// parsed envelope has the same signed bytes as the original. The decoders drop all members that the
// signature does not cover, except the JSON-RPC id.
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

// PROTOCOL §4.3 defines these roles. If a message has no member "role", its role is RoleUser.
const (
	RoleUser  Role = "ROLE_USER"
	RoleAgent Role = "ROLE_AGENT"
	RoleTool  Role = "ROLE_TOOL"
)

// ResetText is the text that requests a chain reset (PROTOCOL §9).
const ResetText = "RESET_CHAIN"

// MaxSeq limits sequence numbers to the integers that every JSON reader represents exactly.
const MaxSeq = 1<<53 - 1

// SelfEval is the sender's evaluation of its message. Each dimension is in [0, 1].
type SelfEval struct {
	Adoption, Confidence, Factual, Honesty, Logical, Relevance float64
}

// Message is the content of an envelope. Parts are strings, because the protocol has only text
// parts. A nil ContextID or MessageID is signed as null, which differs from the empty string.
type Message struct {
	Role      Role
	Parts     []string
	ContextID *string
	MessageID *string
	SelfEval  *SelfEval
}

// Text joins the parts with one space, like the Python reference implementation.
func (m Message) Text() string {
	if len(m.Parts) == 1 {
		return m.Parts[0]
	}
	return strings.Join(m.Parts, " ")
}

// Envelope is a message with its position in the chain of an ordered pair. A decoder accepts a
// Signature of any length, but Verify requires 64 bytes.
type Envelope struct {
	From, To       identity.ID
	Seq            int64         // 1 to MaxSeq
	Time           time.Time     // UTC, whole microseconds
	Prev           identity.Hash // hash of the previous envelope, or zero for the first
	Payload        Message
	IdempotencyKey string
	Signature      []byte
}

// Hash returns the hash of the signed bytes, which identifies e in its chain. It does not cover the
// signature.
func (e *Envelope) Hash() identity.Hash { return identity.Sum(e.AppendSignedBytes(nil)) }

// Sign signs e with s, whose id must be e.From. It sets e.Signature and returns the hash of e.
func (e *Envelope) Sign(ctx context.Context, s identity.Signer) (identity.Hash, error) {
	b := e.AppendSignedBytes(nil)
	sig, err := s.Sign(ctx, b)
	if err != nil {
		return identity.Hash{}, err
	}
	e.Signature = sig
	return identity.Sum(b), nil
}

func (e *Envelope) Verify() (identity.Hash, bool) { return e.VerifyBy(e.From) }

// VerifyBy reports whether e is signed by the key of id, and returns the hash of e. A caller must
// verify an answer with the id of the vacant that it called, because From could name another vacant
// (PROTOCOL §16).
func (e *Envelope) VerifyBy(id identity.ID) (identity.Hash, bool) {
	b := e.AppendSignedBytes(nil)
	return identity.Sum(b), identity.Verify(id, b, e.Signature)
}

// IsReset reports whether e is a chain reset: its text is ResetText after white space at both ends
// is trimmed. Sequence number, prev and role do not matter (PROTOCOL §9).
func (e *Envelope) IsReset() bool {
	return strings.TrimFunc(e.Payload.Text(), isPythonSpace) == ResetText
}

func isPythonSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f } // Python also trims these characters

// replyPrefix begins the idempotency key of an answer. The request's hash in hex follows. The
// signature of an answer therefore binds the answer to its request. The reference does not do this
// (PROTOCOL §23 A2).
const replyPrefix = "re:"

func ReplyKey(h identity.Hash) string {
	return string(h.AppendHex(append(make([]byte, 0, len(replyPrefix)+2*identity.Size), replyPrefix...)))
}

func IsReplyKey(key string) bool { return strings.HasPrefix(key, replyPrefix) }
