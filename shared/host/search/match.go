package search

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Match gives the rank of an entry and whether it matches: what every index
// has to compute, said plainly. Service asks it again of what the store has.
func (q *Query) Match(e *Entry) (rank float64, ok bool) {
	if !q.passes(e) {
		return 0, false
	}
	points, ok := q.points(e)
	if !ok {
		return 0, false
	}
	return q.Rank(q.Weight(points, ScoreStep(e.Score))), true
}

// passes asks the filters.
func (q *Query) passes(e *Entry) bool {
	switch {
	case q.Tag != "" && !slices.Contains(e.NormalTags(), q.Tag),
		q.Family != "" && e.Family != q.Family,
		q.ClaimedFamily != "" && e.ClaimedFamily != q.ClaimedFamily,
		q.MaxPrice != nil && e.Price > *q.MaxPrice,
		ScoreStep(e.Score) < ScoreStep(q.MinScore):
		return false
	}
	return q.Text == "" || slices.ContainsFunc(e.Texts(), func(t string) bool { return strings.Contains(t, q.Text) })
}

func (q *Query) points(e *Entry) (sum int, ok bool) {
	if len(q.Words) == 0 {
		return 0, true
	}
	terms := e.Terms()
	for _, word := range q.Words {
		best := 0
		for g := range terms {
			for _, term := range terms[g] {
				if k, ok := Matches(word, term); ok {
					best = max(best, Points(Group(g), k))
				}
			}
		}
		if best == 0 {
			return 0, false
		}
		sum += best
	}
	return sum, true
}

// Matches tells how a word of a query matches a word of an entry.
func Matches(word, term string) (Kind, bool) {
	switch {
	case word == term:
		return Exact, true
	case strings.HasPrefix(term, word):
		return Prefix, true
	case utf8.RuneCountInString(word) >= Short(word) && strings.Contains(term, word):
		return Inside, true
	}
	return 0, false
}
