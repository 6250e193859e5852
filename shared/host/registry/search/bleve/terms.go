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

	wordKind          = 'w'
	gramKind          = 'g' // three runes inside a word; in scripts without spaces also one and two
	edgeKind          = 'e' // the first one, two or three runes of a word
	stemKind          = 'f'
	letterKind        = 'l' // one rune of a declared text
	tagKind           = 'T'
	familyKind        = 'F'
	claimedFamilyKind = 'C'
)

const (
	gramRunes    = 3
	maxEdgeRunes = 3 // two would leave too many matches to verify
)

// entryTerms shares one value among all terms, because frequencies are not used.
func entryTerms(e *search.Entry) index.TokenFrequencies {
	t, present := make(index.TokenFrequencies, 512), new(index.TokenFreq)
	for g, group := range e.Terms() {
		for _, w := range group {
			t[wordTerm(wordKind, g, w)] = present
			if stem, ok := search.StemOf(w); ok {
				t[wordTerm(stemKind, g, stem)] = present
			}
			for k := 1; k <= maxEdgeRunes; k++ {
				if p := firstRunes(w, k); p != "" {
					t[wordTerm(edgeKind, g, p)] = present
				}
			}
			for k := search.MinInsideRunes(w); k <= gramRunes; k++ {
				forEachGram(w, k, func(s string) { t[wordTerm(gramKind, g, s)] = present })
			}
		}
	}
	for _, text := range e.DeclaredTexts() {
		forEachGram(text, 1, func(s string) { t[string(letterKind)+s] = present })
	}
	for _, s := range e.NormalTags() {
		t[string(tagKind)+s] = present
	}
	for kind, s := range map[rune]string{familyKind: e.Family, claimedFamilyKind: e.ClaimedFamily} {
		if s != "" {
			t[string(kind)+s] = present
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

func forEachGram(s string, k int, fn func(string)) {
	starts := make([]int, 0, len(s)+1)
	for i := range s {
		starts = append(starts, i)
	}
	starts = append(starts, len(s))
	for i := 0; i+k < len(starts); i++ {
		fn(s[starts[i]:starts[i+k]])
	}
}

type lookup struct {
	group int
	word  string
	stem  string
	edge  string
	grams []string
	// isEdgeProof means that the edge proves a match. isGramProof means that the only gram proves a
	// match.
	isEdgeProof, isGramProof bool
}

func wordLookups(w string) (lookups [search.GroupCount]lookup) {
	runes := utf8.RuneCountInString(w)
	stem, hasStem := search.StemOf(w)
	for g := range lookups {
		l := lookup{
			group: g, isEdgeProof: runes <= maxEdgeRunes, isGramProof: runes <= gramRunes,
			word: wordTerm(wordKind, g, w),
			edge: wordTerm(edgeKind, g, firstRunes(w, min(runes, maxEdgeRunes))),
		}
		if hasStem {
			l.stem = wordTerm(stemKind, g, stem)
		}
		if runes >= search.MinInsideRunes(w) {
			forEachGram(w, min(runes, gramRunes), func(s string) { l.grams = append(l.grams, wordTerm(gramKind, g, s)) })
		}
		lookups[g] = l
	}
	return lookups
}

// piece is a part of a word that a declared text must contain. Its grams may be in any group,
// because a word is indexed only in its strongest group.
type piece [search.GroupCount][]string

// substringTerms returns the letters of text and the grams of its words. isCertain is true for a
// single letter, whose term proves a match.
func substringTerms(text string) (letters []string, parts []piece, isCertain bool) {
	forEachGram(text, 1, func(s string) { letters = append(letters, string(letterKind)+s) })
	for _, w := range search.Words(text) {
		var p piece
		for g, l := range wordLookups(w) {
			p[g] = l.grams
		}
		if len(p[0]) > 0 {
			parts = append(parts, p)
		}
	}
	return letters, parts, len(letters) == 1
}
