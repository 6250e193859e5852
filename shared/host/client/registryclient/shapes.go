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

// Publication is the body of POST /v1/halo.
type Publication struct {
	Card                 string               `json:"capability_card_blob_hex" canon:"required"`
	State                lifecycle.State      `json:"runtime_state" canon:"required"`
	Visibility           lifecycle.Visibility `json:"visibility,omitempty"`
	BaseModel            *string              `json:"base_model,omitempty" canon:"null"`
	Family               *string              `json:"base_model_family,omitempty" canon:"null"`
	Owner                *string              `json:"owner_org,omitempty" canon:"null"`
	DeclaredCapabilities []string             `json:"declared_capabilities,omitempty" canon:"null,max=1024"`
	Parent               *identity.ID         `json:"parent_id,omitempty" canon:"null"`
	Version              *string              `json:"version,omitempty" canon:"null"`
	Time                 int64                `json:"event_ts_ms" canon:"required"`
	ActorSeq             int64                `json:"event_actor_seq" canon:"required"`
	IdempotencyKey       string               `json:"event_idempotency_key" canon:"required"`
	Signature            string               `json:"event_signature_hex" canon:"required"`
	// Listing is a signed listing. The reference rejects it as an unknown member.
	Listing json.RawMessage `json:"listing,omitempty" canon:"null"`
}

// Receipt is the answer to a publication or a revocation.
type Receipt struct {
	ID         identity.ID          `json:"vacant_id"`
	Visibility lifecycle.Visibility `json:"visibility"`
	Seq        uint64               `json:"event_seq"`
	CardHash   identity.Hash        `json:"capability_card_hash_hex"`
	Status     string               `json:"status,omitempty"` // extension: "active" or "revoked"
	Replayed   bool                 `json:"replayed,omitempty"`
	// AwaitsProbe is set until the endpoint answers.
	AwaitsProbe bool `json:"unreached,omitempty"`
}

// Revocation is the body of POST /v1/revoke_halo, which the reference answers with 501.
type Revocation struct {
	ID             identity.ID `json:"vacant_id" canon:"required"`
	Reason         string      `json:"reason" canon:"required"`
	Time           int64       `json:"event_ts_ms" canon:"required"`
	ActorSeq       int64       `json:"event_actor_seq" canon:"required"`
	IdempotencyKey string      `json:"event_idempotency_key" canon:"required"`
	Signature      string      `json:"event_signature_hex" canon:"required"`
}

// Match is one vacant in an answer. The reference sends only the first eight members.
type Match struct {
	ID                   identity.ID          `json:"vacant_id"`
	CardHash             string               `json:"capability_card_hash_hex"`
	CardSig              string               `json:"capability_card_sig_hex"`
	CardBlob             string               `json:"capability_card_blob_hex"` // "" if unreadable
	DeclaredCapabilities string               `json:"declared_capabilities_json"`
	Family               string               `json:"base_model_family"`
	Visibility           lifecycle.Visibility `json:"visibility"`
	Score                float64              `json:"score"`

	// CapabilityCard repeats CardBlob for the reference's SDK.
	CapabilityCard string `json:"capability_card,omitempty"`

	Name          string            `json:"name,omitempty"` // not signed
	State         lifecycle.State   `json:"state,omitempty"`
	Since         string            `json:"since,omitempty"`
	Status        string            `json:"status,omitempty"` // active, revoked
	AwaitsProbe   bool              `json:"unreached,omitempty"`
	Rank          *float64          `json:"rank,omitempty"`
	MissingWords  []string          `json:"missing_words,omitempty"`
	FirstSeq      uint64            `json:"joined,omitempty"`
	LastSeq       uint64            `json:"last_seq,omitempty"`
	ActorSeq      int64             `json:"actor_seq,omitempty"`
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

// VerifiedCard returns m's card if it verifies and belongs to m's vacant.
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

// Page is a page of matches.
type Page struct {
	Matches []Match `json:"matches"`
	Next    string  `json:"next,omitempty"`
	// MatchErrors contains the errors of unreadable matches (PROTOCOL §23 C3).
	MatchErrors []error `json:"-"`
}

// Matches is the answer of POST /v1/query_capability.
type Matches struct {
	Matches        []Match  `json:"matches"`
	NotImplemented []string `json:"not_implemented_in_p4"`
}

// Event is an event of the registry's chain.
type Event struct {
	Seq            uint64       `json:"seq"`
	Type           string       `json:"event_type"`
	Actor          identity.ID  `json:"actor_vacant_id"`
	Subject        *identity.ID `json:"subject_vacant_id"`
	Payload        string       `json:"payload_json"`
	Hash           string       `json:"event_hash_hex"`
	ActorSeq       int64        `json:"actor_seq"`
	Time           int64        `json:"ts"`
	Prev           string       `json:"prev_event_hash_hex,omitempty"`
	IdempotencyKey string       `json:"idempotency_key,omitempty"`
	PublicKey      string       `json:"signed_by_pubkey_hex,omitempty"`
	Signature      string       `json:"signature_hex,omitempty"`
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
	Reason string      `json:"reason"`
	Seq    uint64      `json:"event_seq"`
	Time   int64       `json:"ts"` // signed time in Unix milliseconds
}

func (m *Match) ParseDeclaredCapabilities() (list []string) {
	if json.NewDecoder(strings.NewReader(m.DeclaredCapabilities)).Decode(&list) != nil {
		return nil
	}
	return list
}
