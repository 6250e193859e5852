package discovery

import (
	"cmp"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
)

// PromptMatch is a match and how well it fits a prompt.
type PromptMatch struct {
	Match
	Fit         float64
	Rating      float64
	SharedWords []string
}

// Limits of a prompt. Further words are ignored.
const (
	maxPromptBytes = 16 << 10
	maxPromptWords = 256
)

// RankByPrompt sorts matches by how well they fit a prompt, which does not leave this machine. Rare
// words weigh more than frequent words.
func RankByPrompt(prompt string, p Policy, matches []Match) []PromptMatch {
	if p == nil {
		p = ByUCB
	}
	words := promptWords(prompt)
	terms := make([]search.Terms, len(matches))
	for i := range matches {
		e := matches[i].searchEntry(i + 1)
		terms[i] = e.Terms()
	}
	values := make([][]float64, len(words))
	weights := make([]float64, len(words))
	var totalWeight float64
	for w, word := range words {
		values[w] = make([]float64, len(matches))
		matchCount := 0
		for i := range matches {
			if values[w][i] = wordValue(word, &terms[i]); values[w][i] > 0 {
				matchCount++
			}
		}
		if matchCount > 0 {
			weights[w] = math.Log(1 + float64(len(matches))/float64(matchCount))
			totalWeight += weights[w]
		}
	}
	var ranked []PromptMatch
	for i := range matches {
		promptMatch := PromptMatch{Match: matches[i]}
		var wordIndexes []int
		for w := range words {
			if values[w][i] > 0 {
				promptMatch.Fit += weights[w] * values[w][i] / totalWeight
				wordIndexes = append(wordIndexes, w)
			}
		}
		if len(wordIndexes) == 0 {
			continue
		}
		slices.SortStableFunc(wordIndexes, func(a, b int) int { return cmp.Compare(weights[b]*values[b][i], weights[a]*values[a][i]) })
		for _, w := range wordIndexes {
			promptMatch.SharedWords = append(promptMatch.SharedWords, words[w])
		}
		promptMatch.Rating = promptMatch.Fit * (0.5 + 0.5*min(p(&promptMatch.Match, len(matches)), 1))
		ranked = append(ranked, promptMatch)
	}
	slices.SortStableFunc(ranked, func(a, b PromptMatch) int {
		return cmp.Or(outdatedRank(a.Match)-outdatedRank(b.Match), cmp.Compare(b.Rating, a.Rating))
	})
	return ranked
}

func promptWords(prompt string) []string {
	if len(prompt) > maxPromptBytes {
		prompt = prompt[:maxPromptBytes]
	}
	seen := map[string]bool{}
	var out []string
	add := func(w string) {
		if !seen[w] && len(out) < maxPromptWords {
			seen[w] = true
			out = append(out, w)
		}
	}
	for _, w := range search.Words(search.Normalise(prompt)) {
		r := []rune(w)
		if !search.IsUnspaced(r[0]) || len(r) < 3 { // scripts without spaces are split into pairs of characters
			add(w)
			continue
		}
		for i := range len(r) - 1 {
			add(string(r[i : i+2]))
		}
	}
	return out
}

func wordValue(word string, terms *search.Terms) (best float64) {
	for group := range terms {
		for _, term := range terms[group] {
			points := 0.0
			switch k, ok := search.MatchKind(word, term); {
			case ok && (k != search.KindInside || search.MinInsideRunes(word) == 1) && utf8.RuneCountInString(word) >= search.MinInsideRunes(word), ok && k == search.KindExact:
				points = float64(search.MatchPoints(search.Group(group), k))
			case sameStem(word, term):
				points = float64(search.MatchPoints(search.Group(group), search.KindPrefix)) / 2
			}
			best = max(best, points/search.MaxPoints)
		}
	}
	return best
}

const minStemRunes = 5

func sameStem(a, b string) bool {
	x, y := []rune(a), []rune(b)
	n := 0
	for n < min(len(x), len(y)) && x[n] == y[n] {
		n++
	}
	return n >= minStemRunes && 3*n >= 2*max(len(x), len(y))
}
