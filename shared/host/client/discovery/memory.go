package discovery

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Memory persists data for later runs of a Client. Safe for concurrent use. The
// books of filebook and memorybook implement it.
type Memory interface {
	// Change calls f once with self's data under an exclusive lock. If f
	// returns true, the changed data is stored durably before Change returns
	// nil.
	Change(ctx context.Context, self identity.ID, f func(*Remembered) bool) error
}

// Remembered is the persistent data of a Client.
type Remembered struct {
	// Cards holds the newest card of each vacant that was called.
	Cards map[identity.ID]SeenCard `json:"cards,omitempty"`
	// Open maps each question under way to its vacant: asked again, it must go
	// to the same vacant, or two might work on it.
	Open map[identity.Hash]OpenCall `json:"open,omitempty"`
	// Addresses maps the addresses that were called by name to their vacants.
	Addresses map[string]SeenVacant `json:"addresses,omitempty"`
}

// SeenCard is the newest known card of a vacant. A card does not say how new it
// is (its version is always 1), so an older card is recognised by having been
// seen before (PROTOCOL §23 C6).
type SeenCard struct {
	Hash  identity.Hash   `json:"hash"`
	At    time.Time       `json:"at"`
	Older []identity.Hash `json:"older,omitempty"` // newest first
	// Told is the older card that calls use now, as the person was told. It is zero while
	// calls use the newest.
	Told identity.Hash `json:"told,omitzero"`
}

// OpenCall is the vacant of an open question.
type OpenCall struct {
	Registry string    `json:"registry"`
	Card     []byte    `json:"card"` // the signed card
	At       time.Time `json:"at"`
}

// Bounds of a Remembered; the oldest entries are dropped.
const (
	maxCards = 4096
	maxOlder = 16
	maxOpen  = 64
	// openTime is the time for which a question stays open: at least as long as
	// a host keeps the text of the answer (PROTOCOL §21).
	openTime = 24 * time.Hour
)

// Freshness compares a card with those seen before.
type Freshness string

// The freshnesses.
const (
	FirstSeen Freshness = ""         // of a vacant that was not called before
	Same      Freshness = "same"     // the card of the last call
	Changed   Freshness = "changed"  // a new card
	Outdated  Freshness = "outdated" // a card that was replaced by another; of a call, the first that uses it
)

// freshness of a card with hash h.
func (m *Remembered) freshness(id identity.ID, h identity.Hash) Freshness {
	seen, ok := m.Cards[id]
	switch {
	case !ok:
		return FirstSeen
	case seen.Hash == h:
		return Same
	case slices.Contains(seen.Older, h):
		return Outdated
	}
	return Changed
}

// see records that a call uses the card with hash h. An outdated card replaces
// nothing. It returns the card's freshness, and whether anything changed. An outdated card
// that the last call used is Same: every call would repeat what the person knows.
func (m *Remembered) see(id identity.ID, h identity.Hash, now time.Time) (fresh Freshness, changed bool) {
	fresh = m.freshness(id, h)
	old := m.Cards[id]
	seen := SeenCard{Hash: h, At: now}
	switch fresh {
	case Same:
		if old.Told.IsZero() {
			return fresh, false
		}
		seen = old
		seen.Told = identity.Hash{}
	case Outdated:
		if old.Told == h {
			return Same, false
		}
		seen = old
		seen.Told = h
	case Changed:
		seen.Older = append([]identity.Hash{old.Hash}, old.Older...)
		seen.Older = seen.Older[:min(len(seen.Older), maxOlder)]
	}
	if m.Cards == nil {
		m.Cards = map[identity.ID]SeenCard{}
	}
	m.Cards[id] = seen
	forget(m.Cards, maxCards, func(c SeenCard) time.Time { return c.At })
	return fresh, true
}

// open records the vacant of a question.
func (m *Remembered) open(question identity.Hash, c OpenCall) {
	if m.Open == nil {
		m.Open = map[identity.Hash]OpenCall{}
	}
	m.Open[question] = c
	forget(m.Open, maxOpen, func(c OpenCall) time.Time { return c.At })
}

// forget drops the oldest entries of m until most are left.
func forget[K comparable, V any](m map[K]V, most int, at func(V) time.Time) {
	for len(m) > most {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(m)), func(a, b K) int { return cmp.Compare(at(m[a]).UnixNano(), at(m[b]).UnixNano()) })
		delete(m, oldest)
	}
}

// memoryLimits bound the encoded form: maxOpen cards of the largest size, in
// base64, and the hashes.
var memoryLimits = canon.Limits{Bytes: 16 << 20, Depth: 8, Keys: 2*maxCards + maxAddresses}

// MaxMemory is the largest encoded Remembered in bytes.
const MaxMemory = 16 << 20

// Encode writes m as JSON.
func (m *Remembered) Encode() ([]byte, error) {
	b, err := json.MarshalIndent(m, "", " ")
	return append(b, '\n'), err
}

// DecodeRemembered parses the output of Encode, strictly.
func DecodeRemembered(b []byte) (Remembered, error) {
	bad := func(err error) (Remembered, error) {
		return Remembered{}, problem.Wrap(problem.Malformed, err, "remembered cards: %s", err)
	}
	d := canon.NewDecoder(b, memoryLimits)
	if err := d.Skip(); err != nil {
		return bad(err)
	}
	if err := d.End(); err != nil {
		return bad(err)
	}
	var m Remembered
	j := json.NewDecoder(bytes.NewReader(b))
	j.DisallowUnknownFields()
	if err := j.Decode(&m); err != nil {
		return bad(err)
	}
	return m, nil
}
