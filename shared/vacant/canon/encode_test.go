package canon_test

import (
	"encoding/json"
	"math"
	"strconv"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"pgregory.net/rapid"
)

func TestFloatsAsPythonWritesThem(t *testing.T) {
	for f, want := range map[float64]string{
		1: "1.0", 0: "0.0", 0.1: "0.1", 0.0001: "0.0001", 0.00001: "1e-05", 1e-7: "1e-07", 100: "100.0",
		1e15: "1000000000000000.0", 1e16: "1e+16", 1.2345678901234568e17: "1.2345678901234568e+17", 1e22: "1e+22",
		5e-324: "5e-324", math.MaxFloat64: "1.7976931348623157e+308", 9.999e-5: "9.999e-05", 0.00010001: "0.00010001",
		9999999999999998: "9999999999999998.0", -2.5: "-2.5", -1e-5: "-1e-05", -1e16: "-1e+16", 123456789.125: "123456789.125",
	} {
		if got := string(canon.AppendFloat(nil, f)); got != want {
			t.Errorf("AppendFloat(%g) = %s, want %s", f, got, want)
		}
	}
	if got := string(canon.AppendFloat([]byte("x"), math.Copysign(0, -1))); got != "x-0.0" {
		t.Errorf("AppendFloat(-0) = %s, want x-0.0", got)
	}
}

func TestStringsOfBothForms(t *testing.T) {
	tests := []struct{ in, cj, cja string }{
		{"", `""`, `""`},
		{"plain text of more than eight bytes", `"plain text of more than eight bytes"`, `"plain text of more than eight bytes"`},
		{"\"\\/", `"\"\\/"`, `"\"\\/"`},
		{"\b\t\n\f\r\x00\x1f\v", `"\b\t\n\f\r\u0000\u001f\u000b"`, `"\b\t\n\f\r\u0000\u001f\u000b"`},
		{"\x7f\u0080", "\"\x7f\u0080\"", `"\u007f\u0080"`},
		{"<>&\u2028\u2029", "\"<>&\u2028\u2029\"", `"<>&\u2028\u2029"`},
		{"é訳😀\U0010ffff", `"é訳😀` + "\U0010ffff\"", `"\u00e9\u8a33\ud83d\ude00\udbff\udfff"`},
		{"1234567\"", `"1234567\""`, `"1234567\""`},
		{"12345678\n", `"12345678\n"`, `"12345678\n"`},
		{"\ufeff\ufffd", "\"\ufeff\ufffd\"", `"\ufeff\ufffd"`},
	}
	for _, tt := range tests {
		if got := string(canon.AppendString(nil, tt.in)); got != tt.cj {
			t.Errorf("AppendString(%q) = %s, want %s", tt.in, got, tt.cj)
		}
		if got := string(canon.AppendStringASCII([]byte("x"), tt.in)); got != "x"+tt.cja {
			t.Errorf("AppendStringASCII(%q) = %s, want x%s", tt.in, got, tt.cja)
		}
	}
}

// The scanner tests eight bytes at a time. So this test puts each byte at each position of a step,
// next to bytes whose borrow or top bit could hide a special byte or look like one.
func TestEachByteIsEscapedWhereverItStands(t *testing.T) {
	for c := range rune(0x100) {
		for at := range 17 {
			for _, fill := range []rune{'a', 0x20, 0x21, 0x23, 0x5b, 0x5d, 0x7f, 0x80, 0xff} {
				runes := make([]rune, 17)
				for i := range runes {
					runes[i] = fill
				}
				runes[at] = c
				s := string(runes)
				got := string(canon.AppendString(nil, s))
				read, err := canon.NewDecoder([]byte(got), small).String()
				if err != nil || read != s || !json.Valid([]byte(got)) {
					t.Fatalf("String(AppendString(%q)) = %q, %v by way of %s", s, read, err, got)
				}
				if wantLen := len(s) + 2 + escapeLen(c); len(got) != wantLen {
					t.Fatalf("AppendString(%q) = %s, want %d bytes", s, got, wantLen)
				}
			}
		}
	}
}

// escapeLen returns the number of bytes that escaping adds to c.
func escapeLen(c rune) int {
	switch {
	case c == '"', c == '\\', c == '\b', c == '\t', c == '\n', c == '\f', c == '\r':
		return 1
	case c < 0x20:
		return 5
	}
	return 0
}

func TestStringsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		for _, form := range []func([]byte, string) []byte{canon.AppendString, canon.AppendStringASCII} {
			b := form(nil, s)
			got, err := canon.NewDecoder(b, canon.DefaultLimits()).String()
			if err != nil || got != s || !utf8.Valid(b) {
				t.Fatalf("String() of %s = %q, %v, want %q", b, got, err, s)
			}
			var std string
			if err := json.Unmarshal(b, &std); err != nil || std != s {
				t.Fatalf("json.Unmarshal(%s) = %q, %v, want %q", b, std, err, s)
			}
		}
		f := rapid.Float64().Draw(t, "f")
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return
		}
		b := canon.AppendFloat(nil, f)
		d := canon.NewDecoder(b, small)
		if k := d.Kind(); k != canon.Float {
			t.Fatalf("Kind() of %s = %s, want a Float", b, k)
		}
		if got, err := d.Float64(); err != nil || math.Float64bits(got) != math.Float64bits(f) {
			t.Fatalf("Float64() of %s = %g, %v, want %g", b, got, err, f)
		}
	})
}

// value returns a generator of JSON documents with varying white space and escapes.
func value(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		space := rapid.SampledFrom([]string{"", " ", "\n\t", "\r "}).Draw(t, "space")
		str := rapid.Custom(func(t *rapid.T) string {
			s := rapid.String().Draw(t, "s")
			if rapid.Bool().Draw(t, "ascii") {
				return string(canon.AppendStringASCII(nil, s))
			}
			return string(canon.AppendString(nil, s))
		})
		most := 6
		if depth == 0 {
			most = 4
		}
		switch rapid.IntRange(0, most).Draw(t, "kind") {
		case 0:
			return space + rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "word")
		case 1:
			return space + strconv.FormatInt(rapid.Int64().Draw(t, "int"), 10)
		case 2:
			f := rapid.Float64Range(-1e300, 1e300).Draw(t, "float")
			return space + strconv.FormatFloat(f, rapid.SampledFrom([]byte{'e', 'E', 'f'}).Draw(t, "form"), rapid.IntRange(0, 20).Draw(t, "digits"), 64)
		case 3, 4:
			return str.Draw(t, "string") + space
		case 5:
			s := ""
			for i, e := range rapid.SliceOfN(value(depth-1), 0, 4).Draw(t, "items") {
				if i > 0 {
					s += ","
				}
				s += e
			}
			return "[" + space + s + "]"
		}
		s := ""
		for i, k := range rapid.SliceOfNDistinct(rapid.String(), 0, 4, rapid.ID[string]).Draw(t, "keys") {
			if i > 0 {
				s += space + ","
			}
			s += string(canon.AppendString(nil, k)) + space + ":" + value(depth-1).Draw(t, "member")
		}
		return "{" + s + space + "}"
	})
}

func TestTheCanonicalFormIsItsOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := value(3).Draw(t, "doc")
		v, err := canon.Parse([]byte(doc), canon.DefaultLimits())
		if err != nil {
			t.Fatalf("Parse(%s) = %v", doc, err)
		}
		cj := v.AppendCJ(nil)
		for _, form := range [][]byte{cj, v.AppendASCII(nil)} {
			again, err := canon.Parse(form, canon.DefaultLimits())
			if err != nil {
				t.Fatalf("Parse(%s) = %v", form, err)
			}
			if diff := cmp.Diff(string(cj), string(again.AppendCJ(nil))); diff != "" {
				t.Fatalf("AppendCJ(Parse(%s)) mismatch (-want +got):\n%s", form, diff)
			}
		}
	})
}
