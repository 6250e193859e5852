// Package event implements the signed events of a registry: a vacant's
// statements about its own listing, in bytes that anybody can verify at any
// later time (the reference's register and revoke events).
//
// Invariants: the signed bytes are rebuilt from the fields and have one
// reading; a payload is kept as the text whose hash was signed; an event's hash
// covers the previous event's hash, the signed bytes and the signature.
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

// MaxPayload is the longest payload in bytes. It fits a revocation with a
// reason of MaxReason bytes, all of them escaped.
const MaxPayload = 16 << 10

// MaxActorSeq is the largest ActorSeq: integers up to it are exact in a
// float64.
const MaxActorSeq = 1<<53 - 1

// Type is the effect of an event; its value is the word in the signed bytes.
type Type string

// The types. The reference lists eleven more and never uses them.
const (
	Register Type = "register"
	Revoke   Type = "revoke"
)

// Event is one event of an actor.
type Event struct {
	Type      Type
	Actor     identity.ID
	Payload   []byte // the JSON text whose BLAKE2b-256 is signed, unchanged
	Key       string // idempotency key: text of at most MaxKey bytes
	Time      int64  // Unix milliseconds, by the actor's clock; not negative
	ActorSeq  int64  // 1 for an actor's first event, then increasing by one
	Signature []byte // 64 bytes when well formed; other lengths never verify
}

// Check returns nil if e has the form of an event, signed or not, or an error
// that names the wrong field.
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

// checkKey accepts control characters, because old events have them. All fields
// but the key have a known length, so a 0x1f in the key allows no second
// reading.
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

// PayloadHash is the hash of the payload. The signed bytes contain it instead
// of the payload.
func (e *Event) PayloadHash() identity.Hash { return identity.Sum(e.Payload) }

// AppendCanonical appends the signed bytes: type, actor in hex, the subject
// (always empty), payload hash, key, actor's public key, time and ActorSeq,
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

// Sign sets e.Signature with s, whose id must be the actor's. It refuses events
// that Check refuses, and keys with control characters.
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

// Hash is the event's hash in a log after an event with the hash prev (zeros
// for the first): the hash of prev, the signed bytes and the signature.
func (e *Event) Hash(prev identity.Hash) identity.Hash {
	b := append(make([]byte, 0, 512), prev[:]...)
	return identity.Sum(append(e.AppendCanonical(b), e.Signature...))
}
