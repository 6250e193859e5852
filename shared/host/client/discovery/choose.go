package discovery

import (
	"cmp"
	"slices"

	"github.com/vacancy-host/vacancy/shared/trust/reputation"
)

// Policy rates a match among the matches of a search. Of equal ratings the
// first in search order is chosen.
type Policy func(m *Match, among int) float64

// ByUCB is the default Policy: the capped upper confidence bound of a vacant's
// reputation, so that proven vacants are preferred and new ones get a chance,
// times (0.5 + 0.5 × relevance) if the registry reports relevance. Without that
// factor a card that mentions every word would equal one made for the task.
func ByUCB(m *Match, among int) float64 {
	s := m.Reputation
	if s == nil && m.Score > 0 {
		s = assumed(m.Score)
	}
	// Without weights there is no error.
	v, _ := reputation.CappedUCB(s, nil, among)
	if m.Rank > 0 {
		v *= 0.5 + 0.5*min(m.Rank/(0.5+0.5*m.Score), 1)
	}
	return v
}

// assumedReviews is the number of reviews that a bare score is assumed to rest
// on, if a registry reports nothing else: few enough to leave the score in
// doubt, many enough to distinguish it from an untried vacant.
const assumedReviews = 10

// assumed returns a state whose score is nearest to score.
func assumed(score float64) *reputation.State {
	var s reputation.State
	good := min(max((score*(assumedReviews+2)-1)/assumedReviews, 0), 1) * assumedReviews
	p := reputation.Posterior{Alpha: 1 + good, Beta: 1 + assumedReviews - good, Alpha0: 1, Beta0: 1, Evidence: assumedReviews, HalfLife: 90}
	s.Factual, s.Logical, s.Relevance = p, p, p
	s.Honesty = reputation.Posterior{Alpha: 2, Beta: 1, Alpha0: 2, Beta0: 1, HalfLife: 30}
	s.Adoption = reputation.Posterior{Alpha: 1, Beta: 3, Alpha0: 1, Beta0: 3, HalfLife: 90}
	return &s
}

// ByScore is the reference's Policy: the mean of all five dimensions, or of the
// three that a registry reports; 0 without reviews.
func ByScore(m *Match, _ int) float64 {
	if m.Reputation != nil {
		return m.Reputation.Score()
	}
	return m.Score
}

// Choice is a match and its rating.
type Choice struct {
	Match
	Value float64
}

// Choose orders matches, best first. Outdated cards come last: their endpoint
// may belong to somebody else by now.
func Choose(p Policy, matches []Match) []Choice {
	if p == nil {
		p = ByUCB
	}
	out := make([]Choice, len(matches))
	for i := range matches {
		out[i] = Choice{matches[i], p(&matches[i], len(matches))}
	}
	slices.SortStableFunc(out, func(a, b Choice) int {
		return cmp.Or(outdated(a.Match)-outdated(b.Match), cmp.Compare(b.Value, a.Value))
	})
	return out
}

func outdated(m Match) int {
	if m.Freshness == Outdated {
		return 1
	}
	return 0
}
