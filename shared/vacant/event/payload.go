package event

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

const MaxReasonBytes = 1 << 10

// RegisterPayload expects a result of [lifecycle.State.EffectiveVisibility].
func RegisterPayload(cardHash identity.Hash, haloVersion int64, id identity.ID, visibility lifecycle.Visibility) []byte {
	return canon.NewObject(
		canon.Member{Key: "card_hash", Value: canon.NewString(cardHash.String())},
		canon.Member{Key: "halo_version", Value: canon.NewInt(haloVersion)},
		canon.Member{Key: "vacant_id", Value: canon.NewString(id.String())},
		canon.Member{Key: "visibility", Value: canon.NewString(string(visibility))},
	).AppendCJ(nil)
}

func RevokePayload(id identity.ID, reason string) []byte {
	return newRevocation(id, reason).AppendCJ(nil)
}

func RevokePayloadASCII(id identity.ID, reason string) []byte {
	return newRevocation(id, reason).AppendASCII(nil)
}

func newRevocation(id identity.ID, reason string) canon.Value {
	return canon.NewObject(
		canon.Member{Key: "reason", Value: canon.NewString(reason)},
		canon.Member{Key: "vacant_id", Value: canon.NewString(id.String())})
}

func CheckReason(reason string) error {
	if canon.IsBlank(reason) {
		return problem.Invalid("reason", "why the key is revoked", "a blank string")
	}
	if len(reason) > MaxReasonBytes {
		return problem.Invalid("reason", fmt.Sprintf("at most %d bytes", MaxReasonBytes), strconv.Itoa(len(reason)))
	}
	return canon.CheckSignedText("reason", reason)
}

type RegisterContent struct {
	CardHash    identity.Hash
	HaloVersion int64
	ID          identity.ID
	Visibility  lifecycle.Visibility
}

// ParseRegister accepts only payloads that RegisterPayload returns for the event's actor.
func (e *Event) ParseRegister() (RegisterContent, error) {
	v, err := e.parsePayloadOf(Register)
	if err != nil {
		return RegisterContent{}, err
	}
	content := RegisterContent{ID: e.Actor, Visibility: lifecycle.Visibility(stringOrEmpty(v, "visibility"))}
	content.CardHash, err = identity.ParseHash(stringOrEmpty(v, "card_hash"))
	if err != nil {
		return RegisterContent{}, problem.New(problem.Malformed, "event payload: card_hash: %s", problem.AsError(err).Text())
	}
	version, _ := v.Get("halo_version")
	content.HaloVersion, _ = version.Int64()
	switch content.Visibility {
	case lifecycle.Hidden, lifecycle.Restricted, lifecycle.Public:
	default:
		return RegisterContent{}, problem.Invalid("event payload: visibility", "NONE, RESTRICTED or PUBLIC", fmt.Sprintf("%.40q", string(content.Visibility)))
	}
	if !bytes.Equal(e.Payload, RegisterPayload(content.CardHash, content.HaloVersion, content.ID, content.Visibility)) {
		return RegisterContent{}, problem.Invalid("event payload", "card_hash, halo_version, vacant_id and visibility of its actor", "something else")
	}
	return content, nil
}

func (e *Event) ParseRevoke() (reason string, err error) {
	v, err := e.parsePayloadOf(Revoke)
	if err != nil {
		return "", err
	}
	reason = stringOrEmpty(v, "reason")
	// The Python reference implementation signs the form of RevokePayloadASCII.
	if !bytes.Equal(e.Payload, RevokePayload(e.Actor, reason)) && !bytes.Equal(e.Payload, RevokePayloadASCII(e.Actor, reason)) {
		return "", problem.Invalid("event payload", "reason and vacant_id of its actor", "something else")
	}
	return reason, nil
}

func (e *Event) parsePayloadOf(t Type) (canon.Value, error) {
	if e.Type != t {
		return canon.Value{}, problem.Invalid("event type", string(t), string(e.Type))
	}
	return parsePayload(e.Payload)
}

func stringOrEmpty(v canon.Value, key string) string {
	member, _ := v.Get(key)
	return member.Text()
}

func parsePayload(b []byte) (canon.Value, error) {
	limits := canon.DefaultLimits()
	limits.Bytes = MaxPayloadBytes
	v, err := canon.Parse(b, limits)
	if err != nil {
		return canon.Value{}, problem.New(problem.Malformed, "event payload: %s", problem.AsError(err).Text())
	}
	if v.Kind() != canon.Object {
		return canon.Value{}, problem.Invalid("event payload", canon.Object.String(), v.Kind().String())
	}
	return v, nil
}

const replacesPrefix = "replaces:"

// ReplacesKey returns the idempotency key of a register event whose card replaces the card with the
// given hash. Only this key states the order of cards (PROTOCOL §23 C6).
func ReplacesKey(cardHash identity.Hash) string { return replacesPrefix + cardHash.String() }

// ReplacesKeyAt returns a different key for each event. If an actor returned to an old card, an
// event with ReplacesKey would look like a resend of an old event.
func ReplacesKeyAt(cardHash identity.Hash, actorSeq int64) string {
	return ReplacesKey(cardHash) + ":" + strconv.FormatInt(actorSeq, 10)
}

func ParseReplacesKey(key string) (identity.Hash, bool) {
	rest, ok := strings.CutPrefix(key, replacesPrefix)
	if !ok {
		return identity.Hash{}, false
	}
	digits, _, _ := strings.Cut(rest, ":")
	cardHash, err := identity.ParseHash(digits)
	// ParseHash accepts other spellings, but a signed key must have exactly one form.
	return cardHash, err == nil && cardHash.String() == digits
}
