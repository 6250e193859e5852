package card

import "unicode/utf8"

// clip bounds what of a foreign value goes into an error text.
func clip(s string) string {
	const most = 80
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}
