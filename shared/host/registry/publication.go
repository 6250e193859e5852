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

// Limits of unsigned claims, in bytes.
const (
	MaxDeclared    = 32
	MaxDeclaredOf  = 1 << 10
	MaxDeclaredAll = 8 << 10 // as JSON
	MaxClaim       = 128
)

// The window of an event's time. The actor dates its events and nobody else
// can, so times far from now are refused.
const (
	MaxAhead = 5 * time.Minute
	MaxAge   = 24 * time.Hour
)

// Publication is the request to register a vacant: its card and a register
// event, both signed by its key, and unsigned claims.
type Publication struct {
	Card       []byte // the serialised card as it was sent
	State      lifecycle.State
	Visibility lifecycle.Visibility // as requested; the event signs the effective visibility
	// Claims, not signed. nil leaves a claim unchanged, except Declared: nil
	// means the card's capability text.
	BaseModel, Family, Owner, Version *string
	Declared                          []string
	Parent                            *identity.ID
	// Name is the name of a vacant that this host runs. Only PublishHosted and
	// Graduate of such a vacant keep it.
	Name string
	// The signed event.
	Time      int64 // Unix milliseconds
	ActorSeq  int64
	Key       string
	Signature []byte
	// Listing is an optional signed listing; nil leaves the stored one
	// unchanged.
	Listing *listing.Listing
	// MayFollow reports whether the vacant may use a slug that another vacant gave up. If it is
	// nil, the vacant may not.
	MayFollow func(ctx context.Context, former identity.ID) (bool, error)
}

// Receipt is the result of a publication or a revocation.
type Receipt struct {
	ID         identity.ID
	Visibility lifecycle.Visibility
	Seq        uint64
	CardHash   identity.Hash
	Replayed   bool // the event was stored before; this is its receipt
	Unreached  bool // it is listed once its endpoint answers
}

// EquivocationError is in the error chain of a refused second card of one
// version. It names both cards.
type EquivocationError struct {
	Known, Sent identity.Hash
	problem     *problem.Error
}

func (e *EquivocationError) Error() string { return e.problem.Error() }

// Members are both card hashes, for the body of the error.
func (e *EquivocationError) Members() any {
	return map[string]string{"card_hash_known": e.Known.String(), "card_hash_sent": e.Sent.String()}
}

// Unwrap is the problem, of kind Equivocation.
func (e *EquivocationError) Unwrap() error { return e.problem }

// checkSchema checks p's members, without parsing the card.
func (p *Publication) checkSchema() error {
	if _, err := lifecycle.ParseState(string(p.State)); err != nil {
		return schema("runtime_state", "LOCAL, ACTIVE, HIBERNATING, STALE, SUNK or ARCHIVED", fmt.Sprintf("%.40q", string(p.State)))
	}
	if err := checkVisibility(p.Visibility); err != nil {
		return err
	}
	if err := checkSigned(p.Time, p.ActorSeq, p.Key); err != nil {
		return err
	}
	for _, claim := range []struct {
		field string
		text  *string
	}{{"base_model", p.BaseModel}, {"base_model_family", p.Family}, {"owner_org", p.Owner}, {"version", p.Version}} {
		if claim.text != nil {
			if err := checkClaim(claim.field, *claim.text, MaxClaim); err != nil {
				return err
			}
		}
	}
	if len(p.Declared) > MaxDeclared {
		return schema("declared_capabilities", fmt.Sprintf("at most %d", MaxDeclared), strconv.Itoa(len(p.Declared)))
	}
	all := 0
	for i, text := range p.Declared {
		if err := checkClaim(fmt.Sprintf("declared_capabilities[%d]", i), text, MaxDeclaredOf); err != nil {
			return err
		}
		// Count escaped bytes, as stored: a control character takes six.
		all += len(canon.AppendString(nil, text))
	}
	if all > MaxDeclaredAll {
		return schema("declared_capabilities", fmt.Sprintf("at most %d bytes in all", MaxDeclaredAll), strconv.Itoa(all))
	}
	return nil
}

func checkVisibility(v lifecycle.Visibility) error {
	switch v {
	case lifecycle.Hidden, lifecycle.Restricted, lifecycle.Public:
		return nil
	}
	return schema("visibility", "NONE, RESTRICTED or PUBLIC", fmt.Sprintf("%.40q", string(v)))
}

// checkSigned checks the ranges of an event's members.
func checkSigned(ms, actorSeq int64, key string) error {
	switch {
	case ms < 0:
		return schema("event_ts_ms", "Unix milliseconds, not negative", strconv.FormatInt(ms, 10))
	case actorSeq < 1 || actorSeq > event.MaxActorSeq:
		return schema("event_actor_seq", "1 to 2^53-1", strconv.FormatInt(actorSeq, 10))
	}
	return checkClaim("event_idempotency_key", key, event.MaxKey)
}

func checkClaim(field, s string, most int) error {
	if len(s) > most {
		return schema(field, fmt.Sprintf("at most %d bytes", most), strconv.Itoa(len(s)))
	}
	if !utf8.ValidString(s) {
		return schema(field, "UTF-8", "other bytes")
	}
	return nil
}

func schema(field, want, got string) error {
	return &problem.Error{Kind: problem.Schema, Field: field, Want: want, Got: got}
}

// readCard reads and verifies the card. A card whose text has the separator of
// the signed fields is refused, although it verifies: another card, with the
// same hash and signature, would read differently (PROTOCOL §23 D2).
func (p *Publication) readCard() (card.Card, error) {
	c, err := card.Parse(p.Card)
	if err != nil {
		known := problem.Of(err)
		return c, problem.Wrap(known.Kind, err, "capability card parse failed: %s", known.Text())
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
