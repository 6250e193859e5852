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

// Memory persists data for later runs of a Client. It is safe for concurrent use. The books of
// filebook and memorybook implement it.
type Memory interface {
	// Change calls f once with self's data while it holds an exclusive lock. If f returns true, the
	// changed data is durable before Change returns nil.
	Change(ctx context.Context, self identity.ID, f func(*SavedData) bool) error
}

// SavedData is the persistent data of a Client.
type SavedData struct {
	// Cards contains the newest card of each vacant that was called.
	Cards map[identity.ID]SeenCard `json:"cards,omitempty"`
	// OpenQuestions maps each question under way to its vacant. A repeated question must go to the
	// same vacant, because otherwise two vacants might work on it.
	OpenQuestions map[identity.Hash]OpenQuestion `json:"open,omitempty"`
	// Addresses maps the addresses that were called by name to their vacants.
	Addresses map[string]SeenVacant `json:"addresses,omitempty"`
}

// SeenCard is the newest known card of a vacant. A card does not contain its age (its version is
// always 1), so an older card is recognized by having been seen before (PROTOCOL §23 C6).
type SeenCard struct {
	Hash        identity.Hash   `json:"hash"`
	SeenAt      time.Time       `json:"at"`
	OlderHashes []identity.Hash `json:"older,omitempty"` // newest first
	// ReportedOlder is the hash of the older card that the last call used and that was reported as
	// Outdated. It is zero if the last call used the newest card.
	ReportedOlder identity.Hash `json:"told,omitzero"`
}

// OpenQuestion is the vacant of an open question.
type OpenQuestion struct {
	Registry string    `json:"registry"`
	Card     []byte    `json:"card"` // signed card
	AskedAt  time.Time `json:"at"`
}

// Limits of SavedData. The oldest entries above a limit are dropped.
const (
	maxCards         = 4096
	maxOlderHashes   = 16
	maxOpenQuestions = 64
	// maxOpenTime is the time for which a question stays open. It is at least as long as a host stores
	// the text of the answer (PROTOCOL §21).
	maxOpenTime = 24 * time.Hour
)

// Freshness is the result of comparing a card with earlier cards.
type Freshness string

const (
	FirstSeen Freshness = ""         // card of a vacant that has not been called yet
	Same      Freshness = "same"     // card of the last call
	Changed   Freshness = "changed"  // new card
	Outdated  Freshness = "outdated" // card that a newer card replaced; reported only by the first call that uses it again
)

func (m *SavedData) freshness(id identity.ID, h identity.Hash) Freshness {
	seen, ok := m.Cards[id]
	switch {
	case !ok:
		return FirstSeen
	case seen.Hash == h:
		return Same
	case slices.Contains(seen.OlderHashes, h):
		return Outdated
	}
	return Changed
}

// recordCard records that a call uses the card with hash h, and returns its freshness and whether m
// changed. An outdated card does not replace the newest one. If the last call used the same
// outdated card, the freshness is Same, because the person already knows.
func (m *SavedData) recordCard(id identity.ID, h identity.Hash, now time.Time) (freshness Freshness, changed bool) {
	freshness = m.freshness(id, h)
	old := m.Cards[id]
	seen := SeenCard{Hash: h, SeenAt: now}
	switch freshness {
	case Same:
		if old.ReportedOlder.IsZero() {
			return freshness, false
		}
		seen = old
		seen.ReportedOlder = identity.Hash{}
	case Outdated:
		if old.ReportedOlder == h {
			return Same, false
		}
		seen = old
		seen.ReportedOlder = h
	case Changed:
		seen.OlderHashes = append([]identity.Hash{old.Hash}, old.OlderHashes...)
		seen.OlderHashes = seen.OlderHashes[:min(len(seen.OlderHashes), maxOlderHashes)]
	}
	if m.Cards == nil {
		m.Cards = map[identity.ID]SeenCard{}
	}
	m.Cards[id] = seen
	dropOldest(m.Cards, maxCards, func(c SeenCard) time.Time { return c.SeenAt })
	return freshness, true
}

func (m *SavedData) recordQuestion(question identity.Hash, c OpenQuestion) {
	if m.OpenQuestions == nil {
		m.OpenQuestions = map[identity.Hash]OpenQuestion{}
	}
	m.OpenQuestions[question] = c
	dropOldest(m.OpenQuestions, maxOpenQuestions, func(c OpenQuestion) time.Time { return c.AskedAt })
}

func dropOldest[K comparable, V any](m map[K]V, limit int, timeOf func(V) time.Time) {
	for len(m) > limit {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(m)), func(a, b K) int { return cmp.Compare(timeOf(m[a]).UnixNano(), timeOf(m[b]).UnixNano()) })
		delete(m, oldest)
	}
}

// decodeLimits limit the encoded form: maxOpenQuestions cards of the largest size, in base64, and
// the hashes.
var decodeLimits = canon.Limits{Bytes: 16 << 20, Depth: 8, Keys: 2*maxCards + maxAddresses}

// MaxSavedBytes is the size limit of encoded SavedData in bytes.
const MaxSavedBytes = 16 << 20

func (m *SavedData) Encode() ([]byte, error) {
	b, err := json.MarshalIndent(m, "", " ")
	return append(b, '\n'), err
}

func DecodeSavedData(b []byte) (SavedData, error) {
	malformed := func(err error) (SavedData, error) {
		return SavedData{}, problem.Wrap(problem.Malformed, err, "saved cards: %s", err)
	}
	d := canon.NewDecoder(b, decodeLimits)
	if err := d.Skip(); err != nil {
		return malformed(err)
	}
	if err := d.End(); err != nil {
		return malformed(err)
	}
	var m SavedData
	j := json.NewDecoder(bytes.NewReader(b))
	j.DisallowUnknownFields()
	if err := j.Decode(&m); err != nil {
		return malformed(err)
	}
	return m, nil
}
