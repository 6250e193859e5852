package searchtest

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
)

// worth is the table in the documentation of package search, with a row per group of texts and a
// column per kind of match.
var worth = [3][3]float64{{16, 12, 8}, {12, 9, 6}, {8, 6, 4}}

// Scan answers a query by reading every entry. It is slow. It shares with indexes only the code
// that normalises texts, splits them into words and finds the stem of a word.
func Scan(entries []search.Entry, q search.Query) []search.Hit {
	var hits []search.Hit
	for _, e := range entries {
		rank, ok := rankOf(e, q)
		h := search.Hit{ID: e.ID, Place: search.Place{Rank: rank, Joined: e.Joined}}
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
	if q.Tag != "" && !slices.Contains(append(normal(e.Tags), "\x1c"+e.ID.String()[:12]), q.Tag) ||
		q.Category != "" && q.Category != search.Normalise(e.Category) ||
		q.Area != "" && !slices.Contains(normal(e.Areas), q.Area) ||
		q.Bookable && !e.Bookable ||
		q.Family != "" && q.Family != e.Family ||
		q.ClaimedFamily != "" && q.ClaimedFamily != e.ClaimedFamily ||
		q.MaxPrice != nil && e.Price > *q.MaxPrice ||
		score < q.MinScore ||
		q.Text != "" && !slices.ContainsFunc(normal(e.Declared), func(t string) bool { return strings.Contains(t, q.Text) }) {
		return 0, false
	}
	groups := [3][]string{slices.Concat(e.Tags, e.Skills, e.VenueTexts, []string{e.Name, e.Capability}), {e.Summary}, e.Declared}
	sum, missing := 0.0, 0
	for _, w := range q.Words {
		best := 0.0
		for g, texts := range groups {
			for _, text := range texts {
				best = max(best, bestIn(text, w, worth[g]))
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

func bestIn(text, w string, worth [3]float64) (best float64) {
	for _, t := range search.Words(search.Normalise(text)) {
		first, _ := utf8.DecodeRuneInString(w)
		long := utf8.RuneCountInString(w) >= 3 || search.IsUnspaced(first)
		switch {
		case t == w:
			best = max(best, worth[0])
		case strings.HasPrefix(t, w), sameForm(t, w):
			best = max(best, worth[1])
		case long && strings.Contains(t, w):
			best = max(best, worth[2])
		}
	}
	return best
}

func sameForm(a, b string) bool {
	form, ok := search.StemOf(a)
	other, also := search.StemOf(b)
	return ok && also && form == other
}

func normal(texts []string) (normalTexts []string) {
	for _, t := range texts {
		normalTexts = append(normalTexts, search.Normalise(t))
	}
	return normalTexts
}
