package canon

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// indexEscaped returns the index at or after i of the first byte that a JSON string must escape, or
// len(s). It tests eight bytes at a time for speed.
func indexEscaped(s string, i int) int {
	const ones, topBits = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(s); i += 8 {
		b := s[i : i+8]
		w := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		// (x-ones)&^x has the top bit set in each zero byte of x. A borrow can also set the bit in
		// a higher byte, but only the lowest set bit is used.
		quote, slash := w^'"'*ones, w^'\\'*ones
		found := ((w-0x20*ones)&^w | (quote-ones)&^quote | (slash-ones)&^slash) & topBits
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' {
			return i
		}
	}
	return i
}

func (d *Decoder) readString() (string, error) {
	start := d.pos + 1
	end := indexEscaped(d.text, start)
	switch {
	case end == len(d.text):
		return "", d.syntaxErrorAt(end, "the end of a string")
	case d.text[end] == '"':
		d.pos = end + 1
		return d.text[start:end], nil
	case d.text[end] == '\\':
		return d.unescape(start, end)
	}
	return "", d.syntaxErrorAt(end, "no raw control character in a string")
}

func (d *Decoder) unescape(start, i int) (string, error) {
	s := d.text
	var out strings.Builder
	out.Grow(i - start + max(0, strings.IndexByte(s[i:], '"')))
	out.WriteString(s[start:i])
	for i < len(s) {
		switch c := s[i]; {
		case c == '"':
			d.pos = i + 1
			return out.String(), nil
		case c < 0x20:
			return "", d.syntaxErrorAt(i, "no raw control character in a string")
		case c != '\\':
			end := indexEscaped(s, i)
			out.WriteString(s[i:end])
			i = end
		case i+1 < len(s) && s[i+1] == 'u':
			r, n, err := d.unicodeEscape(i)
			if err != nil {
				return "", err
			}
			out.WriteRune(r)
			i += n
		default:
			if i+1 >= len(s) || escapeValues[s[i+1]] == 0 {
				return "", d.syntaxErrorAt(i, "an escape of JSON")
			}
			out.WriteByte(escapeValues[s[i+1]])
			i += 2
		}
	}
	return "", d.syntaxErrorAt(len(s), "the end of a string")
}

var escapeValues = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unicodeEscape refuses a lone surrogate unless a lenient decoder skips it, because other readers
// replace or drop lone surrogates (PROTOCOL §2).
func (d *Decoder) unicodeEscape(i int) (rune, int, error) {
	r, ok := parseHex4(d.text, i+2)
	if !ok {
		return 0, 0, d.syntaxErrorAt(i, "four hexadecimal digits after \\u")
	}
	if !utf16.IsSurrogate(r) {
		return r, 6, nil
	}
	if strings.HasPrefix(d.text[i+6:], `\u`) {
		if low, ok := parseHex4(d.text, i+8); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return pair, 12, nil
			}
		}
	}
	if d.skipDepth > 0 {
		return utf8.RuneError, 6, nil
	}
	return 0, 0, problem.Invalid(d.memberName(), "whole characters", "the lone surrogate "+d.text[i:i+6])
}

func parseHex4(s string, offset int) (r rune, ok bool) {
	if offset+4 > len(s) {
		return 0, false
	}
	for _, c := range []byte(s[offset : offset+4]) {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

func (d *Decoder) readNumber() (string, error) {
	s, i := d.text, d.pos
	if s[i] == '-' {
		i++
	}
	skipDigits := func(i int) int {
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
		}
		return i
	}
	end := skipDigits(i)
	if end == i {
		return "", d.syntaxErrorAt(i, "a digit")
	}
	if s[i] == '0' {
		end = i + 1 // the caller then refuses the 1 of 01
	}
	hasExponent := false
	if end < len(s) && s[end] == '.' {
		i, end = end+1, skipDigits(end+1)
		if end == i {
			return "", d.syntaxErrorAt(i, "a digit")
		}
	}
	if end < len(s) && (s[end] == 'e' || s[end] == 'E') {
		hasExponent = true
		if i = end + 1; i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if end = skipDigits(i); end == i {
			return "", d.syntaxErrorAt(i, "a digit")
		}
	}
	lit := s[d.pos:end]
	if d.skipDepth > 0 {
		d.pos = end
		return lit, nil
	}
	if len(lit) > maxDigits && len(strings.TrimPrefix(lit, "-")) > maxDigits {
		return "", unparsableError(fmt.Sprintf("%s: expected a number of at most %d digits, got more", d.memberName(), maxDigits))
	}
	// Python would read a Float that exceeds float64 as Infinity.
	if hasExponent || len(lit) > 300 && numberKind(lit) == Float {
		if _, err := strconv.ParseFloat(lit, 64); err != nil {
			return "", problem.Invalid(d.memberName(), "a number that a float64 holds", truncate(lit))
		}
	}
	d.pos = end
	return lit, nil
}

// MismatchError returns an error that describes the next value.
func (d *Decoder) MismatchError(want string) error {
	k := d.Kind()
	if k == Invalid {
		return d.noValueError()
	}
	got := k.String()
	switch k {
	case Int, Float, Bool:
		// Text after the literal is not quoted, because it may contain terminal escape sequences.
		rest := d.text[d.pos:min(d.pos+maxDigits, len(d.text))]
		got = truncate(rest[:len(rest)-len(strings.TrimLeft(rest, "+-.0123456789Eaeflrstu"))])
	case String:
		if s, err := d.peekString(); err == nil {
			got = strconv.Quote(truncate(s))
		}
	}
	return problem.Invalid(d.memberName(), want, got)
}

func (d *Decoder) peekString() (string, error) {
	start := d.pos
	s, err := d.readString()
	d.pos = start
	return s, err
}

func (d *Decoder) noValueError() error {
	if d.err != nil {
		return d.err
	}
	d.peek()
	for _, w := range []string{"NaN", "Infinity", "-Infinity"} {
		// Python's JSON decoder accepts these words, which are not JSON (PROTOCOL §2).
		if strings.HasPrefix(d.text[d.pos:], w) {
			return unparsableError(fmt.Sprintf("%s: expected a value of JSON, got %s", d.memberName(), w))
		}
	}
	return d.syntaxError("a value")
}

func (d *Decoder) syntaxError(want string) error { return d.syntaxErrorAt(d.pos, want) }

func (d *Decoder) syntaxErrorAt(offset int, want string) error {
	got := "the end"
	if offset < len(d.text) {
		r, _ := utf8.DecodeRuneInString(d.text[offset:])
		got = strconv.QuoteRune(r)
	}
	return problem.New(problem.NotJSON, "body: not JSON: expected %s at byte %d, got %s", want, offset, got)
}

func (d *Decoder) memberName() string { return d.memberNameAt(len(d.keys)) }

func (d *Decoder) memberNameAt(keyCount int) string {
	if keyCount == 0 {
		return "body"
	}
	return quoteName(d.keys[keyCount-1])
}

func quoteName(key string) string {
	for _, c := range []byte(key) {
		if c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return strconv.Quote(truncate(key))
		}
	}
	if key == "" {
		return `""`
	}
	return truncate(key)
}

func truncate(s string) string {
	const maxBytes = 40
	if len(s) <= maxBytes {
		return s
	}
	return strings.ToValidUTF8(s[:maxBytes], "") + "…"
}
