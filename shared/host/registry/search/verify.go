package search

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// EntryOf returns the index entry of a vacant and its card. ok is false if searches do not show the
// vacant or its card is unreadable.
func EntryOf(reg *registry.Registration) (e Entry, c card.Card, ok bool) {
	if !reg.IsListed() {
		return Entry{}, card.Card{}, false
	}
	return newEntry(reg)
}

func newEntry(reg *registry.Registration) (e Entry, c card.Card, ok bool) {
	c, err := card.Parse(reg.Card)
	if err != nil || c.VacantID != reg.ID {
		return Entry{}, card.Card{}, false
	}
	e = Entry{
		ID: reg.ID, FirstSeq: reg.FirstSeq, Capability: c.CapabilityText, DeclaredCapabilities: reg.DeclaredCapabilities,
		ClaimedFamily: reg.Family, Score: reg.Reputation.EarnedScore(),
	}
	if reg.Hosted {
		e.Name = reg.Name
	}
	v := reg.Venue()
	e.Category, e.Areas, e.Bookable = v.Category, append([]string{v.Location}, v.Areas...), v.Bookable
	if l := reg.Listing; l != nil {
		e.Tags, e.Skills, e.Summary, e.Family, e.Price = l.Tags, l.Skills, l.Summary, l.ModelFamily, l.Price
		if l.Venue != nil {
			e.VenueTexts = []string{l.Venue.Slug, v.Name, v.Category}
		}
	}
	return e, c, true
}

type preparedRegistration struct {
	*registry.CachedRegistration
	entry        Entry
	texts        normalTexts
	card         card.Card
	hasValidCard bool
	size         int64
}

// maxCachedRegistrations take about 40 MB.
const maxCachedRegistrations = 1 << 13

func (s *Service) prepareRegistration(ctx context.Context, id identity.ID) (*preparedRegistration, error) {
	cached, ok := s.registrations.Get(id)
	var last *registry.CachedRegistration
	if ok {
		last = cached.CachedRegistration
	}
	r, err := s.Registry.Reread(ctx, id, last)
	if err != nil {
		return nil, err
	}
	if ok && r == last {
		return cached, nil
	}
	reg := &r.Registration
	p := &preparedRegistration{CachedRegistration: r, size: registrationSize(reg)}
	if p.entry, p.card, ok = newEntry(reg); ok && reg.ID == id {
		p.texts, p.hasValidCard = p.entry.buildTexts(), s.hasValidCard(&p.card, reg)
	}
	if p.size <= maxCachedBytes {
		s.registrations.Add(id, p)
	}
	return p, nil
}

// Larger registrations are not cached, so that the cache does not fill the memory.
const maxCachedBytes = 8 << 10

// verifyHit returns nil if the hit must be dropped.
func (s *Service) verifyHit(ctx context.Context, q *Query, h Hit, readBytes *atomic.Int64) (*Match, error) {
	p, err := s.prepareRegistration(ctx, h.ID)
	if problem.Is(err, problem.Damaged) || problem.Is(err, problem.Untrusted) {
		// One damaged registration does not stop the search (PROTOCOL §23 C).
		s.logDroppedHit(ctx, h, "its registration is damaged")
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	readBytes.Add(p.size)
	reg := &p.Registration
	if !p.Registered || reg.ID != h.ID {
		s.logDroppedHit(ctx, h, "it is not registered")
		return nil, nil
	}
	if !reg.IsListed() {
		s.logDroppedHit(ctx, h, "it is not listed now")
		return nil, nil
	}
	rank, ok := q.matchTexts(&p.entry, &p.texts)
	if !ok {
		s.logDroppedHit(ctx, h, "it does not match now")
		return nil, nil
	}
	if !p.hasValidCard {
		s.logDroppedHit(ctx, h, "its card does not verify")
		return nil, nil
	}
	m := &Match{Registration: *reg, Card: p.card, Score: p.entry.Score, Rank: rank}
	if q.RequiredWords() < len(q.Words) {
		m.MissingWords = q.missingWords(&p.texts.groups)
	}
	return m, nil
}

func registrationSize(reg *registry.Registration) int64 {
	size := len(reg.Card)
	for _, text := range reg.DeclaredCapabilities {
		size += len(text)
	}
	if l := reg.Listing; l != nil {
		size += len(l.Summary)
		for _, text := range slices.Concat(l.Tags, l.Skills) {
			size += len(text)
		}
		if v := l.Venue; v != nil {
			size += len(v.Hours) + len(v.Name) + len(v.Location) + len(v.Slug)
		}
	}
	return int64(size)
}

func (s *Service) logDroppedHit(ctx context.Context, h Hit, reason string) {
	s.Log.DebugContext(ctx, "a search hit was dropped", "vacant", h.ID, "why", reason)
}

// maxCachedVerdicts take about 10 MB.
const maxCachedVerdicts = 1 << 16

// hasValidCard reports whether c is the registered card and its signature verifies. The card's own
// hash does not include the signature, so the cache key is the hash of the blob.
func (s *Service) hasValidCard(c *card.Card, reg *registry.Registration) bool {
	if c.Hash() != reg.CardHash {
		return false
	}
	key := identity.Sum(reg.Card)
	if isValid, ok := s.cardVerdicts.Get(key); ok {
		return isValid
	}
	isValid := c.Verify()
	s.cardVerdicts.Add(key, isValid)
	return isValid
}
