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

// Memory persists data for later runs of a Client. It is safe for concurrent use.
type Memory interface {
	// Change calls f once with self's data while it holds an exclusive lock. If f returns true, the
	// changed data is durable before Change returns nil.
	Change(ctx context.Context, self identity.ID, f func(*SavedData) bool) error
}

// SavedData is the persistent data of a Client.
type SavedData struct {
	Cards map[identity.ID]SeenCard `json:"cards,omitempty"`
	// OpenQuestions maps each open question to its vacant. If a repeated question went to another
	// vacant, both could run it.
	OpenQuestions map[identity.Hash]OpenQuestion `json:"open,omitempty"`
	Addresses     map[string]SeenVacant          `json:"addresses,omitempty"`
}

// SeenCard is the newest known card of a vacant. Older cards are recognized by their hashes
// (PROTOCOL §23 C6).
type SeenCard struct {
	Hash        identity.Hash   `json:"hash"`
	SeenAt      time.Time       `json:"at"`
	OlderHashes []identity.Hash `json:"older,omitempty"`
	// ReportedOlder is the outdated card that the last call used, or zero.
	ReportedOlder identity.Hash `json:"told,omitzero"`
}

// OpenQuestion is the vacant of an open question.
type OpenQuestion struct {
	Registry string    `json:"registry"`
	Card     []byte    `json:"card"`
	AskedAt  time.Time `json:"at"`
}

// Limits of SavedData. The oldest entries above a limit are dropped.
const (
	maxCards         = 4096
	maxOlderHashes   = 16
	maxOpenQuestions = 64
	// maxOpenTime is at least as long as a host stores an answer (PROTOCOL §21).
	maxOpenTime = 24 * time.Hour
)

// Freshness is the result of comparing a card with earlier cards.
type Freshness string

const (
	FirstSeen Freshness = ""     // card of a vacant that has not been called yet
	Same      Freshness = "same" // card of the last call
	Changed   Freshness = "changed"
	Outdated  Freshness = "outdated" // card that a newer card replaced
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

// recordCard records that a call uses the card with hash h. A repeated outdated card is reported as
// Same, because the person already knows.
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

var decodeLimits = canon.Limits{Bytes: 16 << 20, Depth: 8, Keys: 2*maxCards + maxAddresses}

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
