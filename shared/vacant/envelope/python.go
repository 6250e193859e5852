package envelope

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// most is how many bytes of a stranger's value a text repeats.
const most = 60

// python reads the next value and shows it as Python's repr does, for the two
// texts that end in one (wire §6.2). The inside of arrays and objects is left
// out.
func python(d *canon.Decoder) (string, error) {
	switch d.Kind() {
	case canon.Array:
		return "[…]", d.Skip()
	case canon.Object:
		return "{…}", d.Skip()
	}
	v, err := d.Value()
	if err != nil {
		return "", err
	}
	switch s := string(v.AppendCJ(nil)); {
	case s == "null":
		return "None", nil
	case s == "true":
		return "True", nil
	case s == "false":
		return "False", nil
	case len(s) > most:
		return s[:most] + "…", nil
	default:
		return s, nil
	}
}

// pythonString quotes s with ', or with " if s has a ' and no ".
func pythonString(s string) string {
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
