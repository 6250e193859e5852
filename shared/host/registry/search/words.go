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

// Limits of a query (PROTOCOL §21).
const (
	MaxQuery = 256 // bytes
	MaxWords = 8
)

// Normalise returns the form in which texts are compared: compatibility forms
// and cases are folded, format characters (such as marks of writing direction)
// removed, and runs of spaces and control characters become one space, with none
// at the ends. Normalise is idempotent.
func Normalise(s string) string {
	if ascii(s) {
		return fold(strings.ToLower(s))
	}
	// Folding can leave what composes, and composing what folds.
	for range 3 {
		n := norm.NFKC.String(foldCase(norm.NFKC.String(visible(s))))
		if n == s {
			break
		}
		s = n
	}
	return fold(s)
}

// foldCase folds cases. Unicode folds Cherokee to its capital letters; x/text
// folds those to small ones too, so that a second folding would undo the first.
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

// ascii reports whether s is ASCII, as most texts are: for them there is
// nothing to compose.
func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// tidy reports whether the spaces of s need no folding, judging by bytes.
func tidy(s string) bool {
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

// fold folds the spaces.
func fold(s string) string {
	if tidy(s) {
		return s
	}
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
}

// visible removes invisible characters, so that no word can be hidden behind
// them.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Variation_Selector, r) {
			return -1
		}
		return r
	}, s)
}

// class is the role of a rune in a word.
type class int

const (
	separates class = iota
	spaced          // letters and digits of scripts with spaces
	unspaced        // letters of scripts without spaces
	joins           // marks: part of what they follow
	ends            // + and #, which may end a word
	alone           // symbols, each a word
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
	case Unspaced(r):
		return unspaced
	case unicode.IsLetter(r), unicode.IsNumber(r):
		return spaced
	case unicode.Is(unicode.So, r):
		return alone
	}
	return separates
}

// Unspaced reports whether r is a letter of a script that is written without
// spaces between words.
func Unspaced(r rune) bool {
	return r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul,
		unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) && !unicode.IsMark(r)
}

// Words cuts a normalised text into its words, in order.
func Words(s string) []string {
	var (
		words []string
		start = -1 // start of the open word
		is    class
		tail  bool // in the + and # at the end of a word
	)
	end := func(at int) {
		if start >= 0 {
			words = append(words, s[start:at])
		}
		start, tail = -1, false
	}
	for i, r := range s {
		c := classOf(r)
		if start >= 0 && !goesOn(is, c, tail) {
			end(i)
		}
		switch {
		case start >= 0:
			tail = c == ends
		case c == spaced, c == unspaced, c == alone:
			start, is = i, c
		}
	}
	end(len(s))
	return words
}

// goesOn reports whether a rune of class next continues a word of class is.
func goesOn(is, next class, tail bool) bool {
	switch next {
	case joins:
		return !tail
	case ends:
		return is == spaced
	}
	return next == is && is != alone && !tail
}

// stops are English words that say nothing of what a vacant can do, sorted.
var stops = strings.Fields("a an and are as at be but by can do for from has have how i if in into is it me my no not of on or our " +
	"such that the their then there these they this to was we what which who will with you your")

func isStop(word string) bool {
	_, ok := slices.BinarySearch(stops, word)
	return ok
}

// Form returns the part that all forms of an English word share: its stem
// ("translat" of translates and translation). ok is false for a word that is
// not English, is short, or begins otherwise than its stem; then it has no
// other form.
func Form(word string) (form string, ok bool) {
	if len(word) < leastForm || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") != "" {
		return "", false
	}
	env := snowballstem.NewEnv(word)
	english.Stem(env)
	form = env.Current()
	return form, len(form) >= leastForm && strings.HasPrefix(word, beginning(form))
}

// leastForm is the least length of a form and of its words.
const leastForm = 3

// beginning returns the text that all words of a form begin with: the last letter
// may change, as in happy and happiness.
func beginning(form string) string { return form[:len(form)-1] }

// ParseWords returns the words of a query that have to match. English words such as
// "a" and "to" do not, unless there are no others. The error is of kind Malformed for a
// text beyond MaxQuery or MaxWords, or invalid UTF-8. A text may have no words:
// "" and "%_*" have none.
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

// ParseText returns the normal form of a text to find as a substring. The error
// is of kind Malformed.
func ParseText(q string) (string, error) {
	if len(q) > MaxQuery {
		return "", problem.Invalid("q", fmt.Sprintf("at most %d bytes", MaxQuery), fmt.Sprint(len(q)))
	}
	if !utf8.ValidString(q) {
		return "", problem.Invalid("q", "UTF-8", "other bytes")
	}
	return Normalise(q), nil
}

// Short is the least number of runes of word that may match inside another
// word: three, so that "a" does not match nearly everything, and one in scripts
// without spaces.
func Short(word string) int {
	if r, _ := utf8.DecodeRuneInString(word); Unspaced(r) {
		return 1
	}
	return 3
}
