package search

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// texts contains the normalised texts of an entry.
type texts struct {
	groups   [Groups][]string
	tags     []string
	declared []string
}

func (e *Entry) prepare() texts {
	return texts{groups: e.GroupTexts(), tags: e.NormalTags(), declared: e.Texts()}
}

// Match returns the rank of an entry and whether it matches q. It is the definition that every
// index must implement. Service applies it again to the stored registration.
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

// Points returns the sum of the points of q's words in the texts of an entry. ok is false if fewer
// words match than q needs.
func (q *Query) Points(texts [Groups][]string) (sum int, ok bool) {
	lacking := len(q.Words) - q.RequiredWords()
	for _, w := range q.soughtWords() {
		points := w.points(&texts)
		if points == 0 {
			lacking--
		}
		if lacking < 0 {
			return 0, false
		}
		sum += points
	}
	return sum, true
}

func (q *Query) missingWords(texts *[Groups][]string) (words []string) {
	for _, w := range q.soughtWords() {
		if w.points(texts) == 0 {
			words = append(words, w.word)
		}
	}
	return words
}

func (q Query) WithSoughtWords() Query {
	q.sought = q.soughtWords()
	return q
}

func (q *Query) soughtWords() []sought {
	if q.sought != nil {
		return q.sought
	}
	words := make([]sought, len(q.Words))
	for i, w := range q.Words {
		words[i] = newSought(w)
	}
	return words
}

// sought is a word of a query together with its stem, which is "" if the word has no other forms.
type sought struct{ word, form string }

func newSought(word string) sought {
	form, ok := StemOf(word)
	if !ok {
		form = ""
	}
	return sought{word, form}
}

func (w sought) points(texts *[Groups][]string) (best int) {
	for g, group := range texts {
		if best >= Points(Group(g), Exact) {
			break // weaker groups give fewer points
		}
		if k, ok := w.kindIn(group); ok {
			best = max(best, Points(Group(g), k))
		}
	}
	return best
}

func (w sought) kindIn(texts []string) (best Kind, ok bool) {
	// Texts are cut into words only if they may contain a match.
	for _, t := range texts {
		if !strings.Contains(t, w.word) && (w.form == "" || !strings.Contains(t, formPrefix(w.form))) {
			continue
		}
		for _, term := range Words(t) {
			if k, is := w.matches(term); is && (!ok || k < best) {
				best, ok = k, true
			}
			if ok && best == Exact {
				return best, ok
			}
		}
	}
	return best, ok
}

func MatchKind(word, term string) (Kind, bool) { return newSought(word).matches(term) }

func (w sought) matches(term string) (Kind, bool) {
	word := w.word
	switch {
	case word == term:
		return Exact, true
	case strings.HasPrefix(term, word), w.isForm(term):
		return Prefix, true
	case utf8.RuneCountInString(word) >= MinInsideRunes(word) && strings.Contains(term, word):
		return KindInside, true
	}
	return 0, false
}

func (w sought) isForm(term string) bool {
	if w.form == "" || !strings.HasPrefix(term, formPrefix(w.form)) {
		return false
	}
	form, ok := StemOf(term)
	return ok && form == w.form
}
