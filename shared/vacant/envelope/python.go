package envelope

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// python shows v as Python's repr does, for the two texts that end in it (wire
// §6.2). What is long is cut; the inside of arrays and objects is left out.
func python(v canon.Value) string {
	const most = 60
	s := "None"
	switch v.Kind() {
	case canon.String:
		s = pythonString(v.Text(), most)
	case canon.Bool:
		s = "False"
		if b, _ := v.Bool(); b {
			s = "True"
		}
	case canon.Int, canon.Float:
		s = string(v.AppendCJ(nil))
	case canon.Array:
		s = "[…]"
	case canon.Object:
		s = "{…}"
	}
	if len(s) > most && v.Kind() != canon.String {
		s = s[:most] + "…"
	}
	return s
}

// pythonString quotes s with ', or with " if s has a ' and no ".
func pythonString(s string, most int) string {
	quote := '\''
	if strings.ContainsRune(s, '\'') && !strings.ContainsRune(s, '"') {
		quote = '"'
	}
	var b strings.Builder
	b.WriteRune(quote)
	for _, r := range s {
		if b.Len() > most {
			b.WriteString("…")
			break
		}
		switch {
		case r == quote || r == '\\':
			b.WriteByte('\\')
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
