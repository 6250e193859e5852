package bleve

import (
	"slices"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
)

// A proof shows whether a match by grams is real. These separators cannot occur in normalised
// texts.
const (
	groupEnd   = "\x1e"
	textEnd    = "\x1f"
	repeatMark = "\x1d" // followed by the index of the same text in the first group
)

// encodeProof stores a text of the first group only once, because declared capabilities often
// repeat the card's capability.
func encodeProof(e *search.Entry) []byte {
	var b strings.Builder
	texts := e.GroupTexts()
	for g, group := range texts {
		for _, t := range group {
			if i := slices.Index(texts[0], t); g > 0 && i >= 0 {
				t = repeatMark + strconv.Itoa(i)
			}
			b.WriteString(t)
			b.WriteString(textEnd)
		}
		b.WriteString(groupEnd)
	}
	return []byte(b.String())
}

// parseProof decodes a proof. For invalid input it returns texts that match fewer queries.
func parseProof(s string) (texts [search.GroupCount][]string) {
	for g := range texts {
		group, rest, _ := strings.Cut(s, groupEnd)
		s = rest
		for t := range strings.SplitSeq(strings.TrimSuffix(group, textEnd), textEnd) {
			if number, ok := strings.CutPrefix(t, repeatMark); ok {
				if i, err := strconv.Atoi(number); err == nil && i >= 0 && i < len(texts[0]) {
					t = texts[0][i]
				}
			}
			texts[g] = append(texts[g], t)
		}
	}
	return texts
}

func matchProof(q *search.Query, s string) (sum int, ok bool) {
	texts := parseProof(s)
	declared := texts[search.GroupClaimed]
	if !slices.ContainsFunc(declared, func(t string) bool { return strings.Contains(t, q.Text) }) && q.Text != "" {
		return 0, false
	}
	return q.Points(texts)
}
