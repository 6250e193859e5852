package canon

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// CheckSignedText returns an error unless s is valid UTF-8 without control characters (PROTOCOL §23
// D2). Cards and logbook entries separate their signed fields with 0x1f. If a field contained 0x1f,
// one signature would cover two readings.
func CheckSignedText(field, s string) error {
	if !utf8.ValidString(s) {
		return problem.Invalid(field, "UTF-8", "other bytes")
	}
	if i := strings.IndexFunc(s, unicode.IsControl); i >= 0 {
		r, _ := utf8.DecodeRuneInString(s[i:])
		return problem.Invalid(field, "no control characters", fmt.Sprintf("U+%04X at byte %d", r, i))
	}
	return nil
}

// IsBlank reports whether s contains only white space as Python defines it.
func IsBlank(s string) bool {
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }) == ""
}
