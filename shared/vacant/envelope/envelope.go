// Package envelope implements the signed message between two vacants: its fields, its signed bytes
// and its JSON-RPC encoding (PROTOCOL §4, §5).
//
// The signed bytes are built from the parsed fields and never copied from the wire. A parsed
// envelope has the same signed bytes as the original. The decoders drop all members that the
// signature does not cover, except the JSON-RPC id.
package envelope

import (
	"context"
	"strings"
	"time"
	"unicode"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type Role string

// If a message has no member "role", its role is RoleUser (PROTOCOL §4.3).
const (
	RoleUser  Role = "ROLE_USER"
	RoleAgent Role = "ROLE_AGENT"
	RoleTool  Role = "ROLE_TOOL"
)

// ResetText is the text that requests a chain reset (PROTOCOL §9).
const ResetText = "RESET_CHAIN"

// MaxSeq limits sequence numbers to the integers that every JSON reader represents exactly.
const MaxSeq = 1<<53 - 1

// SelfEval contains numbers in [0, 1].
type SelfEval struct {
	Adoption, Confidence, Factual, Honesty, Logical, Relevance float64
}

// Message is the content of an envelope. A nil ContextID or MessageID is signed as null, which
// differs from the empty string.
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

// Envelope is a message with its position in the chain of an ordered pair.
type Envelope struct {
	From, To       identity.ID
	Seq            int64
	Time           time.Time     // UTC, whole microseconds
	Prev           identity.Hash // zero for the first envelope
	Payload        Message
	IdempotencyKey string
	Signature      []byte
}

// Hash returns the hash of the signed bytes.
func (e *Envelope) Hash() identity.Hash { return identity.Sum(e.AppendSignedBytes(nil)) }

// Sign sets e.Signature and returns the hash of e.
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

// VerifyBy reports whether the key of id signed e. A caller must verify an answer with the id of
// the vacant that it called, because From could name another vacant (PROTOCOL §16).
func (e *Envelope) VerifyBy(id identity.ID) (identity.Hash, bool) {
	b := e.AppendSignedBytes(nil)
	return identity.Sum(b), identity.Verify(id, b, e.Signature)
}

// IsReset reports whether the trimmed text of e is ResetText (PROTOCOL §9).
func (e *Envelope) IsReset() bool {
	return strings.TrimFunc(e.Payload.Text(), isPythonSpace) == ResetText
}

func isPythonSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f } // Python also trims these characters

// replyPrefix and the request's hash form the idempotency key of an answer. The signature of an
// answer therefore binds the answer to its request (PROTOCOL §23 A2).
const replyPrefix = "re:"

func ReplyKey(h identity.Hash) string {
	return string(h.AppendHex(append(make([]byte, 0, len(replyPrefix)+2*identity.Size), replyPrefix...)))
}

func IsReplyKey(key string) bool { return strings.HasPrefix(key, replyPrefix) }
