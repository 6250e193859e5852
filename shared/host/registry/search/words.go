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
	MaxQuery = 256 // bytes
	MaxWords = 8
)

// Normalise returns the form in which texts are compared. It folds compatibility forms and case,
// removes format characters (for example for the writing direction), and replaces each run of
// spaces and control characters by one space. It removes spaces at both ends. Normalise is
// idempotent.
func Normalise(s string) string {
	if ascii(s) {
		return fold(strings.ToLower(s))
	}
	// Folding can create characters that compose, and composing can create characters that fold.
	for range 3 {
		n := norm.NFKC.String(foldCase(norm.NFKC.String(visible(s))))
		if n == s {
			break
		}
		s = n
	}
	return fold(s)
}

// foldCase folds case. Unicode folds Cherokee to uppercase letters, but x/text folds them to
// lowercase, so a second folding would undo the first.
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

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func tidy(s string) bool {
	// This check works on bytes, so it is false for all text that is not printable ASCII.
	after := byte(' ')
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c >= 0x7f || c == ' ' && after == ' ' {
			return false
		}
		after = c
	}
	return after != ' '
}

func fold(s string) string {
	if tidy(s) {
		return s
	}
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
}

func visible(s string) string {
	// A word must not be hidden behind invisible characters.
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Variation_Selector, r) {
			return -1
		}
		return r
	}, s)
}

// class is the role of a rune in words.
type class int

const (
	separates class = iota
	spaced          // letters and digits of scripts with spaces
	unspaced        // letters of scripts without spaces
	joins           // marks, which belong to the rune before them
	ends            // + and #, which may end a word
	single          // symbols, each of which is a word
)

func classOf(r rune) class {
	switch {
	case r < utf8.RuneSelf:
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r >= 'A' && r <= 'Z':
			return spaced
		case r == '+', r == '#':
			return ends
		}
		return separates
	case unicode.IsMark(r):
		return joins
	case IsUnspaced(r):
		return unspaced
	case unicode.IsLetter(r), unicode.IsNumber(r):
		return spaced
	case unicode.Is(unicode.So, r):
		return single
	}
	return separates
}

// IsUnspaced reports whether r is a letter of a script without spaces between words.
func IsUnspaced(r rune) bool {
	return r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul,
		unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) && !unicode.IsMark(r)
}

func Words(s string) []string {
	var (
		words []string
		start = -1 // start of the current word, or -1
		is    class
		tail  bool // whether the + and # at the end of a word have started
	)
	end := func(offset int) {
		if start >= 0 {
			words = append(words, s[start:offset])
		}
		start, tail = -1, false
	}
	for i, r := range s {
		c := classOf(r)
		if start >= 0 && !continuesWord(is, c, tail) {
			end(i)
		}
		switch {
		case start >= 0:
			tail = c == ends
		case c == spaced, c == unspaced, c == single:
			start, is = i, c
		}
	}
	end(len(s))
	return words
}

func continuesWord(is, next class, tail bool) bool {
	switch next {
	case joins:
		return !tail
	case ends:
		return is == spaced
	}
	return next == is && is != single && !tail
}

// stops contains English words that do not describe capabilities, in sorted order.
var stops = strings.Fields("a an and are as at be but by can do for from has have how i if in into is it me my no not of on or our " +
	"such that the their then there these they this to was we what which who will with you your")

func isStop(word string) bool {
	_, ok := slices.BinarySearch(stops, word)
	return ok
}

// StemOf returns the stem that all forms of an English word share, for example "translat" for
// translates and translation. ok is false for a word without other forms: it is not English, is
// short, or does not start with its stem.
func StemOf(word string) (form string, ok bool) {
	if len(word) < minForm || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") != "" {
		return "", false
	}
	env := snowballstem.NewEnv(word)
	english.Stem(env)
	form = env.Current()
	return form, len(form) >= minForm && strings.HasPrefix(word, formPrefix(form))
}

// minForm is the minimum length of a stem and of its words.
const minForm = 3

// formPrefix returns the common start of all words with a stem. The last letter of the stem may
// change, as in happy and happiness.
func formPrefix(form string) string { return form[:len(form)-1] }

// ParseWords returns the words of a query that must match. It omits English stop words unless the
// query has no other words. The error is Malformed if q exceeds MaxQuery or MaxWords or is not
// valid UTF-8. A query such as "" or "%_*" has no words.
func ParseWords(q string) ([]string, error) {
	text, err := ParseText(q)
	if err != nil {
		return nil, err
	}
	words := Words(text)
	if telling := slices.DeleteFunc(slices.Clone(words), isStop); len(telling) > 0 {
		words = telling
	}
	if len(words) > MaxWords {
		return nil, problem.Invalid("q", fmt.Sprintf("at most %d words", MaxWords), fmt.Sprint(len(words)))
	}
	return words, nil
}

// ParseText returns the normal form of a text that is searched as a substring. The error is of kind
// Malformed.
func ParseText(q string) (string, error) {
	if len(q) > MaxQuery {
		return "", problem.Invalid("q", fmt.Sprintf("at most %d bytes", MaxQuery), fmt.Sprint(len(q)))
	}
	if !utf8.ValidString(q) {
		return "", problem.Invalid("q", "UTF-8", "other bytes")
	}
	return Normalise(q), nil
}

// MinInsideRunes returns the minimum number of runes with which word may match inside another word.
// It is three, because short words would match almost all entries, and one in scripts without
// spaces.
func MinInsideRunes(word string) int {
	if r, _ := utf8.DecodeRuneInString(word); IsUnspaced(r) {
		return 1
	}
	return 3
}
