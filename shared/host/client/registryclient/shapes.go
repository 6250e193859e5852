package registryclient

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/reputation"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// Publication is the body of POST /v1/halo. It contains two signatures of the vacant's key: of the
// card and of the register event.
type Publication struct {
	Card                 string               `json:"capability_card_blob_hex" canon:"required"`
	State                lifecycle.State      `json:"runtime_state" canon:"required"`
	Visibility           lifecycle.Visibility `json:"visibility,omitempty"` // PUBLIC if ""
	BaseModel            *string              `json:"base_model,omitempty" canon:"null"`
	Family               *string              `json:"base_model_family,omitempty" canon:"null"`
	Owner                *string              `json:"owner_org,omitempty" canon:"null"`
	DeclaredCapabilities []string             `json:"declared_capabilities,omitempty" canon:"null,max=1024"` // each element is checked later
	Parent               *identity.ID         `json:"parent_id,omitempty" canon:"null"`
	Version              *string              `json:"version,omitempty" canon:"null"`
	Time                 int64                `json:"event_ts_ms" canon:"required"`
	ActorSeq             int64                `json:"event_actor_seq" canon:"required"`
	IdempotencyKey       string               `json:"event_idempotency_key" canon:"required"`
	Signature            string               `json:"event_signature_hex" canon:"required"`
	// Listing is an extension: a signed listing that is committed together with the card. The
	// reference rejects unknown members.
	Listing json.RawMessage `json:"listing,omitempty" canon:"null"`
}

// Receipt is the answer to a publication or a revocation.
type Receipt struct {
	ID         identity.ID          `json:"vacant_id"`
	Visibility lifecycle.Visibility `json:"visibility"`
	Seq        uint64               `json:"event_seq"`
	CardHash   identity.Hash        `json:"capability_card_hash_hex"`
	Status     string               `json:"status,omitempty"`   // extension: "active" or "revoked"
	Replayed   bool                 `json:"replayed,omitempty"` // extension: the same request was stored earlier
	// AwaitsProbe is an extension: the vacant will be listed when its endpoint answers.
	AwaitsProbe bool `json:"unreached,omitempty"`
}

// Revocation is the body of POST /v1/revoke_halo. The reference does not define this body and
// answers 501, so Revocation has the form of a Publication without a card.
type Revocation struct {
	ID             identity.ID `json:"vacant_id" canon:"required"`
	Reason         string      `json:"reason" canon:"required"`
	Time           int64       `json:"event_ts_ms" canon:"required"`
	ActorSeq       int64       `json:"event_actor_seq" canon:"required"`
	IdempotencyKey string      `json:"event_idempotency_key" canon:"required"`
	Signature      string      `json:"event_signature_hex" canon:"required"`
}

// Match is one vacant in an answer. The first eight members are those that the reference sends.
type Match struct {
	ID                   identity.ID          `json:"vacant_id"`
	CardHash             string               `json:"capability_card_hash_hex"`
	CardSig              string               `json:"capability_card_sig_hex"`
	CardBlob             string               `json:"capability_card_blob_hex"` // "" if unreadable
	DeclaredCapabilities string               `json:"declared_capabilities_json"`
	Family               string               `json:"base_model_family"`
	Visibility           lifecycle.Visibility `json:"visibility"`
	Score                float64              `json:"score"`

	// CapabilityCard repeats CardBlob for the reference's SDK, which reads it in answers of GET
	// /v1/search_capability.
	CapabilityCard string `json:"capability_card,omitempty"`

	Name        string          `json:"name,omitempty"` // name at the registry's own host; not signed
	State       lifecycle.State `json:"state,omitempty"`
	Since       string          `json:"since,omitempty"`     // time of the last change of State, in protocol form
	Status      string          `json:"status,omitempty"`    // active, revoked
	AwaitsProbe bool            `json:"unreached,omitempty"` // whether the endpoint has not answered yet, so that the vacant is not listed
	Rank        *float64        `json:"rank,omitempty"`      // relevance, in answers of GET /v1/search
	// MissingWords are the words of the query that the vacant lacks. GET /v1/search sets them if no
	// vacant has all words.
	MissingWords  []string          `json:"missing_words,omitempty"`
	FirstSeq      uint64            `json:"joined,omitempty"`    // registry's sequence number of the vacant's first event
	LastSeq       uint64            `json:"last_seq,omitempty"`  // registry's sequence number of its last event
	ActorSeq      int64             `json:"actor_seq,omitempty"` // vacant's own sequence number of this event
	Listing       json.RawMessage   `json:"listing,omitempty"`
	ListingSource string            `json:"listing_source,omitempty"` // "signed" or "operator"
	Reputation    *reputation.State `json:"reputation,omitempty"`
	// Parent is the proven parent, and Claimed an unproven one.
	Parent    *identity.ID `json:"parent_id,omitempty"`
	Claimed   *identity.ID `json:"parent_claimed,omitempty"`
	BaseModel string       `json:"base_model,omitempty"`
	Owner     string       `json:"owner_org,omitempty"`
	Version   string       `json:"version,omitempty"`
}

// VerifiedCard returns m's card if it is readable, verifies and belongs to m's vacant. All other
// fields of m are unverified.
func (m *Match) VerifiedCard() (card.Card, error) {
	blobHex := m.CardBlob
	blobHex = cmp.Or(blobHex, m.CapabilityCard)
	blob, err := hex.DecodeString(blobHex)
	switch {
	case err != nil:
		return card.Card{}, problem.New(problem.Untrusted, "the card of %s is not hexadecimal", m.ID.Short())
	case len(blob) == 0:
		return card.Card{}, problem.New(problem.Untrusted, "the registry sent no card of %s", m.ID.Short())
	}
	c, err := card.Parse(blob)
	switch {
	case err != nil:
		return card.Card{}, problem.Wrap(problem.Untrusted, err, "the card of %s cannot be read: %s", m.ID.Short(), problem.AsError(err).Text())
	case c.VacantID != m.ID:
		return card.Card{}, problem.New(problem.Untrusted, "the card that the registry sent for %s belongs to %s", m.ID.Short(), c.VacantID.Short())
	case !c.Verify():
		return card.Card{}, problem.New(problem.Untrusted, "the card of %s does not verify", m.ID.Short())
	}
	return c, nil
}

// Page is a page of matches, from GET /v1/search or one of the reference's two routes. Next is the
// cursor of the next page, or "" on the last page.
type Page struct {
	Matches []Match `json:"matches"`
	Next    string  `json:"next,omitempty"`
	// MatchErrors contains the errors of unreadable matches, which must not hide the others
	// (PROTOCOL §23 C3).
	MatchErrors []error `json:"-"`
}

// Matches is the answer of POST /v1/query_capability. NotImplemented is a member of the reference's
// answer.
type Matches struct {
	Matches        []Match  `json:"matches"`
	NotImplemented []string `json:"not_implemented_in_p4"`
}

// Event is an event of the registry's chain. Hosts of Vacancy always send a null Subject: a
// vacant's log contains only the vacant's own events, so that the log shows the next actor_seq.
type Event struct {
	Seq      uint64       `json:"seq"`
	Type     string       `json:"event_type"`
	Actor    identity.ID  `json:"actor_vacant_id"`
	Subject  *identity.ID `json:"subject_vacant_id"`
	Payload  string       `json:"payload_json"`
	Hash     string       `json:"event_hash_hex"`
	ActorSeq int64        `json:"actor_seq"`
	Time     int64        `json:"ts"`
	// Extensions for the verification of the event.
	Prev           string `json:"prev_event_hash_hex,omitempty"`
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	PublicKey      string `json:"signed_by_pubkey_hex,omitempty"`
	Signature      string `json:"signature_hex,omitempty"`
}

// Lineage is the answer of GET /v1/lineage/{id}.
type Lineage struct {
	ID        identity.ID   `json:"vacant_id"`
	Direction string        `json:"direction"`
	Chain     []identity.ID `json:"chain"`
}

// Manifest is the answer of POST /v1/manifests.
type Manifest struct {
	Parent identity.ID   `json:"parent_id"`
	Child  identity.ID   `json:"child_id"`
	Hash   identity.Hash `json:"manifest_hash_hex"`
	Closed bool          `json:"closed_by_default"`
}

// Revoked is one element of GET /v1/revocation_list.
type Revoked struct {
	ID     identity.ID `json:"vacant_id"`
	Reason string      `json:"reason"` // empty on hosts of Vacancy; other registries may set it
	Seq    uint64      `json:"event_seq"`
	Time   int64       `json:"ts"` // signed time in Unix milliseconds
}

func (m *Match) ParseDeclaredCapabilities() (list []string) {
	if json.NewDecoder(strings.NewReader(m.DeclaredCapabilities)).Decode(&list) != nil {
		return nil // unreadable
	}
	return list
}
