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
func EntryOf(g *registry.Registration) (e Entry, c card.Card, ok bool) {
	if !g.IsListed() {
		return Entry{}, card.Card{}, false
	}
	return newEntry(g)
}

func newEntry(g *registry.Registration) (e Entry, c card.Card, ok bool) {
	c, err := card.Parse(g.Card)
	if err != nil || c.VacantID != g.ID {
		return Entry{}, card.Card{}, false
	}
	e = Entry{
		ID: g.ID, FirstSeq: g.FirstSeq, Capability: c.CapabilityText, DeclaredCapabilities: g.DeclaredCapabilities,
		ClaimedFamily: g.Family, Score: g.Reputation.EarnedScore(),
	}
	if g.Hosted {
		e.Name = g.Name
	}
	v := g.Venue()
	e.Category, e.Areas, e.Bookable = v.Category, append([]string{v.Location}, v.Areas...), v.Bookable
	if l := g.Listing; l != nil {
		e.Tags, e.Skills, e.Summary, e.Family, e.Price = l.Tags, l.Skills, l.Summary, l.ModelFamily, l.Price
		if l.Venue != nil {
			e.VenueTexts = []string{l.Venue.Slug, v.Name, v.Category}
		}
	}
	return e, c, true
}

type preparedRegistration struct {
	*registry.CachedRegistration
	entry      Entry
	texts      normalTexts
	card       card.Card
	hasOwnCard bool
	size       int64
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
	g := &r.Registration
	p := &preparedRegistration{CachedRegistration: r, size: registrationSize(g)}
	if p.entry, p.card, ok = newEntry(g); ok && g.ID == id {
		p.texts, p.hasOwnCard = p.entry.buildTexts(), s.isOwnCard(&p.card, g)
	}
	if p.size <= maxCachedSize {
		s.registrations.Add(id, p)
	}
	return p, nil
}

// Larger registrations are not cached, so that the cache does not fill the memory.
const maxCachedSize = 8 << 10

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
	g := &p.Registration
	if !p.Registered || g.ID != h.ID {
		s.logDroppedHit(ctx, h, "it is not registered")
		return nil, nil
	}
	if !g.IsListed() {
		s.logDroppedHit(ctx, h, "it is not listed now")
		return nil, nil
	}
	rank, ok := q.matchTexts(&p.entry, &p.texts)
	if !ok {
		s.logDroppedHit(ctx, h, "it does not match now")
		return nil, nil
	}
	if !p.hasOwnCard {
		s.logDroppedHit(ctx, h, "its card does not verify")
		return nil, nil
	}
	m := &Match{Registration: *g, Card: p.card, Score: p.entry.Score, Rank: rank}
	if q.RequiredWords() < len(q.Words) {
		m.MissingWords = q.missingWords(&p.texts.groups)
	}
	return m, nil
}

func registrationSize(g *registry.Registration) int64 {
	size := len(g.Card)
	for _, text := range g.DeclaredCapabilities {
		size += len(text)
	}
	if l := g.Listing; l != nil {
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

// isOwnCard reports whether c is the registered card and its signature verifies. The card's own
// hash does not include the signature, so the cache key is the hash of the blob.
func (s *Service) isOwnCard(c *card.Card, g *registry.Registration) bool {
	if c.Hash() != g.CardHash {
		return false
	}
	key := identity.Sum(g.Card)
	if isValid, ok := s.cardVerdicts.Get(key); ok {
		return isValid
	}
	isValid := c.Verify()
	s.cardVerdicts.Add(key, isValid)
	return isValid
}
