package bleve

import (
	"slices"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
)

// A proof is what is kept of an entry to see whether grams told the truth: the
// texts of its groups. Normalised texts have no control characters.
const (
	groupEnd = "\x1e"
	textEnd  = "\x1f"
	again    = "\x1d" // and the number of the same text in the first group
)

// proof gives the proof of an entry. What is declared mostly repeats the
// capability, which is kept once.
func proof(e *search.Entry) []byte {
	var b strings.Builder
	texts := e.GroupTexts()
	for g, group := range texts {
		for _, t := range group {
			if i := slices.Index(texts[0], t); g > 0 && i >= 0 {
				t = again + strconv.Itoa(i)
			}
			b.WriteString(t)
			b.WriteString(textEnd)
		}
		b.WriteString(groupEnd)
	}
	return []byte(b.String())
}

// parseProof reads what proof wrote; what it did not write gives texts that
// match less.
func parseProof(s string) (texts [search.Groups][]string) {
	for g := range texts {
		group, rest, _ := strings.Cut(s, groupEnd)
		s = rest
		for t := range strings.SplitSeq(strings.TrimSuffix(group, textEnd), textEnd) {
			if number, ok := strings.CutPrefix(t, again); ok {
				if i, err := strconv.Atoi(number); err == nil && i >= 0 && i < len(texts[0]) {
					t = texts[0][i]
				}
			}
			texts[g] = append(texts[g], t)
		}
	}
	return texts
}

// proved asks a proof for the points of a query; ok is false if it does not
// match.
func proved(q *search.Query, s string) (sum int, ok bool) {
	texts := parseProof(s)
	declared := texts[search.Claimed]
	if !slices.ContainsFunc(declared, func(t string) bool { return strings.Contains(t, q.Text) }) && q.Text != "" {
		return 0, false
	}
	return q.Points(texts)
}
