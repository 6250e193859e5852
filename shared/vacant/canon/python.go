package canon

import (
	"fmt"
	"strings"
	"unicode"
)

// Python writes v as Python's repr does, an object's keys in the order of CJ:
// some texts of the wire are an interface and quote what came so (PROTOCOL §6.2,
// §10).
func Python(v Value) string {
	switch v.Kind() {
	case Null:
		return "None"
	case Bool:
		b := v.AppendCJ(nil)
		return strings.ToUpper(string(b[:1])) + string(b[1:])
	case String:
		return PythonString(v.Text(), 0)
	case Array:
		items := make([]string, len(v.Items()))
		for i, e := range v.Items() {
			items[i] = Python(e)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case Object:
		members := make([]string, len(v.Members()))
		for i, m := range v.Members() {
			members[i] = PythonString(m.Key, 0) + ": " + Python(m.Value)
		}
		return "{" + strings.Join(members, ", ") + "}"
	}
	return string(v.AppendCJ(nil))
}

// PythonString writes s as Python's repr does: in ', or in " if s has a ' and
// no ". With most above 0 it stops after about so many bytes and says so.
func PythonString(s string, most int) string {
	quote := '\''
	if strings.ContainsRune(s, '\'') && !strings.ContainsRune(s, '"') {
		quote = '"'
	}
	var b strings.Builder
	b.WriteRune(quote)
	for _, r := range s {
		if most > 0 && b.Len() > most {
			b.WriteString("…")
			break
		}
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
