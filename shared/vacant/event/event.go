// Package event implements the signed events of a registry: a vacant's statements about its own
// publication, which anyone can verify. The signed bytes have one reading. A payload is stored
// unchanged, because its hash is signed. An event's hash covers the previous event's hash, the
// signed bytes and the signature.
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

const MaxIdempotencyKeyBytes = 512

const MaxPayloadBytes = 16 << 10

// MaxActorSeq is the largest integer that a float64 represents exactly.
const MaxActorSeq = 1<<53 - 1

type Type string

const (
	Register Type = "register"
	Revoke   Type = "revoke"
)

type Event struct {
	Type           Type
	Actor          identity.ID
	Payload        []byte // JSON text
	IdempotencyKey string
	Time           int64 // Unix milliseconds
	ActorSeq       int64 // 1 for the actor's first event
	Signature      []byte
}

func (e *Event) Check() error {
	if e.Type != Register && e.Type != Revoke {
		return problem.Invalid("event type", "register or revoke", fmt.Sprintf("%.40q", string(e.Type)))
	}
	if err := e.Actor.Check(); err != nil {
		return err
	}
	if err := checkKey(e.IdempotencyKey); err != nil {
		return err
	}
	if e.Time < 0 {
		return problem.Invalid("event_ts_ms", "Unix milliseconds, not negative", strconv.FormatInt(e.Time, 10))
	}
	if e.ActorSeq < 1 || e.ActorSeq > MaxActorSeq {
		return problem.Invalid("event_actor_seq", "1 to 2^53-1", strconv.FormatInt(e.ActorSeq, 10))
	}
	if len(e.Payload) > MaxPayloadBytes {
		return &problem.Error{Kind: problem.TooLarge, Field: "event payload",
			Want: fmt.Sprintf("at most %d bytes", MaxPayloadBytes), Got: strconv.Itoa(len(e.Payload))}
	}
	_, err := parsePayload(e.Payload)
	return err
}

// checkKey accepts the control characters of old keys. They do not permit a second reading, because
// all other signed fields have a known length.
func checkKey(key string) error {
	const field = "event_idempotency_key"
	if len(key) > MaxIdempotencyKeyBytes {
		return problem.Invalid(field, fmt.Sprintf("at most %d bytes", MaxIdempotencyKeyBytes), strconv.Itoa(len(key)))
	}
	if !utf8.ValidString(key) {
		return problem.Invalid(field, "UTF-8", "other bytes")
	}
	return nil
}

func (e *Event) PayloadHash() identity.Hash { return identity.Sum(e.Payload) }

// AppendSignedBytes appends the signed bytes: type, actor in hex, the subject (always empty),
// payload hash, key, actor's public key, time and ActorSeq, joined by 0x1f.
func (e *Event) AppendSignedBytes(dst []byte) []byte {
	const separator = 0x1f
	hash := e.PayloadHash()
	dst = append(append(dst, e.Type...), separator)
	dst = append(e.Actor.AppendHex(dst), separator, separator)
	dst = append(append(dst, hash[:]...), separator)
	dst = append(append(dst, e.IdempotencyKey...), separator)
	dst = append(append(dst, e.Actor[:]...), separator)
	dst = append(binary.BigEndian.AppendUint64(dst, uint64(e.Time)), separator)
	return binary.BigEndian.AppendUint64(dst, uint64(e.ActorSeq))
}

func (e *Event) Sign(ctx context.Context, s identity.Signer) error {
	if err := e.Check(); err != nil {
		return err
	}
	if err := canon.CheckSignedText("event_idempotency_key", e.IdempotencyKey); err != nil {
		return err
	}
	if s.ID() != e.Actor {
		return problem.New(problem.Untrusted, "event of %s: cannot be signed by %s", e.Actor.Short(), s.ID().Short())
	}
	signature, err := s.Sign(ctx, e.AppendSignedBytes(nil))
	if err != nil {
		return err
	}
	e.Signature = signature
	return nil
}

func (e *Event) Verify() bool { return identity.Verify(e.Actor, e.AppendSignedBytes(nil), e.Signature) }

func (e *Event) Hash(prev identity.Hash) identity.Hash {
	b := append(make([]byte, 0, 512), prev[:]...)
	return identity.Sum(append(e.AppendSignedBytes(b), e.Signature...))
}
