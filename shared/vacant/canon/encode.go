package canon

import (
	"math"
	"strconv"
	"unicode/utf16"
)

const hexDigits = "0123456789abcdef"

// AppendString appends s in quotes, escaped as in CJ: only '"', '\' and U+0000 to U+001F are
// escaped (PROTOCOL §2). s must be valid UTF-8.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; ; {
		end := indexEscaped(s, i)
		dst = append(dst, s[i:end]...)
		if end == len(s) {
			return append(dst, '"')
		}
		dst = appendEscaped(dst, s[end])
		i = end + 1
	}
}

// AppendStringASCII appends s in quotes, escaped as in CJ-A: characters outside U+0020 to U+007E
// are also escaped (PROTOCOL §2). s must be valid UTF-8.
func AppendStringASCII(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r < 0x20 || r == '"' || r == '\\':
			dst = appendEscaped(dst, byte(r))
		case r < 0x7f:
			dst = append(dst, byte(r))
		case r <= 0xffff:
			dst = appendUnicodeEscape(dst, r)
		default:
			high, low := utf16.EncodeRune(r)
			dst = appendUnicodeEscape(appendUnicodeEscape(dst, high), low)
		}
	}
	return append(dst, '"')
}

func appendEscaped(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\t':
		return append(dst, '\\', 't')
	case '\n':
		return append(dst, '\\', 'n')
	case '\f':
		return append(dst, '\\', 'f')
	case '\r':
		return append(dst, '\\', 'r')
	}
	return appendUnicodeEscape(dst, rune(c))
}

func appendUnicodeEscape(dst []byte, r rune) []byte {
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// appendECMA formats f like ECMAScript's Number::toString.
func appendECMA(dst []byte, f float64) []byte {
	a := math.Abs(f)
	switch {
	case a == 0:
		return append(dst, '0')
	case a >= 1e-6 && a < 1e21:
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	if n := len(dst); dst[n-4] == 'e' && dst[n-2] == '0' { // ECMAScript does not pad the exponent
		dst = append(dst[:n-2], dst[n-1])
	}
	return dst
}

// AppendFloat formats f like Python's repr (PROTOCOL §2): the shortest digits that parse to f,
// always with a decimal point or an exponent. A magnitude below 1e-4 or from 1e16 on has an
// exponent. f must be finite.
func AppendFloat(dst []byte, f float64) []byte {
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if f == math.Trunc(f) {
		dst = append(dst, '.', '0')
	}
	return dst
}
