package bleve

import (
	"unicode/utf8"

	index "github.com/blevesearch/bleve_index_api"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
)

// All terms of a document are in one field, so that a segment has one dictionary. The first byte of
// a term is its kind. In the terms of words, grams, edges and stems, the second byte is the group.
const (
	termField = "t"

	word    = 'w' // complete word
	gram    = 'g' // three runes inside a word; in scripts without spaces also one and two
	edge    = 'e' // the first one, two or three runes of a word
	form    = 'f' // stem of a word
	letter  = 'l' // one rune of a declared text
	tag     = 'T'
	family  = 'F'
	claimed = 'C'
)

const (
	n     = 3
	edges = 3 // maximum runes of an edge; a maximum of two would leave too many matches in doubt
)

// terms returns the terms of an entry. Frequencies are not used, so all terms share one immutable
// value.
func terms(e *search.Entry) index.TokenFrequencies {
	t, there := make(index.TokenFrequencies, 512), new(index.TokenFreq)
	for g, group := range e.Terms() {
		for _, w := range group {
			t[wordTerm(word, g, w)] = there
			if f, ok := search.StemOf(w); ok {
				t[wordTerm(form, g, f)] = there
			}
			for k := 1; k <= edges; k++ {
				if p := firstRunes(w, k); p != "" {
					t[wordTerm(edge, g, p)] = there
				}
			}
			for k := search.MinInsideRunes(w); k <= n; k++ {
				grams(w, k, func(s string) { t[wordTerm(gram, g, s)] = there })
			}
		}
	}
	for _, text := range e.Texts() {
		grams(text, 1, func(s string) { t[string(letter)+s] = there })
	}
	for _, s := range e.NormalTags() {
		t[string(tag)+s] = there
	}
	for kind, s := range map[rune]string{family: e.Family, claimed: e.ClaimedFamily} {
		if s != "" {
			t[string(kind)+s] = there
		}
	}
	return t
}

func wordTerm(kind byte, group int, s string) string {
	return string([]byte{kind, '0' + byte(group)}) + s
}

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

// lookup contains the terms that find possible matches of a word in one group. A document with all
// grams may contain the word. A document that also has the edge may have a word that starts with
// it.
type lookup struct {
	group int
	word  string
	form  string // empty if the word has no other form
	edge  string
	grams []string // empty if the word is too short to match inside another word
	// begins means that the edge proves a match, and inside that the single gram does.
	begins, inside bool
}

func looks(w string) (groupLooks [search.Groups]lookup) {
	runes := utf8.RuneCountInString(w)
	f, hasForm := search.StemOf(w)
	for g := range groupLooks {
		l := lookup{
			group: g, begins: runes <= edges, inside: runes <= n,
			word: wordTerm(word, g, w),
			edge: wordTerm(edge, g, firstRunes(w, min(runes, edges))),
		}
		if hasForm {
			l.form = wordTerm(form, g, f)
		}
		if runes >= search.MinInsideRunes(w) {
			grams(w, min(runes, n), func(s string) { l.grams = append(l.grams, wordTerm(gram, g, s)) })
		}
		groupLooks[g] = l
	}
	return groupLooks
}

// piece is a part of a word that a declared text must contain. Its grams may be in any group,
// because a word is indexed only in its strongest group.
type piece [search.Groups][]string

// pieces returns the terms for a substring of a declared text: its letters and the grams of its
// words. certain is true for a single letter, whose term proves a match.
func pieces(text string) (letters []string, parts []piece, certain bool) {
	grams(text, 1, func(s string) { letters = append(letters, string(letter)+s) })
	for _, w := range search.Words(text) {
		var p piece
		for g, l := range looks(w) {
			p[g] = l.grams
		}
		if len(p[0]) > 0 {
			parts = append(parts, p)
		}
	}
	return letters, parts, len(letters) == 1
}
