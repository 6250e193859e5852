package card

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// clip bounds what of a foreign value goes into an error text.
func clip(s string) string {
	const most = 80
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}

// repr writes v as Python's repr does (an object's keys in the order of CJ),
// because the text of a refused version is an interface and quotes it so.
func repr(v canon.Value) string {
	switch v.Kind() {
	case canon.Null:
		return "None"
	case canon.Bool:
		b := v.AppendCJ(nil)
		return strings.ToUpper(string(b[:1])) + string(b[1:])
	case canon.String:
		return reprString(v.Text())
	case canon.Array:
		items := make([]string, len(v.Items()))
		for i, e := range v.Items() {
			items[i] = repr(e)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case canon.Object:
		members := make([]string, len(v.Members()))
		for i, m := range v.Members() {
			members[i] = reprString(m.Key) + ": " + repr(m.Value)
		}
		return "{" + strings.Join(members, ", ") + "}"
	}
	return string(v.AppendCJ(nil))
}

func reprString(s string) string {
	quote := '\''
	if strings.ContainsRune(s, '\'') && !strings.ContainsRune(s, '"') {
		quote = '"'
	}
	var b strings.Builder
	b.WriteRune(quote)
	for _, r := range s {
		switch {
		case r == quote || r == '\\':
			b.WriteRune('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r <= 0xff:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteRune(quote)
	return b.String()
}
