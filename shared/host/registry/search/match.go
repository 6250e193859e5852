package search

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// texts are an entry's normalised texts.
type texts struct {
	groups   [Groups][]string
	tags     []string
	declared []string
}

func (e *Entry) prepare() texts {
	return texts{groups: e.GroupTexts(), tags: e.NormalTags(), declared: e.Texts()}
}

// Match returns the rank of an entry and whether it matches: the definition
// that every index must implement. Service applies it again to what the store
// has.
func (q *Query) Match(e *Entry) (rank float64, ok bool) {
	t := e.prepare()
	return q.match(e, &t)
}

func (q *Query) match(e *Entry, t *texts) (rank float64, ok bool) {
	if !q.passes(e, t) {
		return 0, false
	}
	points, ok := q.Points(t.groups)
	if !ok {
		return 0, false
	}
	return q.Rank(q.Weight(points, ScoreStep(e.Score))), true
}

// passes applies the filters.
func (q *Query) passes(e *Entry, t *texts) bool {
	for _, tag := range q.Tags() {
		if !slices.Contains(t.tags, tag) {
			return false
		}
	}
	switch {
	case q.Family != "" && e.Family != q.Family,
		q.ClaimedFamily != "" && e.ClaimedFamily != q.ClaimedFamily,
		q.MaxPrice != nil && e.Price > *q.MaxPrice,
		ScoreStep(e.Score) < ScoreStep(q.MinScore):
		return false
	}
	return q.Text == "" || slices.ContainsFunc(t.declared, func(t string) bool { return strings.Contains(t, q.Text) })
}

// Points returns the summed value of q's words in the texts of an entry; ok is
// false if one word has no value.
func (q *Query) Points(texts [Groups][]string) (sum int, ok bool) {
	for _, w := range q.Words {
		best := 0
		for g, group := range texts {
			if k, ok := kindIn(group, w); ok {
				best = max(best, Points(Group(g), k))
			}
		}
		if best == 0 {
			return 0, false
		}
		sum += best
	}
	return sum, true
}

// kindIn returns the best kind in which w matches a word of texts. It cuts only
// texts that contain w into words.
func kindIn(texts []string, w string) (best Kind, ok bool) {
	for _, t := range texts {
		if !strings.Contains(t, w) {
			continue
		}
		for _, term := range Words(t) {
			if k, is := Matches(w, term); is && (!ok || k < best) {
				best, ok = k, true
			}
		}
	}
	return best, ok
}

// Matches returns how a word of a query matches a word of an entry.
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
