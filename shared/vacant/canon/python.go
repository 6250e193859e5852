package canon

import (
	"fmt"
	"strings"
	"unicode"
)

// PythonRepr formats v like Python's repr, for error messages that the protocol fixes (PROTOCOL
// §6.2, §10).
func PythonRepr(v Value) string {
	switch v.Kind() {
	case Null:
		return "None"
	case Bool:
		b := v.AppendCJ(nil)
		return strings.ToUpper(string(b[:1])) + string(b[1:])
	case String:
		return PythonReprString(v.Text(), 0)
	case Array:
		items := make([]string, len(v.Items()))
		for i, e := range v.Items() {
			items[i] = PythonRepr(e)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case Object:
		members := make([]string, len(v.Members()))
		for i, m := range v.Members() {
			members[i] = PythonReprString(m.Key, 0) + ": " + PythonRepr(m.Value)
		}
		return "{" + strings.Join(members, ", ") + "}"
	}
	return string(v.AppendCJ(nil))
}

// PythonReprString formats s like Python's repr. If maxBytes is positive, it truncates longer
// results.
func PythonReprString(s string, maxBytes int) string {
	quote := '\''
	if strings.ContainsRune(s, '\'') && !strings.ContainsRune(s, '"') {
		quote = '"'
	}
	var b strings.Builder
	b.WriteRune(quote)
	for _, r := range s {
		if maxBytes > 0 && b.Len() > maxBytes {
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
