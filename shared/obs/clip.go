package obs

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Truncate shortens a caller's text to at most maxBytes of JSON in the log, because logs are billed
// by the byte.
func Truncate(s string, maxBytes int) string {
	const escapedSize = 6
	for i, r := range s {
		size := utf8.RuneLen(r)
		if r == utf8.RuneError || r == '"' || r == '\\' || !unicode.IsPrint(r) {
			size = escapedSize
		}
		if maxBytes -= size; maxBytes < 0 {
			s = s[:i]
			break
		}
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
