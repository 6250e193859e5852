package registry

import (
	"bytes"
	"encoding/json"
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

// Parts of the documents' keys.
const (
	registrationPrefix = "reg#" // partition: prefix and id
	cardSort           = "card"
	manifestSort       = "manifest"
	openedPrefix       = "opened#" // partition: prefix and child
	kinPrefix          = "kin#"    // partition: prefix and parent
	revokedPartition   = "revoked"
	// FeedPartition is the partition of the sparse index that lists
	// registrations by their last change.
	FeedPartition = "registry"
)

// RegistrationKey is the key of id's registration.
func RegistrationKey(id identity.ID) store.Key {
	return store.Key{Partition: registrationPrefix + id.String(), Sort: cardSort}
}

// RegistrationID returns the id of the registration at k; false if k is another
// document's key.
func RegistrationID(k store.Key) (identity.ID, bool) {
	digits, ok := strings.CutPrefix(k.Partition, registrationPrefix)
	if !ok || k.Sort != cardSort {
		return identity.ID{}, false
	}
	id, err := identity.ParseID(digits)
	return id, err == nil && RegistrationKey(id) == k
}

// ManifestKey is the key of child's manifest.
func ManifestKey(child identity.ID) store.Key {
	return store.Key{Partition: registrationPrefix + child.String(), Sort: manifestSort}
}

// OpenedKey is the key of what Graduate writes beside child's manifest. It has a
// partition of its own, so that a role that may write manifests opens no child.
func OpenedKey(child identity.ID) store.Key {
	return store.Key{Partition: openedPrefix + child.String(), Sort: manifestSort}
}

// KinKey is the key of the edge from a parent to its child.
func KinKey(parent, child identity.ID) store.Key {
	return store.Key{Partition: kinPrefix + parent.String(), Sort: child.String()}
}

// RevokedKey is the key of id's revocation.
func RevokedKey(id identity.ID) store.Key {
	return store.Key{Partition: revokedPartition, Sort: id.String()}
}

// format is the version of the stored documents. Documents of another format
// are refused: writing one back would lose the fields that this version does
// not know.
const format = 1

// stored is the stored form of a registration. The id is in the key. Default
// values are omitted: every KiB is paid for at each publication, and again in
// the index.
type stored struct {
	Format         int                  `json:"format"`
	Card           json.RawMessage      `json:"card,omitempty"` // a signed card's blob is canonical JSON, kept byte for byte
	CardHash       identity.Hash        `json:"hash,omitzero"`
	Visibility     lifecycle.Visibility `json:"visibility,omitempty"`
	State          lifecycle.State      `json:"state,omitempty"`
	Since          int64                `json:"since,omitempty"` // Unix microseconds, as all times in stored documents
	Revoked        bool                 `json:"revoked,omitempty"`
	Hosted         bool                 `json:"hosted,omitempty"`
	Name           string               `json:"name,omitempty"`
	Reached        bool                 `json:"reached,omitempty"`
	Unreached      bool                 `json:"unreached,omitempty"`
	Declared       []string             `json:"declared,omitempty"`
	Family         string               `json:"family,omitempty"`
	Owner          string               `json:"owner,omitempty"`
	BaseModel      string               `json:"base_model,omitempty"`
	Version        string               `json:"version,omitempty"`
	Parent         *identity.ID         `json:"parent,omitempty"`
	ParentProven   bool                 `json:"proven,omitempty"`
	Closed         bool                 `json:"closed,omitempty"`
	Listing        json.RawMessage      `json:"listing,omitempty"`
	ListingSource  string               `json:"listing_source,omitempty"`
	ListingVersion int64                `json:"listing_version,omitempty"`
	Reputation     *reputation.State    `json:"reputation,omitempty"`
	Joined         uint64               `json:"joined,omitempty"`
	LastSeq        uint64               `json:"last,omitempty"`
	ActorSeq       int64                `json:"actor_seq,omitempty"`
	Changed        int64                `json:"changed,omitempty"`
}

// put is the write of g, over the version that was read, with its new position
// in the feed. A registration that awaits its first event is not in the feed.
func (g *Registration) put(writeID store.WriteID) (store.Put, error) {
	s := stored{
		Format: format, Card: g.Card, CardHash: g.CardHash, Visibility: g.Signed, State: g.State,
		Revoked: g.Status == StatusRevoked, Hosted: g.Hosted, Name: g.Name, Reached: g.reached, Unreached: g.Unreached,
		Owner: g.Owner, BaseModel: g.BaseModel, Parent: g.Parent, ParentProven: g.ParentProven, Closed: g.Closed,
		ListingSource: g.ListingSource, ListingVersion: g.listingVersion, Reputation: g.Reputation,
		Joined: g.Joined, LastSeq: g.LastSeq, ActorSeq: g.ActorSeq,
	}
	if g.Family != DefaultFamily {
		s.Family = g.Family
	}
	if g.Version != DefaultVersion {
		s.Version = g.Version
	}
	if !slices.Equal(g.Declared, []string{capability(g.Card)}) {
		s.Declared = g.Declared
	}
	if g.Listing != nil {
		s.Listing = g.Listing.Blob()
	}
	p := store.Put{Key: RegistrationKey(g.ID), If: g.DocVersion, WriteID: writeID}
	if g.Joined > 0 {
		s.Since, s.Changed = g.Since.UnixMicro(), g.Changed.UnixMicro()
		p.Index = store.Key{Partition: FeedPartition, Sort: g.ChangeKey}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // the card's bytes are signed and must not change
	if err := e.Encode(s); err != nil {
		return p, problem.Wrap(problem.Internal, err, "registration of %s", g.ID.Short())
	}
	p.Data = bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	return p, nil
}

// DecodeRegistration reads the registration of id. The error is of kind Damaged
// if it is unreadable. Joined is 0 if the vacant has no event yet. The card's
// signature is not verified.
func DecodeRegistration(id identity.ID, d store.Doc) (Registration, error) {
	damaged := func(cause error, what string) (Registration, error) {
		return Registration{}, problem.Wrap(problem.Damaged, cause, "registration of %s %s", id.Short(), what)
	}
	var s stored
	if err := json.Unmarshal(d.Data, &s); err != nil {
		return damaged(err, "is not readable")
	}
	if err := checkFormat("registration of "+id.Short(), s.Format); err != nil {
		return Registration{}, err
	}
	g := Registration{
		ID: id, Card: s.Card, CardHash: s.CardHash, Visibility: s.Visibility, Signed: s.Visibility, State: s.State,
		Status: StatusActive, Hosted: s.Hosted, Unreached: s.Unreached, Name: s.Name, Declared: s.Declared, Family: s.Family, Owner: s.Owner,
		BaseModel: s.BaseModel, Version: s.Version, Parent: s.Parent, ParentProven: s.ParentProven, Closed: s.Closed,
		ListingSource: s.ListingSource, Reputation: s.Reputation, Joined: s.Joined, LastSeq: s.LastSeq, ActorSeq: s.ActorSeq,
		ChangeKey: d.Index.Sort, DocVersion: d.Version, reached: s.Reached, listingVersion: s.ListingVersion,
	}
	if g.ParentProven && g.Parent == nil || g.Closed && !g.ParentProven {
		return damaged(nil, "has no parent to be proven or closed by")
	}
	if g.Joined == 0 {
		return g, nil
	}
	// A card's id is the last member of its canonical form: a cheap proof that
	// the document is not another vacant's.
	if !strings.HasSuffix(string(g.Card), `"vacant_id":"`+id.String()+`"}`) {
		return damaged(nil, "has the card of another")
	}
	if _, err := lifecycle.ParseState(string(g.State)); err != nil {
		return damaged(err, "is in a state that is none")
	}
	if err := checkVisibility(g.Signed); err != nil {
		return damaged(err, "has a visibility that is none")
	}
	if g.ActorSeq < 1 || g.LastSeq < g.Joined {
		return damaged(nil, "names events that cannot be")
	}
	if len(s.Listing) > 0 {
		l, err := listing.Parse(s.Listing)
		if err != nil || l.VacantID != id {
			return damaged(err, "has a listing that is not its own")
		}
		g.Listing = &l
	}
	if g.Reputation != nil {
		if err := g.Reputation.Check(); err != nil {
			return damaged(err, "has a reputation that is none")
		}
	}
	g.Since, g.Changed = time.UnixMicro(s.Since).UTC(), time.UnixMicro(s.Changed).UTC()
	g.defaults(s.Revoked)
	g.wasListed, g.heldSlug = g.Listed(), g.slug()
	return g, nil
}

// defaults fills in what the stored form omits.
func (g *Registration) defaults(revoked bool) {
	if revoked {
		g.Status = StatusRevoked
	}
	if g.Closed {
		g.Visibility = lifecycle.Hidden
	}
	if g.Family == "" {
		g.Family = DefaultFamily
	}
	if g.Version == "" {
		g.Version = DefaultVersion
	}
	if len(g.Declared) == 0 {
		g.Declared = []string{capability(g.Card)}
	}
}

// capability returns the capability text of a card's canonical blob. It is the
// first member, so the rest is not read.
func capability(blob []byte) string {
	rest, ok := bytes.CutPrefix(blob, []byte(`{"capability_text":`))
	if !ok {
		return ""
	}
	text, err := canon.NewDecoder(rest, canon.DefaultLimits()).String()
	if err != nil {
		return ""
	}
	return text
}

// ManifestDocument is the document of a child's manifest. Only the gate sets
// Graduated, which counts only if the document at OpenedKey says so too.
type ManifestDocument struct {
	Manifest  composite.Manifest
	Graduated bool
	// Replaced is the manifest that this one replaced, or nil: an open one, or
	// for a graduated child the closed one. Before is the open manifest that
	// Replaced had replaced. Both are kept because the child signed them and
	// their edges remain.
	Replaced, Before *composite.Manifest
}

// Closed reports whether the child is closed and has not graduated.
func (m *ManifestDocument) Closed() bool { return m.Manifest.ClosedByDefault && !m.Graduated }

// Parents returns all parents that have an edge to the child, the current
// parent first.
func (m *ManifestDocument) Parents() []identity.ID {
	parents := []identity.ID{m.Manifest.ParentID}
	for _, old := range []*composite.Manifest{m.Replaced, m.Before} {
		if old != nil && !slices.Contains(parents, old.ParentID) {
			parents = append(parents, old.ParentID)
		}
	}
	return parents
}

// Born returns the manifest that the child had before it graduated, or else the
// current one.
func (m *ManifestDocument) Born() *composite.Manifest {
	if m.Graduated && m.Replaced != nil && m.Replaced.ClosedByDefault {
		return m.Replaced
	}
	return &m.Manifest
}

// storedOpening is the document at OpenedKey.
type storedOpening struct {
	Format   int           `json:"format"`
	Manifest identity.Hash `json:"manifest"` // that the gate opened the child by
}

// CheckOpened checks that the gate opened a graduated child, by the document at
// its OpenedKey. The error is of kind Damaged.
func (m *ManifestDocument) CheckOpened(d store.Doc) error {
	child := m.Manifest.ChildID
	if d.Version == 0 {
		return problem.New(problem.Damaged, "manifest of %s says that it has graduated, and the gate has not opened it", child.Short())
	}
	var s storedOpening
	if err := json.Unmarshal(d.Data, &s); err != nil {
		return problem.Wrap(problem.Damaged, err, "what opened %s is not readable", child.Short())
	}
	if err := checkFormat("what opened "+child.Short(), s.Format); err != nil {
		return err
	}
	if s.Manifest != m.Manifest.Hash() {
		return problem.New(problem.Damaged, "%s was opened by another manifest", child.Short())
	}
	return nil
}

type storedManifest struct {
	Format    int             `json:"format"`
	Manifest  json.RawMessage `json:"manifest"`
	Graduated bool            `json:"graduated,omitempty"`
	Replaced  json.RawMessage `json:"replaced,omitempty"`
	Before    json.RawMessage `json:"before,omitempty"`
}

// Encode returns the stored form of m.
func (m *ManifestDocument) Encode() ([]byte, error) {
	s := storedManifest{Format: format, Manifest: m.Manifest.Blob(), Graduated: m.Graduated}
	if m.Replaced != nil {
		s.Replaced = m.Replaced.Blob()
	}
	if m.Before != nil {
		s.Before = m.Before.Blob()
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return nil, problem.Wrap(problem.Internal, err, "manifest of %s", m.Manifest.ChildID.Short())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// DecodeManifest reads the manifest document of child. The error is of kind
// Damaged if it is unreadable.
func DecodeManifest(child identity.ID, d store.Doc) (ManifestDocument, error) {
	damaged := func(cause error, what string) (ManifestDocument, error) {
		return ManifestDocument{}, problem.Wrap(problem.Damaged, cause, "manifest of %s %s", child.Short(), what)
	}
	var s storedManifest
	if err := json.Unmarshal(d.Data, &s); err != nil {
		return damaged(err, "is not readable")
	}
	if err := checkFormat("manifest of "+child.Short(), s.Format); err != nil {
		return ManifestDocument{}, err
	}
	doc := ManifestDocument{Graduated: s.Graduated}
	var err error
	if doc.Manifest, err = signedBy(child, s.Manifest); err != nil {
		return damaged(err, "does not verify")
	}
	if doc.Replaced, err = replacedBy(child, s.Replaced); err == nil {
		doc.Before, err = replacedBy(child, s.Before)
	}
	if err == nil {
		err = doc.checkOrder()
	}
	if err != nil {
		return damaged(err, "does not verify in what it replaced")
	}
	return doc, nil
}

func replacedBy(child identity.ID, blob []byte) (*composite.Manifest, error) {
	if len(blob) == 0 {
		return nil, nil
	}
	m, err := signedBy(child, blob)
	return &m, err
}

// checkOrder checks the order of the manifests: a closed one replaces an open
// one, and graduation opens the closed one.
func (m *ManifestDocument) checkOrder() error {
	wrong := func(what string) error { return problem.New(problem.Damaged, "%s", what) }
	if m.Graduated && m.Manifest.ClosedByDefault {
		return wrong("a closed one is not that of a graduated child")
	}
	switch old := m.Replaced; {
	case old == nil && m.Before != nil, m.Before != nil && !(old.ClosedByDefault && !m.Before.ClosedByDefault):
		return wrong("only a closed one that was replaced took the place of an open one")
	case old == nil:
		return nil
	case old.ClosedByDefault && !(m.Graduated && !m.Manifest.ClosedByDefault):
		return wrong("only graduation takes the place of a closed one")
	case !old.ClosedByDefault && !m.Manifest.ClosedByDefault && !m.Graduated:
		return wrong("only a closed one takes the place of an open one")
	}
	return nil
}

// signedBy reads a manifest of child with both signatures.
func signedBy(child identity.ID, blob []byte) (composite.Manifest, error) {
	m, err := composite.Parse(blob)
	if err == nil {
		err = m.Verify()
	}
	if err == nil && m.ChildID != child {
		err = problem.New(problem.Damaged, "it is that of %s", m.ChildID.Short())
	}
	return m, err
}

// Revoked is a revocation.
type Revoked struct {
	ID       identity.ID
	Reason   string
	Time     int64 // Unix milliseconds, by its actor's clock
	Seq      uint64
	ActorSeq int64
	Hash     identity.Hash // of the event
}

type storedRevocation struct {
	Format   int           `json:"format"`
	Reason   string        `json:"reason"`
	Time     int64         `json:"ts"`
	Seq      uint64        `json:"seq"`
	ActorSeq int64         `json:"actor_seq"`
	Hash     identity.Hash `json:"hash"`
}

// DecodeRevocation reads the document of a revocation. The error is of kind
// Damaged if it is unreadable.
func DecodeRevocation(d store.Doc) (Revoked, error) {
	id, err := identity.ParseID(d.Key.Sort)
	if err != nil {
		return Revoked{}, problem.Wrap(problem.Damaged, err, "revocation %.80q is of no id", d.Key.Sort)
	}
	var s storedRevocation
	if err := json.Unmarshal(d.Data, &s); err != nil {
		return Revoked{}, problem.Wrap(problem.Damaged, err, "revocation of %s is not readable", id.Short())
	}
	if err := checkFormat("revocation of "+id.Short(), s.Format); err != nil {
		return Revoked{}, err
	}
	return Revoked{ID: id, Reason: s.Reason, Time: s.Time, Seq: s.Seq, ActorSeq: s.ActorSeq, Hash: s.Hash}, nil
}

func checkFormat(what string, got int) error {
	if got == format {
		return nil
	}
	if got > format {
		return problem.New(problem.Damaged, "%s has format %d; this Vacancy reads %d: a newer one wrote it", what, got, format)
	}
	return problem.New(problem.Damaged, "%s: expected format %d, got %d", what, format, got)
}
