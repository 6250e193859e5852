package search

import (
	"slices"
	"strings"
	"unicode/utf8"
)

type normalTexts struct {
	groups   [GroupCount][]string
	tags     []string
	declared []string
}

func (e *Entry) buildTexts() normalTexts {
	return normalTexts{groups: e.GroupTexts(), tags: e.NormalTags(), declared: e.DeclaredTexts()}
}

// Match returns the rank of an entry and whether it matches q. Every index must give the same
// result.
func (q *Query) Match(e *Entry) (rank float64, ok bool) {
	t := e.buildTexts()
	return q.matchTexts(e, &t)
}

func (q *Query) matchTexts(e *Entry, t *normalTexts) (rank float64, ok bool) {
	if !q.passesFilters(e, t) {
		return 0, false
	}
	points, ok := q.Points(t.groups)
	if !ok {
		return 0, false
	}
	return q.Rank(q.Weight(points, ScoreStep(e.Score))), true
}

func (q *Query) passesFilters(e *Entry, t *normalTexts) bool {
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

// Points returns the points of q's words in the texts of an entry. ok is false if too few words
// match.
func (q *Query) Points(texts [GroupCount][]string) (sum int, ok bool) {
	missesLeft := len(q.Words) - q.RequiredWords()
	for _, w := range q.queryWords() {
		points := w.points(&texts)
		if points == 0 {
			missesLeft--
		}
		if missesLeft < 0 {
			return 0, false
		}
		sum += points
	}
	return sum, true
}

func (q *Query) missingWords(texts *[GroupCount][]string) (words []string) {
	for _, w := range q.queryWords() {
		if w.points(texts) == 0 {
			words = append(words, w.word)
		}
	}
	return words
}

func (q Query) WithStems() Query {
	q.cachedWords = q.queryWords()
	return q
}

func (q *Query) queryWords() []queryWord {
	if q.cachedWords != nil {
		return q.cachedWords
	}
	words := make([]queryWord, len(q.Words))
	for i, w := range q.Words {
		words[i] = newQueryWord(w)
	}
	return words
}

type queryWord struct{ word, stem string }

func newQueryWord(word string) queryWord {
	stem, ok := StemOf(word)
	if !ok {
		stem = ""
	}
	return queryWord{word, stem}
}

func (w queryWord) points(texts *[GroupCount][]string) (best int) {
	for g, group := range texts {
		if best >= MatchPoints(Group(g), KindExact) {
			break // weaker groups give fewer points
		}
		if k, ok := w.bestKind(group); ok {
			best = max(best, MatchPoints(Group(g), k))
		}
	}
	return best
}

func (w queryWord) bestKind(texts []string) (best Kind, ok bool) {
	for _, t := range texts {
		if !strings.Contains(t, w.word) && (w.stem == "" || !strings.Contains(t, stemPrefix(w.stem))) {
			continue
		}
		for _, term := range Words(t) {
			if k, matched := w.matches(term); matched && (!ok || k < best) {
				best, ok = k, true
			}
			if ok && best == KindExact {
				return best, ok
			}
		}
	}
	return best, ok
}

func MatchKind(word, term string) (Kind, bool) { return newQueryWord(word).matches(term) }

func (w queryWord) matches(term string) (Kind, bool) {
	word := w.word
	switch {
	case word == term:
		return KindExact, true
	case strings.HasPrefix(term, word), w.hasSameStem(term):
		return KindPrefix, true
	case utf8.RuneCountInString(word) >= MinInsideRunes(word) && strings.Contains(term, word):
		return KindInside, true
	}
	return 0, false
}

func (w queryWord) hasSameStem(term string) bool {
	if w.stem == "" || !strings.HasPrefix(term, stemPrefix(w.stem)) {
		return false
	}
	termStem, ok := StemOf(term)
	return ok && termStem == w.stem
}
