package web

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// show makes the characters of a foreign text visible that would hide or turn around what follows them. Joiners stay,
// because letters and emoji are built with them. The scripts follow the same rule (assets/dom.js).
func show(text string) string {
	hides := func(c rune) bool {
		return c != '\n' && c != '\t' && c != '\u200c' && c != '\u200d' && (unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || unicode.Is(unicode.Zl, c) || unicode.Is(unicode.Zp, c) || c == unicode.ReplacementChar)
	}
	if strings.IndexFunc(text, hides) < 0 {
		return text
	}
	var b strings.Builder
	for _, c := range text {
		if hides(c) {
			fmt.Fprintf(&b, "⟨U+%04X⟩", c)
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}

// counted is a number of things.
func counted(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// since is a time in wire form, for people.
func since(text string) string {
	t, err := canon.ParseTime(text)
	if err != nil {
		return show(text)
	}
	return moment(t.UnixMilli())
}

// moment is a time of the registry, in milliseconds since 1970, for people.
func moment(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05 UTC") }
