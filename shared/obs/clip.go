package obs

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clip shortens a caller's text for the log to so many bytes of JSON: a control character
// takes six of them, and logs are billed by the byte.
func Clip(s string, room int) string {
	const escaped = 6
	for i, r := range s {
		size := utf8.RuneLen(r)
		if r == utf8.RuneError || r == '"' || r == '\\' || !unicode.IsPrint(r) {
			size = escaped
		}
		if room -= size; room < 0 {
			s = s[:i]
			break
		}
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
