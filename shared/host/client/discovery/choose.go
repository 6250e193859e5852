package discovery

import (
	"cmp"
	"slices"

	"github.com/vacancy-host/vacancy/shared/trust/reputation"
)

// Policy rates a match; among is the number of matches that the search found.
type Policy func(m *Match, among int) float64

// ByUCB returns the upper confidence bound of the vacant's reputation, weighted by the relevance.
// It prefers proven vacants and gives new ones a chance.
func ByUCB(m *Match, matchCount int) float64 {
	// CappedUCB returns errors only for invalid weights.
	v, _ := reputation.CappedUCB(m.reputationState(), nil, matchCount)
	if m.Rank > 0 {
		v *= 0.5 + 0.5*m.relevance()
	}
	return v
}

func (m *Match) reputationState() *reputation.State {
	if m.Reputation == nil && m.Score > 0 {
		return assumedState(m.Score)
	}
	return m.Reputation
}

func (m *Match) relevance() float64 { return min(m.Rank/(0.5+0.5*m.Score), 1) }

// Reasons contains the values behind a rating by ByUCB.
type Reasons struct {
	Relevance   float64 `json:"relevance"`
	Score       float64 `json:"score"`
	Evidence    float64 `json:"evidence"`
	Exploration float64 `json:"exploration"`
}

func ExplainRating(m *Match, matchCount int) Reasons {
	return Reasons{m.relevance(), m.Score, m.reputationState().Evidence(), m.reputationState().CappedExploration(matchCount)}
}

const assumedReviews = 10

func assumedState(score float64) *reputation.State {
	var s reputation.State
	goodReviews := min(max((score*(assumedReviews+2)-1)/assumedReviews, 0), 1) * assumedReviews
	p := reputation.Posterior{Alpha: 1 + goodReviews, Beta: 1 + assumedReviews - goodReviews, Alpha0: 1, Beta0: 1, Evidence: assumedReviews, HalfLifeDays: 90}
	s.Factual, s.Logical, s.Relevance = p, p, p
	s.Honesty = reputation.Posterior{Alpha: 2, Beta: 1, Alpha0: 2, Beta0: 1, HalfLifeDays: 30}
	s.Adoption = reputation.Posterior{Alpha: 1, Beta: 3, Alpha0: 1, Beta0: 3, HalfLifeDays: 90}
	return &s
}

// ByScore returns the mean of the reputation's dimensions, like the reference.
func ByScore(m *Match, _ int) float64 {
	if m.Reputation != nil {
		return m.Reputation.Score()
	}
	return m.Score
}

type Choice struct {
	Match
	Rating float64
}

func RateMatches(p Policy, matches []Match) []Choice {
	if p == nil {
		p = ByUCB
	}
	out := make([]Choice, len(matches))
	for i := range matches {
		out[i] = Choice{matches[i], p(&matches[i], len(matches))}
	}
	// Outdated cards come last, because their endpoints may belong to another party now.
	slices.SortStableFunc(out, func(a, b Choice) int {
		return cmp.Or(outdatedRank(a.Match)-outdatedRank(b.Match), cmp.Compare(b.Rating, a.Rating))
	})
	return out
}

func outdatedRank(m Match) int {
	if m.Freshness == Outdated {
		return 1
	}
	return 0
}
