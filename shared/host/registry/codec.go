package registry

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/reputation"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// storedRegistration omits default values, because each publication pays for every KiB twice: in
// the document and in the index.
type storedRegistration struct {
	Card                 json.RawMessage      `json:"card,omitempty"`
	CardHash             identity.Hash        `json:"hash,omitzero"`
	Visibility           lifecycle.Visibility `json:"visibility,omitempty"`
	State                lifecycle.State      `json:"state,omitempty"`
	StateSince           int64                `json:"since,omitempty"` // Unix microseconds
	Revoked              bool                 `json:"revoked,omitempty"`
	Hosted               bool                 `json:"hosted,omitempty"`
	Name                 string               `json:"name,omitempty"`
	Reachable            bool                 `json:"reached,omitempty"`
	AwaitsProbe          bool                 `json:"unreached,omitempty"`
	DeclaredCapabilities []string             `json:"declared,omitempty"`
	Family               string               `json:"family,omitempty"`
	Owner                string               `json:"owner,omitempty"`
	BaseModel            string               `json:"base_model,omitempty"`
	Version              string               `json:"version,omitempty"`
	Parent               *identity.ID         `json:"parent,omitempty"`
	ParentProven         bool                 `json:"proven,omitempty"`
	Closed               bool                 `json:"closed,omitempty"`
	Listing              json.RawMessage      `json:"listing,omitempty"`
	ListingSource        string               `json:"listing_source,omitempty"`
	ListingVersion       int64                `json:"listing_version,omitempty"`
	Reputation           *reputation.State    `json:"reputation,omitempty"`
	FirstSeq             uint64               `json:"joined,omitempty"`
	LastSeq              uint64               `json:"last,omitempty"`
	ActorSeq             int64                `json:"actor_seq,omitempty"`
	ChangedAt            int64                `json:"changed,omitempty"`
}

func (g *Registration) newPut(writeID store.WriteID) (store.Put, error) {
	data, err := RegistrationDocs.Encode(*g)
	p := store.Put{Key: RegistrationKey(g.ID), IfVersion: g.DocVersion, WriteID: writeID, Data: data}
	if g.FirstSeq > 0 {
		p.Index = RegistrationDocs.IndexKey(g.ChangeKey)
	}
	return p, err
}

func encodeRegistration(reg Registration) ([]byte, error) {
	s := storedRegistration{
		Card: reg.Card, CardHash: reg.CardHash, Visibility: reg.SignedVisibility, State: reg.State,
		Revoked: reg.Status == StatusRevoked, Hosted: reg.Hosted, Name: reg.Name, Reachable: reg.isReachable, AwaitsProbe: reg.AwaitsProbe,
		Owner: reg.Owner, BaseModel: reg.BaseModel, Parent: reg.Parent, ParentProven: reg.ParentProven, Closed: reg.Closed,
		ListingSource: reg.ListingSource, ListingVersion: reg.listingVersion, Reputation: reg.Reputation,
		FirstSeq: reg.FirstSeq, LastSeq: reg.LastSeq, ActorSeq: reg.ActorSeq,
	}
	if reg.Family != DefaultFamily {
		s.Family = reg.Family
	}
	if reg.Version != DefaultVersion {
		s.Version = reg.Version
	}
	if !slices.Equal(reg.DeclaredCapabilities, []string{parseCapability(reg.Card)}) {
		s.DeclaredCapabilities = reg.DeclaredCapabilities
	}
	if reg.Listing != nil {
		s.Listing = reg.Listing.Blob()
	}
	if reg.FirstSeq > 0 {
		s.StateSince, s.ChangedAt = reg.StateSince.UnixMicro(), reg.ChangedAt.UnixMicro()
	}
	return registrationCodec.Encode(s)
}

func decodeRegistration(d store.Doc) (Registration, error) {
	invalid := func(reason string) (Registration, error) { return Registration{}, errors.New(reason) }
	id, err := parseVacantID(d.Key)
	if err != nil {
		return Registration{}, err
	}
	s, err := registrationCodec.Decode(d)
	if err != nil {
		return Registration{}, err
	}
	reg := Registration{
		ID: id, Card: s.Card, CardHash: s.CardHash, Visibility: s.Visibility, SignedVisibility: s.Visibility, State: s.State,
		Status: StatusActive, Hosted: s.Hosted, AwaitsProbe: s.AwaitsProbe, Name: s.Name, DeclaredCapabilities: s.DeclaredCapabilities, Family: s.Family, Owner: s.Owner,
		BaseModel: s.BaseModel, Version: s.Version, Parent: s.Parent, ParentProven: s.ParentProven, Closed: s.Closed,
		ListingSource: s.ListingSource, Reputation: s.Reputation, FirstSeq: s.FirstSeq, LastSeq: s.LastSeq, ActorSeq: s.ActorSeq,
		ChangeKey: d.Index.Sort, DocVersion: d.Version, isReachable: s.Reachable, listingVersion: s.ListingVersion,
	}
	if reg.ParentProven && reg.Parent == nil || reg.Closed && !reg.ParentProven {
		return invalid("it is proven or closed, but has no proven parent")
	}
	if reg.FirstSeq == 0 {
		return reg, nil
	}
	// The card's signature was verified before the card was stored, so only its id is checked here.
	// The id is the last member of a card's canonical form, so the card need not be parsed.
	if !strings.HasSuffix(string(reg.Card), `"vacant_id":"`+id.String()+`"}`) {
		return invalid("it has the card of another vacant")
	}
	if _, err := lifecycle.ParseState(string(reg.State)); err != nil {
		return Registration{}, err
	}
	if err := checkVisibility(reg.SignedVisibility); err != nil {
		return Registration{}, err
	}
	if reg.ActorSeq < 1 || reg.LastSeq < reg.FirstSeq {
		return invalid("its event numbers are invalid")
	}
	if len(s.Listing) > 0 {
		l, err := listing.Parse(s.Listing)
		if err != nil {
			return Registration{}, err
		}
		if l.VacantID != id {
			return invalid("it has the listing of another vacant")
		}
		reg.Listing = &l
	}
	if reg.Reputation != nil {
		if err := reg.Reputation.Check(); err != nil {
			return Registration{}, err
		}
	}
	reg.StateSince, reg.ChangedAt = time.UnixMicro(s.StateSince).UTC(), time.UnixMicro(s.ChangedAt).UTC()
	reg.fillDefaults(s.Revoked)
	reg.wasListed, reg.storedSlug = reg.IsListed(), reg.slug()
	return reg, nil
}

func (g *Registration) fillDefaults(isRevoked bool) {
	if isRevoked {
		g.Status = StatusRevoked
	}
	if g.Closed {
		g.Visibility = lifecycle.Hidden
	}
	g.Family = cmp.Or(g.Family, DefaultFamily)
	g.Version = cmp.Or(g.Version, DefaultVersion)
	if len(g.DeclaredCapabilities) == 0 {
		g.DeclaredCapabilities = []string{parseCapability(g.Card)}
	}
}

func parseCapability(cardBlob []byte) string {
	// The capability text is the first member of a card's canonical form.
	rest, ok := bytes.CutPrefix(cardBlob, []byte(`{"capability_text":`))
	if !ok {
		return ""
	}
	text, err := canon.NewDecoder(rest, canon.DefaultLimits()).String()
	if err != nil {
		return ""
	}
	return text
}

// ManifestDocument is the document of a child's manifest. Graduated is valid only together with the
// document at OpeningKey.
type ManifestDocument struct {
	Manifest  composite.Manifest
	Graduated bool
	// PreviousManifest and ManifestBeforePrevious are kept because the child has signed them.
	PreviousManifest, ManifestBeforePrevious *composite.Manifest
}

func (m *ManifestDocument) IsClosed() bool { return m.Manifest.ClosedByDefault && !m.Graduated }

func (m *ManifestDocument) Parents() []identity.ID {
	parents := []identity.ID{m.Manifest.ParentID}
	for _, previous := range []*composite.Manifest{m.PreviousManifest, m.ManifestBeforePrevious} {
		if previous != nil && !slices.Contains(parents, previous.ParentID) {
			parents = append(parents, previous.ParentID)
		}
	}
	return parents
}

// BirthManifest returns the closed manifest of a graduated child, and otherwise the current
// manifest.
func (m *ManifestDocument) BirthManifest() *composite.Manifest {
	if m.Graduated && m.PreviousManifest != nil && m.PreviousManifest.ClosedByDefault {
		return m.PreviousManifest
	}
	return &m.Manifest
}

type openingDocument struct {
	Manifest identity.Hash `json:"manifest"`
}

// CheckOpeningDocument returns an error of kind Damaged unless d, the document at OpeningKey,
// proves the child's graduation.
func (m *ManifestDocument) CheckOpeningDocument(d store.Doc) error {
	child := m.Manifest.ChildID
	if d.Version == 0 {
		return problem.New(problem.Damaged, "manifest of %s says that the child has graduated, but the gate has not opened the child", child.Short())
	}
	doc, err := OpeningDocs.Parse(d)
	if err == nil && doc.Manifest != m.Manifest.Hash() {
		err = problem.New(problem.Damaged, "%s was opened with another manifest", child.Short())
	}
	return err
}

type storedManifest struct {
	Manifest               json.RawMessage `json:"manifest"`
	Graduated              bool            `json:"graduated,omitempty"`
	PreviousManifest       json.RawMessage `json:"replaced,omitempty"`
	ManifestBeforePrevious json.RawMessage `json:"before,omitempty"`
}

func encodeManifest(m ManifestDocument) ([]byte, error) {
	s := storedManifest{Manifest: m.Manifest.Blob(), Graduated: m.Graduated}
	if m.PreviousManifest != nil {
		s.PreviousManifest = m.PreviousManifest.Blob()
	}
	if m.ManifestBeforePrevious != nil {
		s.ManifestBeforePrevious = m.ManifestBeforePrevious.Blob()
	}
	return manifestCodec.Encode(s)
}

func decodeManifest(d store.Doc) (ManifestDocument, error) {
	child, err := parseVacantID(d.Key)
	if err != nil {
		return ManifestDocument{}, err
	}
	s, err := manifestCodec.Decode(d)
	if err != nil {
		return ManifestDocument{}, err
	}
	doc := ManifestDocument{Graduated: s.Graduated}
	if doc.Manifest, err = parseSignedManifest(child, s.Manifest); err != nil {
		return doc, err
	}
	if doc.PreviousManifest, err = parseOptionalManifest(child, s.PreviousManifest); err == nil {
		doc.ManifestBeforePrevious, err = parseOptionalManifest(child, s.ManifestBeforePrevious)
	}
	if err == nil {
		err = doc.checkReplacements()
	}
	if err != nil {
		return doc, problem.Wrap(problem.Damaged, err, "its replaced manifests are invalid: %s", problem.AsError(err).Text())
	}
	return doc, nil
}

func parseOptionalManifest(child identity.ID, blob []byte) (*composite.Manifest, error) {
	if len(blob) == 0 {
		return nil, nil
	}
	m, err := parseSignedManifest(child, blob)
	return &m, err
}

func (m *ManifestDocument) checkReplacements() error {
	damagedError := func(what string) error { return problem.New(problem.Damaged, "%s", what) }
	if m.Graduated && m.Manifest.ClosedByDefault {
		return damagedError("a graduated child cannot have a closed manifest")
	}
	switch previous := m.PreviousManifest; {
	case previous == nil && m.ManifestBeforePrevious != nil, m.ManifestBeforePrevious != nil && !(previous.ClosedByDefault && !m.ManifestBeforePrevious.ClosedByDefault):
		return damagedError("only a closed manifest can have replaced an open manifest")
	case previous == nil:
		return nil
	case previous.ClosedByDefault && !(m.Graduated && !m.Manifest.ClosedByDefault):
		return damagedError("only graduation can replace a closed manifest")
	case !previous.ClosedByDefault && !m.Manifest.ClosedByDefault && !m.Graduated:
		return damagedError("only a closed manifest can replace an open manifest")
	}
	return nil
}

func parseSignedManifest(child identity.ID, blob []byte) (composite.Manifest, error) {
	m, err := composite.ParseManifest(blob)
	if err == nil {
		err = m.Verify()
	}
	if err == nil && m.ChildID != child {
		err = problem.New(problem.Damaged, "it belongs to %s", m.ChildID.Short())
	}
	return m, err
}

type RevocationRecord struct {
	ID       identity.ID   `json:"-"`
	Reason   string        `json:"reason"`
	Time     int64         `json:"ts"` // Unix milliseconds
	Seq      uint64        `json:"seq"`
	ActorSeq int64         `json:"actor_seq"`
	Hash     identity.Hash `json:"hash"`
}
