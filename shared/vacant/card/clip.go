package card

import "unicode/utf8"

func truncate(s string) string {
	const maxRunes = 80
	if utf8.RuneCountInString(s) <= maxRunes {
		return s
	}
	return string([]rune(s)[:maxRunes]) + "…"
}
