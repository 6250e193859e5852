package registry

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

const (
	MaxDeclaredCount     = 32
	MaxDeclaredItemBytes = 1 << 10
	MaxDeclaredBytes     = 8 << 10 // encoded as JSON, in which a control character takes six bytes
	MaxClaimBytes        = 128
)

// An event's time must be within this window around the host's time.
const (
	MaxEventSkew = 5 * time.Minute
	MaxEventAge  = 24 * time.Hour
)

// Publication is a request to register a vacant: a card and a register event, both signed with the
// vacant's key, and unsigned claims.
type Publication struct {
	Card       []byte
	State      lifecycle.State
	Visibility lifecycle.Visibility // requested; the event signs the effective visibility
	// BaseModel to Parent are unsigned claims. A nil claim keeps the stored value, but nil
	// DeclaredCapabilities mean the card's capability text.
	BaseModel, Family, Owner, Version *string
	DeclaredCapabilities              []string
	Parent                            *identity.ID
	// Name is stored only by PublishHosted and Graduate.
	Name           string
	Time           int64 // Unix milliseconds
	ActorSeq       int64
	IdempotencyKey string
	Signature      []byte
	// Listing may be nil to keep the stored listing.
	Listing *listing.Listing
	// MayReuseSlug reports whether the vacant may take over a slug that another vacant gave up. If
	// it is nil, the vacant may not.
	MayReuseSlug func(ctx context.Context, former identity.ID) (bool, error)
}

type Receipt struct {
	ID          identity.ID
	Visibility  lifecycle.Visibility
	Seq         uint64
	CardHash    identity.Hash
	Replayed    bool // whether the event was stored earlier; no writes are then added
	AwaitsProbe bool // whether the vacant will be listed only after its endpoint answers
}

// EquivocationError is in the error chain if a second card with the same version is refused.
type EquivocationError struct {
	KnownHash, SentHash identity.Hash
	problem             *problem.Error
}

func (e *EquivocationError) Error() string { return e.problem.Error() }

func (e *EquivocationError) Members() any {
	return map[string]string{"card_hash_known": e.KnownHash.String(), "card_hash_sent": e.SentHash.String()}
}

func (e *EquivocationError) Unwrap() error { return e.problem }

func (p *Publication) checkSchema() error {
	if _, err := lifecycle.ParseState(string(p.State)); err != nil {
		return schemaError("runtime_state", "LOCAL, ACTIVE, HIBERNATING, STALE, SUNK or ARCHIVED", fmt.Sprintf("%.40q", string(p.State)))
	}
	if err := checkVisibility(p.Visibility); err != nil {
		return err
	}
	if err := checkEventMembers(p.Time, p.ActorSeq, p.IdempotencyKey); err != nil {
		return err
	}
	for _, claim := range []struct {
		field string
		text  *string
	}{{"base_model", p.BaseModel}, {"base_model_family", p.Family}, {"owner_org", p.Owner}, {"version", p.Version}} {
		if claim.text != nil {
			if err := checkClaim(claim.field, *claim.text, MaxClaimBytes); err != nil {
				return err
			}
		}
	}
	if len(p.DeclaredCapabilities) > MaxDeclaredCount {
		return schemaError("declared_capabilities", fmt.Sprintf("at most %d", MaxDeclaredCount), strconv.Itoa(len(p.DeclaredCapabilities)))
	}
	totalSize := 0
	for i, text := range p.DeclaredCapabilities {
		if err := checkClaim(fmt.Sprintf("declared_capabilities[%d]", i), text, MaxDeclaredItemBytes); err != nil {
			return err
		}
		totalSize += len(canon.AppendString(nil, text))
	}
	if totalSize > MaxDeclaredBytes {
		return schemaError("declared_capabilities", fmt.Sprintf("at most %d bytes in all", MaxDeclaredBytes), strconv.Itoa(totalSize))
	}
	return nil
}

func checkVisibility(v lifecycle.Visibility) error {
	switch v {
	case lifecycle.Hidden, lifecycle.Restricted, lifecycle.Public:
		return nil
	}
	return schemaError("visibility", "NONE, RESTRICTED or PUBLIC", fmt.Sprintf("%.40q", string(v)))
}

func checkEventMembers(ms, actorSeq int64, key string) error {
	switch {
	case ms < 0:
		return schemaError("event_ts_ms", "Unix milliseconds, not negative", strconv.FormatInt(ms, 10))
	case actorSeq < 1 || actorSeq > event.MaxActorSeq:
		return schemaError("event_actor_seq", "1 to 2^53-1", strconv.FormatInt(actorSeq, 10))
	}
	return checkClaim("event_idempotency_key", key, event.MaxIdempotencyKeyBytes)
}

func checkClaim(field, s string, maxBytes int) error {
	if len(s) > maxBytes {
		return schemaError(field, fmt.Sprintf("at most %d bytes", maxBytes), strconv.Itoa(len(s)))
	}
	if !utf8.ValidString(s) {
		return schemaError(field, "UTF-8", "other bytes")
	}
	return nil
}

func schemaError(field, want, got string) error {
	return &problem.Error{Kind: problem.InvalidMember, Field: field, Want: want, Got: got}
}

func (p *Publication) parseCard() (card.Card, error) {
	// A card whose texts contain the separator of signed fields is refused, because another card
	// with other texts would have the same hash and signature (PROTOCOL §23 D2).
	c, err := card.Parse(p.Card)
	if err != nil {
		cause := problem.AsError(err)
		return c, problem.Wrap(cause.Kind, err, "capability card parse failed: %s", cause.Text())
	}
	if !c.Verify() {
		return c, problem.New(problem.Malformed, "publish_halo_signed: capability card signature invalid")
	}
	const separator = "\x1f"
	if strings.Contains(c.CapabilityText, separator) || strings.Contains(c.Endpoint, separator) {
		return c, problem.New(problem.Malformed, "capability card: expected no U+001F in capability_text and endpoint")
	}
	return c, nil
}
