package web

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// showInvisible makes control characters and invisible characters visible, because they can hide or
// reorder the following text. assets/dom.js implements the same rule.
func showInvisible(text string) string {
	isInvisible := func(c rune) bool {
		return c != '\n' && c != '\t' && c != '\u200c' && c != '\u200d' && (unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || unicode.Is(unicode.Zl, c) || unicode.Is(unicode.Zp, c) || c == unicode.ReplacementChar)
	}
	if strings.IndexFunc(text, isInvisible) < 0 {
		return text
	}
	var b strings.Builder
	for _, c := range text {
		if isInvisible(c) {
			fmt.Fprintf(&b, "⟨U+%04X⟩", c)
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}

func formatCount(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func formatWireTime(text string) string {
	t, err := canon.ParseTime(text)
	if err != nil {
		return showInvisible(text)
	}
	return formatMillis(t.UnixMilli())
}

func formatMillis(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05 UTC") }
