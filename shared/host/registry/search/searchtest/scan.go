package searchtest

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
)

// kindWeights is the table in the documentation of package search, with a row per group of texts
// and a column per kind of match.
var kindWeights = [3][3]float64{{16, 12, 8}, {12, 9, 6}, {8, 6, 4}}

// Scan answers a query by reading every entry. It shares with indexes only the code that normalises
// texts, splits them into words and finds the stem of a word.
func Scan(entries []search.Entry, q search.Query) []search.Hit {
	var hits []search.Hit
	for _, e := range entries {
		rank, ok := rankOf(e, q)
		h := search.Hit{ID: e.ID, Place: search.Place{Rank: rank, FirstSeq: e.FirstSeq}}
		if ok && (q.After == nil || q.After.Before(h.Place)) {
			hits = append(hits, h)
		}
	}
	slices.SortFunc(hits, func(a, b search.Hit) int {
		if a.Before(b.Place) {
			return -1
		}
		return 1
	})
	return hits[:min(len(hits), q.Limit)]
}

func rankOf(e search.Entry, q search.Query) (float64, bool) {
	score := float64(int(e.Score*4096+0.5)) / 4096
	if q.Tag != "" && !slices.Contains(append(normaliseAll(e.Tags), "\x1c"+e.ID.String()[:12]), q.Tag) ||
		q.Category != "" && q.Category != search.Normalise(e.Category) ||
		q.Area != "" && !slices.Contains(normaliseAll(e.Areas), q.Area) ||
		q.Bookable && !e.Bookable ||
		q.Family != "" && q.Family != e.Family ||
		q.ClaimedFamily != "" && q.ClaimedFamily != e.ClaimedFamily ||
		q.MaxPrice != nil && e.Price > *q.MaxPrice ||
		score < q.MinScore ||
		q.Text != "" && !slices.ContainsFunc(normaliseAll(e.DeclaredCapabilities), func(t string) bool { return strings.Contains(t, q.Text) }) {
		return 0, false
	}
	groups := [3][]string{slices.Concat(e.Tags, e.Skills, e.VenueTexts, []string{e.Name, e.Capability}), {e.Summary}, e.DeclaredCapabilities}
	sum, missing := 0.0, 0
	for _, w := range q.Words {
		best := 0.0
		for g, texts := range groups {
			for _, text := range texts {
				best = max(best, bestWeight(text, w, kindWeights[g]))
			}
		}
		if best == 0 {
			missing++
		}
		sum += best
	}
	if missing > 0 && (q.MinWords == 0 || len(q.Words)-missing < q.MinWords) {
		return 0, false
	}
	switch {
	case q.ByScore:
		return score, true
	case len(q.Words) == 0:
		return 0.5 + 0.5*score, true
	}
	return sum / 16 / float64(len(q.Words)) * (0.5 + 0.5*score), true
}

func bestWeight(text, word string, weights [3]float64) (best float64) {
	for _, t := range search.Words(search.Normalise(text)) {
		firstRune, _ := utf8.DecodeRuneInString(word)
		matchesInside := utf8.RuneCountInString(word) >= 3 || search.IsUnspaced(firstRune)
		switch {
		case t == word:
			best = max(best, weights[0])
		case strings.HasPrefix(t, word), hasSameStem(t, word):
			best = max(best, weights[1])
		case matchesInside && strings.Contains(t, word):
			best = max(best, weights[2])
		}
	}
	return best
}

func hasSameStem(a, b string) bool {
	stemA, okA := search.StemOf(a)
	stemB, okB := search.StemOf(b)
	return okA && okB && stemA == stemB
}

func normaliseAll(texts []string) (normalised []string) {
	for _, t := range texts {
		normalised = append(normalised, search.Normalise(t))
	}
	return normalised
}
