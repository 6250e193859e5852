package search

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/reputation"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// EntryOf is what an index holds of g at a time, and the card in it. ok is
// false for what search does not show: an index removes it. A registration
// whose card does not read is not shown either.
func EntryOf(g *registry.Registration, now time.Time) (e Entry, c card.Card, ok bool) {
	if !g.Listed(now) {
		return Entry{}, card.Card{}, false
	}
	c, err := card.Parse(g.Card)
	if err != nil || c.VacantID != g.ID {
		return Entry{}, card.Card{}, false
	}
	e = Entry{
		ID: g.ID, Joined: g.Joined, Capability: c.CapabilityText, Declared: g.Declared,
		ClaimedFamily: g.Family, Score: g.Reputation.Score(reputation.Searched()...),
	}
	if l := g.Listing; l != nil {
		e.Tags, e.Skills, e.Summary, e.Family, e.Price = l.Tags, l.Skills, l.Summary, l.Family, l.Price
	}
	return e, c, true
}

// verify reads a hit again. It is nil if the store does not bear it out: the
// vacant is not there, not listed now, no longer matches, or its card is not
// its own.
func (s *Service) verify(ctx context.Context, q *Query, h Hit, size *atomic.Int64) (*Match, error) {
	g, found, err := s.Registry.Get(ctx, h.ID)
	size.Add(sizeOf(&g))
	if problem.Is(err, problem.Damaged) || problem.Is(err, problem.Untrusted) {
		// One poisoned registration does not stop the search (wire §23 C).
		s.drop(ctx, h, "its registration is damaged")
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !found || g.ID != h.ID {
		s.drop(ctx, h, "it is not registered")
		return nil, nil
	}
	e, c, ok := EntryOf(&g, s.Now())
	if !ok {
		s.drop(ctx, h, "it is not listed now")
		return nil, nil
	}
	rank, ok := q.Match(&e)
	if !ok {
		s.drop(ctx, h, "it does not match now")
		return nil, nil
	}
	if !s.verified.card(&c, &g) {
		s.drop(ctx, h, "its card does not verify")
		return nil, nil
	}
	return &Match{Registration: g, Card: c, Score: e.Score, Rank: rank}, nil
}

// sizeOf is about what a registration takes in the store, in bytes.
func sizeOf(g *registry.Registration) int64 {
	size := len(g.Card)
	for _, text := range g.Declared {
		size += len(text)
	}
	if l := g.Listing; l != nil {
		size += len(l.Summary)
		for _, text := range slices.Concat(l.Tags, l.Skills) {
			size += len(text)
		}
	}
	return int64(size)
}

func (s *Service) drop(ctx context.Context, h Hit, why string) {
	s.Log.DebugContext(ctx, "a hit fell away", "vacant", h.ID, "why", why)
}

// verdicts remembers of which cards the signature verified, so that each is
// computed once.
type verdicts struct {
	mu       sync.Mutex
	new, old map[identity.Hash]bool
}

// keptVerdicts is how many cards one of two generations remembers: some 5 MB.
const keptVerdicts = 1 << 15

func newVerdicts() *verdicts { return &verdicts{new: make(map[identity.Hash]bool)} }

// card reports whether c is what g's owner has signed. The key is the hash of
// the whole blob, signature included: the card's own hash leaves that out.
func (v *verdicts) card(c *card.Card, g *registry.Registration) bool {
	if c.Hash() != g.CardHash {
		return false
	}
	key := identity.Sum(g.Card)
	if good, ok := v.get(key); ok {
		return good
	}
	good := c.Verify()
	v.put(key, good)
	return good
}

func (v *verdicts) get(key identity.Hash) (good, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if good, ok = v.new[key]; ok {
		return good, true
	}
	if good, ok = v.old[key]; ok {
		v.add(key, good)
	}
	return good, ok
}

func (v *verdicts) put(key identity.Hash, good bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.add(key, good)
}

// add forgets the older generation when the newer is full: what is asked for
// moves to the newer, so that what is in use stays.
func (v *verdicts) add(key identity.Hash, good bool) {
	if len(v.new) >= keptVerdicts {
		v.old, v.new = v.new, make(map[identity.Hash]bool)
	}
	v.new[key] = good
}
