// Package event holds the signed events of a registry: what a vacant says of
// its own listing, in bytes that everybody can check for ever (the reference's
// register and revoke events).
//
// The invariants: the signed bytes are rebuilt from the fields and have one
// reading; a payload is kept as the text whose hash was signed; an event's hash
// covers the one before, the signed bytes and the signature.
package event

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// MaxKey is the longest idempotency key in bytes.
const MaxKey = 512

// MaxPayload is the longest payload in bytes. A revocation with a reason of
// MaxReason bytes, every one of them escaped, fits in.
const MaxPayload = 16 << 10

// MaxActorSeq bounds an actor's count: what a float64 of a JSON reader holds.
const MaxActorSeq = 1<<53 - 1

// Type says what an event does; its value is the word in the signed bytes.
type Type string

// The types. The reference lists eleven more, and emits none of them.
const (
	Register Type = "register"
	Revoke   Type = "revoke"
)

// Event is one event of an actor.
type Event struct {
	Type      Type
	Actor     identity.ID
	Payload   []byte // the JSON text whose BLAKE2b-256 is signed, kept as it came
	Key       string // idempotency key: text of at most MaxKey bytes
	Time      int64  // Unix milliseconds, by the actor's clock; not negative
	ActorSeq  int64  // 1 for an actor's first event, then always one more
	Signature []byte // 64 bytes when well formed; of any other length it does not verify
}

// Check says whether e has the form of an event, signed or not: nil, or the
// field that is wrong.
func (e *Event) Check() error {
	if e.Type != Register && e.Type != Revoke {
		return problem.Invalid("event type", "register or revoke", fmt.Sprintf("%.40q", string(e.Type)))
	}
	if err := e.Actor.Check(); err != nil {
		return err
	}
	if err := checkKey(e.Key); err != nil {
		return err
	}
	if e.Time < 0 {
		return problem.Invalid("event_ts_ms", "Unix milliseconds, not negative", strconv.FormatInt(e.Time, 10))
	}
	if e.ActorSeq < 1 || e.ActorSeq > MaxActorSeq {
		return problem.Invalid("event_actor_seq", "1 to 2^53-1", strconv.FormatInt(e.ActorSeq, 10))
	}
	if len(e.Payload) > MaxPayload {
		return &problem.Error{Kind: problem.TooLarge, Field: "event payload",
			Want: fmt.Sprintf("at most %d bytes", MaxPayload), Got: strconv.Itoa(len(e.Payload))}
	}
	_, err := parsePayload(e.Payload)
	return err
}

// checkKey takes control characters: old events have them, and since all
// fields but the key are of known length, 0x1f in it makes no second reading.
func checkKey(key string) error {
	const field = "event_idempotency_key"
	if len(key) > MaxKey {
		return problem.Invalid(field, fmt.Sprintf("at most %d bytes", MaxKey), strconv.Itoa(len(key)))
	}
	if !utf8.ValidString(key) {
		return problem.Invalid(field, "UTF-8", "other bytes")
	}
	return nil
}

// PayloadHash is the hash of the payload, which stands for it in the signed
// bytes.
func (e *Event) PayloadHash() identity.Hash { return identity.Sum(e.Payload) }

// AppendCanonical appends the signed bytes: type, actor in hex, the subject
// (always empty), payload hash, key, actor's public key, time and count,
// joined by 0x1f.
func (e *Event) AppendCanonical(dst []byte) []byte {
	const separator = 0x1f
	hash := e.PayloadHash()
	dst = append(append(dst, e.Type...), separator)
	dst = append(e.Actor.AppendHex(dst), separator, separator)
	dst = append(append(dst, hash[:]...), separator)
	dst = append(append(dst, e.Key...), separator)
	dst = append(append(dst, e.Actor[:]...), separator)
	dst = append(binary.BigEndian.AppendUint64(dst, uint64(e.Time)), separator)
	return binary.BigEndian.AppendUint64(dst, uint64(e.ActorSeq))
}

// Sign sets e.Signature by s, whose id must be the actor's. It refuses what
// Check refuses, and a key with control characters.
func (e *Event) Sign(ctx context.Context, s identity.Signer) error {
	if err := e.Check(); err != nil {
		return err
	}
	if err := canon.CheckText("event_idempotency_key", e.Key); err != nil {
		return err
	}
	if s.ID() != e.Actor {
		return problem.New(problem.Untrusted, "event of %s: cannot be signed by %s", e.Actor.Short(), s.ID().Short())
	}
	signature, err := s.Sign(ctx, e.AppendCanonical(nil))
	if err != nil {
		return err
	}
	e.Signature = signature
	return nil
}

// Verify reports whether e is signed by its actor.
func (e *Event) Verify() bool { return identity.Verify(e.Actor, e.AppendCanonical(nil), e.Signature) }

// Hash is the event's hash in a log where prev is the hash of the event
// before it, zeros for the first of all: of prev, the signed bytes and the
// signature.
func (e *Event) Hash(prev identity.Hash) identity.Hash {
	b := append(make([]byte, 0, 512), prev[:]...)
	return identity.Sum(append(e.AppendCanonical(b), e.Signature...))
}
