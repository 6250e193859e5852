package canon

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// CheckText returns nil if s may be a text of newly signed bytes, or an error
// that names the field. 0x1f separates the signed fields of cards and log
// entries, so a text with a 0x1f would have two readings under one signature;
// other control characters are refused too (PROTOCOL §23 D2). Texts that are
// already signed are not checked.
func CheckText(field, s string) error {
	if !utf8.ValidString(s) {
		return problem.Invalid(field, "UTF-8", "other bytes")
	}
	if i := strings.IndexFunc(s, unicode.IsControl); i >= 0 {
		r, _ := utf8.DecodeRuneInString(s[i:])
		return problem.Invalid(field, "no control characters", fmt.Sprintf("U+%04X at byte %d", r, i))
	}
	return nil
}

// IsBlank reports whether s contains only white space in Python's sense, which
// includes U+001C to U+001F.
func IsBlank(s string) bool {
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }) == ""
}
