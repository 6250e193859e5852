package canon

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// CheckText says whether s may be a text of something newly signed: nil, or a
// refusal of the field. 0x1f separates the signed fields of cards and log
// entries, so a text that contains one has two readings under one signature;
// other control characters are refused with it (PROTOCOL §23 D2). What is already
// signed is not asked.
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

// IsBlank reports whether s is nothing but what Python takes for white space:
// U+001C to U+001F are there, too.
func IsBlank(s string) bool {
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }) == ""
}
