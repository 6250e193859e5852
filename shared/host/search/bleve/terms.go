package bleve

import (
	"strings"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/host/search"
)

// All terms of a document are in one field, so that a segment has one
// dictionary. The first byte says what a term is; of the first two kinds the
// second byte is the group.
const (
	termField = "t"

	word    = 'w' // a word
	gram    = 'g' // one to three runes that a word has inside
	edge    = 'e' // the first one, two or three runes of a word
	piece   = 'p' // one to three runes of a declared text
	tag     = 'T'
	family  = 'F'
	claimed = 'C'
)

// n is the runes of the longest gram.
const n = 3

// terms gives the terms of an entry, each once.
func terms(e *search.Entry, words *search.Terms) map[string]bool {
	t := make(map[string]bool)
	for g, group := range words {
		for _, w := range group {
			t[wordTerm(word, g, w)] = true
			for k := 1; k <= n; k++ {
				if p := firstRunes(w, k); p != "" {
					t[wordTerm(edge, g, p)] = true
				}
			}
			for k := search.Short(w); k <= n; k++ {
				grams(w, k, func(s string) { t[wordTerm(gram, g, s)] = true })
			}
		}
	}
	for _, text := range e.Texts() {
		for k := 1; k <= n; k++ {
			grams(text, k, func(s string) { t[string(piece)+s] = true })
		}
	}
	for _, s := range e.NormalTags() {
		t[string(tag)+s] = true
	}
	for kind, s := range map[rune]string{family: e.Family, claimed: e.ClaimedFamily} {
		if s != "" {
			t[string(kind)+s] = true
		}
	}
	return t
}

func wordTerm(kind byte, group int, s string) string {
	return string([]byte{kind, '0' + byte(group)}) + s
}

// firstRunes is the first k runes of s; "" if it has fewer.
func firstRunes(s string, k int) string {
	for i := range s {
		if k == 0 {
			return s[:i]
		}
		k--
	}
	if k == 0 {
		return s
	}
	return ""
}

// grams calls fn with each run of k runes of s.
func grams(s string, k int, fn func(string)) {
	starts := make([]int, 0, len(s)+1)
	for i := range s {
		starts = append(starts, i)
	}
	starts = append(starts, len(s))
	for i := 0; i+k < len(starts); i++ {
		fn(s[starts[i]:starts[i+k]])
	}
}

// look says which terms show the documents that one word may match in one
// group. Documents with all grams may have the word inside, and those that have
// the edge besides may have a word that begins with it. Both is certain for
// words that are no longer than a gram.
type look struct {
	group   int
	word    string
	edge    string
	grams   []string // empty if too short to match inside a word
	certain bool
}

// looks gives what to look up for a word, by group.
func looks(w string) (all [search.Groups]look) {
	runes := utf8.RuneCountInString(w)
	for g := range all {
		l := look{
			group: g, certain: runes <= n,
			word: wordTerm(word, g, w),
			edge: wordTerm(edge, g, firstRunes(w, min(runes, n))),
		}
		if runes >= search.Short(w) {
			grams(w, min(runes, n), func(s string) { l.grams = append(l.grams, wordTerm(gram, g, s)) })
		}
		all[g] = l
	}
	return all
}

// pieces gives the terms of a part of a declared text; they are certain if
// there is only one.
func pieces(text string) (terms []string, certain bool) {
	runes := utf8.RuneCountInString(text)
	grams(text, min(runes, n), func(s string) { terms = append(terms, string(piece)+s) })
	return terms, runes <= n
}

// proof is what is kept of an entry to see whether grams told the truth: a line
// for each group with its words between spaces, then the declared texts. Words
// and texts have no line break in them.
func proof(words *search.Terms, texts []string) []byte {
	var b strings.Builder
	for _, group := range words {
		b.WriteByte(' ')
		for _, w := range group {
			b.WriteString(w)
			b.WriteByte(' ')
		}
		b.WriteByte('\n')
	}
	b.WriteString(strings.Join(texts, "\n"))
	return []byte(b.String())
}

// proved asks a proof for the points of a query; ok is false if it does not
// match.
func proved(q *search.Query, proof string) (sum int, ok bool) {
	var lines [search.Groups]string
	for g := range lines {
		lines[g], proof, _ = strings.Cut(proof, "\n")
	}
	if !strings.Contains(proof, q.Text) {
		return 0, false
	}
	for _, w := range q.Words {
		best := 0
		for g, line := range lines {
			if k, ok := kindIn(line, w); ok {
				best = max(best, search.Points(search.Group(g), k))
			}
		}
		if best == 0 {
			return 0, false
		}
		sum += best
	}
	return sum, true
}

// kindIn gives the best way in which w matches a word of a line.
func kindIn(line, w string) (search.Kind, bool) {
	switch {
	case strings.Contains(line, " "+w+" "):
		return search.Exact, true
	case strings.Contains(line, " "+w):
		return search.Prefix, true
	case utf8.RuneCountInString(w) >= search.Short(w) && strings.Contains(line, w):
		return search.Inside, true
	}
	return 0, false
}
