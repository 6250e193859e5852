package search

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/english"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/vacancy-host/vacancy/shared/problem"
)

const (
	MaxQueryBytes = 256 // bytes
	MaxWords      = 8
)

// Normalise returns the form in which texts are compared. It is idempotent.
func Normalise(s string) string {
	if isASCII(s) {
		return collapseSpaces(strings.ToLower(s))
	}
	// Folding can create characters that NFKC changes, and NFKC can create characters that fold.
	for range 3 {
		n := norm.NFKC.String(foldCase(norm.NFKC.String(removeInvisible(s))))
		if n == s {
			break
		}
		s = n
	}
	return collapseSpaces(s)
}

// foldCase folds Cherokee to uppercase letters, as Unicode does. x/text folds them to lowercase, so
// a second folding would undo the first.
func foldCase(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 0xab70 && r <= 0xabbf:
			return r - 0xab70 + 0x13a0
		case r >= 0x13f8 && r <= 0x13fd:
			return r - 0x13f8 + 0x13f0
		}
		return r
	}, cases.Fold().String(s))
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func isCollapsedASCII(s string) bool {
	previous := byte(' ')
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c >= 0x7f || c == ' ' && previous == ' ' {
			return false
		}
		previous = c
	}
	return previous != ' '
}

func collapseSpaces(s string) string {
	if isCollapsedASCII(s) {
		return s
	}
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
}

func removeInvisible(s string) string {
	// A word must not be hidden behind invisible characters.
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Variation_Selector, r) {
			return -1
		}
		return r
	}, s)
}

type class int

const (
	classSeparator class = iota
	classSpaced          // letters and digits of scripts with spaces
	classUnspaced
	classMark   // marks, which belong to the rune before them
	classSuffix // + and #, which may end a word
	classSymbol // symbols, each of which is a word
)

func classify(r rune) class {
	switch {
	case r < utf8.RuneSelf:
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r >= 'A' && r <= 'Z':
			return classSpaced
		case r == '+', r == '#':
			return classSuffix
		}
		return classSeparator
	case unicode.IsMark(r):
		return classMark
	case IsUnspaced(r):
		return classUnspaced
	case unicode.IsLetter(r), unicode.IsNumber(r):
		return classSpaced
	case unicode.Is(unicode.So, r):
		return classSymbol
	}
	return classSeparator
}

func IsUnspaced(r rune) bool {
	return r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul,
		unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) && !unicode.IsMark(r)
}

func Words(s string) []string {
	var (
		words     []string
		start     = -1
		wordClass class
		inSuffix  bool
	)
	endWord := func(offset int) {
		if start >= 0 {
			words = append(words, s[start:offset])
		}
		start, inSuffix = -1, false
	}
	for i, r := range s {
		c := classify(r)
		if start >= 0 && !continuesWord(wordClass, c, inSuffix) {
			endWord(i)
		}
		switch {
		case start >= 0:
			inSuffix = c == classSuffix
		case c == classSpaced, c == classUnspaced, c == classSymbol:
			start, wordClass = i, c
		}
	}
	endWord(len(s))
	return words
}

func continuesWord(wordClass, next class, inSuffix bool) bool {
	switch next {
	case classMark:
		return !inSuffix
	case classSuffix:
		return wordClass == classSpaced
	}
	return next == wordClass && wordClass != classSymbol && !inSuffix
}

// stopWords is sorted.
var stopWords = strings.Fields("a an and are as at be but by can do for from has have how i if in into is it me my no not of on or our " +
	"such that the their then there these they this to was we what which who will with you your")

func isStopWord(word string) bool {
	_, ok := slices.BinarySearch(stopWords, word)
	return ok
}

// StemOf returns the stem that all forms of an English word share, for example "translat" for
// translates and translation.
func StemOf(word string) (stem string, ok bool) {
	if len(word) < minStem || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") != "" {
		return "", false
	}
	env := snowballstem.NewEnv(word)
	english.Stem(env)
	stem = env.Current()
	return stem, len(stem) >= minStem && strings.HasPrefix(word, stemPrefix(stem))
}

const minStem = 3

// stemPrefix omits the last letter of the stem, which may change, as in happy and happiness.
func stemPrefix(stem string) string { return stem[:len(stem)-1] }

// ParseWords returns the words of a query that must match. It omits English stop words unless the
// query has no other words.
func ParseWords(q string) ([]string, error) {
	text, err := ParseText(q)
	if err != nil {
		return nil, err
	}
	words := Words(text)
	if contentWords := slices.DeleteFunc(slices.Clone(words), isStopWord); len(contentWords) > 0 {
		words = contentWords
	}
	if len(words) > MaxWords {
		return nil, problem.Invalid("q", fmt.Sprintf("at most %d words", MaxWords), fmt.Sprint(len(words)))
	}
	return words, nil
}

func ParseText(q string) (string, error) {
	if len(q) > MaxQueryBytes {
		return "", problem.Invalid("q", fmt.Sprintf("at most %d bytes", MaxQueryBytes), fmt.Sprint(len(q)))
	}
	if !utf8.ValidString(q) {
		return "", problem.Invalid("q", "UTF-8", "other bytes")
	}
	return Normalise(q), nil
}

// MinInsideRunes returns the minimum length of a word that may match inside another word. Shorter
// words would match almost all entries.
func MinInsideRunes(word string) int {
	if r, _ := utf8.DecodeRuneInString(word); IsUnspaced(r) {
		return 1
	}
	return 3
}
