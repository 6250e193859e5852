package canon_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

var small = canon.Limits{Bytes: 1 << 20, Depth: 3, Keys: 4}

func TestRefusals(t *testing.T) {
	const parsing = "There was an error parsing the body: "
	tests := []struct {
		name, doc string
		kind      problem.Kind
		text      string
	}{
		{"nothing", "", problem.NotJSON, "body: not JSON: expected a value at byte 0, got the end"},
		{"white space", " \t\r\n", problem.NotJSON, "body: not JSON: expected a value at byte 4, got the end"},
		{"other white space", "\f1", problem.NotJSON, `body: not JSON: expected a value at byte 0, got '\f'`},
		{"NUL", "\x00", problem.NotJSON, `body: not JSON: expected a value at byte 0, got '\x00'`},
		{"trailing text", `{} x`, problem.NotJSON, "body: not JSON: expected the end at byte 3, got 'x'"},
		{"trailing NUL", "{}\x00", problem.NotJSON, `body: not JSON: expected the end at byte 2, got '\x00'`},
		{"open object", `{"a":1`, problem.NotJSON, "body: not JSON: expected a comma or '}' at byte 6, got the end"},
		{"open array", `[1`, problem.NotJSON, "body: not JSON: expected a comma or ']' at byte 2, got the end"},
		{"open string", `"a`, problem.NotJSON, "body: not JSON: expected the end of a string at byte 2, got the end"},
		{"open string after an escape", `"\n`, problem.NotJSON, "body: not JSON: expected the end of a string at byte 3, got the end"},
		{"open escape", `"\`, problem.NotJSON, `body: not JSON: expected an escape of JSON at byte 1, got '\\'`},
		{"wrong bracket", `[1}`, problem.NotJSON, "body: not JSON: expected a comma or ']' at byte 2, got '}'"},
		{"trailing comma in an array", `[1,]`, problem.NotJSON, "body: not JSON: expected a value at byte 3, got ']'"},
		{"trailing comma in an object", `{"a":1,}`, problem.NotJSON, "body: not JSON: expected a key in quotes at byte 7, got '}'"},
		{"no comma", `[1 2]`, problem.NotJSON, "body: not JSON: expected a comma or ']' at byte 3, got '2'"},
		{"no colon", `{"a" 1}`, problem.NotJSON, "body: not JSON: expected a colon at byte 5, got '1'"},
		{"key without quotes", `{a:1}`, problem.NotJSON, "body: not JSON: expected a key in quotes at byte 1, got 'a'"},
		{"number as key", `{1:1}`, problem.NotJSON, "body: not JSON: expected a key in quotes at byte 1, got '1'"},
		{"single quotes", `{'a':1}`, problem.NotJSON, `body: not JSON: expected a key in quotes at byte 1, got '\''`},
		{"raw control", "\"a\tb\"", problem.NotJSON, `body: not JSON: expected no raw control character in a string at byte 2, got '\t'`},
		{"raw control after an escape", "\"\\n\x1f\"", problem.NotJSON, `body: not JSON: expected no raw control character in a string at byte 3, got '\x1f'`},
		{"escape of Python", `"\x41"`, problem.NotJSON, `body: not JSON: expected an escape of JSON at byte 1, got '\\'`},
		{"short escape", `"\u12"`, problem.NotJSON, `body: not JSON: expected four hexadecimal digits after \u at byte 1, got '\\'`},
		{"signed escape", `"\u+123"`, problem.NotJSON, `body: not JSON: expected four hexadecimal digits after \u at byte 1, got '\\'`},
		{"misspelt true", `tru`, problem.NotJSON, "body: not JSON: expected true at byte 0, got 't'"},
		{"misspelt null", `[nul]`, problem.NotJSON, "body: not JSON: expected null at byte 1, got 'n'"},
		{"capital True", `True`, problem.NotJSON, "body: not JSON: expected a value at byte 0, got 'T'"},
		{"more than true", `truex`, problem.NotJSON, "body: not JSON: expected the end at byte 4, got 'x'"},
		{"comment", `1//`, problem.NotJSON, "body: not JSON: expected the end at byte 1, got '/'"},
		{"leading zero", `01`, problem.NotJSON, "body: not JSON: expected the end at byte 1, got '1'"},
		{"minus zero one", `-01`, problem.NotJSON, "body: not JSON: expected the end at byte 2, got '1'"},
		{"plus", `+1`, problem.NotJSON, "body: not JSON: expected a value at byte 0, got '+'"},
		{"minus alone", `-`, problem.NotJSON, "body: not JSON: expected a digit at byte 1, got the end"},
		{"minus and a letter", `-x`, problem.NotJSON, "body: not JSON: expected a digit at byte 1, got 'x'"},
		{"bare point", `1.`, problem.NotJSON, "body: not JSON: expected a digit at byte 2, got the end"},
		{"point first", `.5`, problem.NotJSON, "body: not JSON: expected a value at byte 0, got '.'"},
		{"point and letter", `1.e5`, problem.NotJSON, "body: not JSON: expected a digit at byte 2, got 'e'"},
		{"bare exponent", `1e`, problem.NotJSON, "body: not JSON: expected a digit at byte 2, got the end"},
		{"exponent with a sign only", `1e+`, problem.NotJSON, "body: not JSON: expected a digit at byte 3, got the end"},
		{"hexadecimal", `0x10`, problem.NotJSON, "body: not JSON: expected the end at byte 1, got 'x'"},
		{"underscore", `1_0`, problem.NotJSON, "body: not JSON: expected the end at byte 1, got '_'"},
		{"-Inf", `-Inf`, problem.NotJSON, "body: not JSON: expected a value at byte 0, got '-'"},
		{"nan", `nan`, problem.NotJSON, "body: not JSON: expected null at byte 0, got 'n'"},

		{"NaN", `{"a":NaN}`, problem.Malformed, parsing + "a: expected a value of JSON, got NaN"},
		{"Infinity", `[Infinity]`, problem.Malformed, parsing + "body: expected a value of JSON, got Infinity"},
		{"-Infinity", `{"a":{"b":-Infinity}}`, problem.Malformed, parsing + "b: expected a value of JSON, got -Infinity"},
		{"overflow", `{"a":1e400}`, problem.Malformed, "a: expected a number that a float64 holds, got 1e400"},
		{"overflow below", `-1E+309`, problem.Malformed, "body: expected a number that a float64 holds, got -1E+309"},
		{"overflow without exponent", `[` + strings.Repeat("9", 400) + `.0]`, problem.Malformed, "body: expected a number that a float64 holds, got " + strings.Repeat("9", 40) + "…"},
		{"4301 digits", `{"a":` + strings.Repeat("1", 4301) + `}`, problem.Malformed, parsing + "a: expected a number of at most 4300 digits, got more"},
		{"lone high surrogate", `"\ud800"`, problem.Malformed, `body: expected whole characters, got the lone surrogate \ud800`},
		{"lone low surrogate", `{"a":"\udc00x"}`, problem.Malformed, `a: expected whole characters, got the lone surrogate \udc00`},
		{"high surrogate twice", `"\ud800\ud800"`, problem.Malformed, `body: expected whole characters, got the lone surrogate \ud800`},
		{"reversed pair", `"\udc00\ud800"`, problem.Malformed, `body: expected whole characters, got the lone surrogate \udc00`},
		{"surrogate and short escape", `"\ud83d\ude"`, problem.Malformed, `body: expected whole characters, got the lone surrogate \ud83d`},
		{"surrogate in a key", `{"a":{"\ud800":1}}`, problem.Malformed, `a: expected whole characters, got the lone surrogate \ud800`},
		{"duplicate key", `{"a":1,"b":2,"a":3}`, problem.Malformed, "a: expected the key once, got it twice"},
		{"duplicate key by escape", `{"a":1,"\u0061":3}`, problem.Malformed, "a: expected the key once, got it twice"},
		{"duplicate key by surrogate pair", `{"😀":1,"\ud83d\ude00":3}`, problem.Malformed, `"😀": expected the key once, got it twice`},
		{"duplicate slash", `{"/":1,"\/":3}`, problem.Malformed, "/: expected the key once, got it twice"},
		{"duplicate empty key", `{"":1,"":3}`, problem.Malformed, `"": expected the key once, got it twice`},
		{"duplicate inside", `[{"x":{"a":1,"a":3}}]`, problem.Malformed, "a: expected the key once, got it twice"},
		{"depth", `{"a":[{"b":[]}]}`, problem.Malformed, parsing + "b: expected nesting of at most 3, got more"},
		{"keys", `{"o":{"a":1,"b":2,"c":3,"d":4,"e":5}}`, problem.Malformed, "o: expected at most 4 keys, got more"},
		{"keys of the document", `{"a":1,"b":2,"c":3,"d":4,"e":5}`, problem.Malformed, "body: expected at most 4 keys, got more"},
		{"long key", `{"` + strings.Repeat("k", 100) + `":NaN}`, problem.Malformed, parsing + strings.Repeat("k", 40) + "…: expected a value of JSON, got NaN"},

		{"byte order mark", "\ufeff{}", problem.Malformed, parsing + "it begins with a byte order mark"},
		{"invalid UTF-8", "\"\xff\"", problem.Malformed, parsing + "it is not UTF-8"},
		{"overlong UTF-8", "\"\xc0\xaf\"", problem.Malformed, parsing + "it is not UTF-8"},
		{"surrogate in UTF-8", "\"\xed\xa0\x80\"", problem.Malformed, parsing + "it is not UTF-8"},
		{"beyond U+10FFFF", "\"\xf4\x90\x80\x80\"", problem.Malformed, parsing + "it is not UTF-8"},
		{"UTF-16 of one order", "{\x00}\x00", problem.Malformed, parsing + "it is UTF-16 or UTF-32"},
		{"UTF-16 of the other", "\x00{\x00}", problem.Malformed, parsing + "it is UTF-16 or UTF-32"},
		{"UTF-16 with its mark", "\xff\xfe{\x00}\x00", problem.Malformed, parsing + "it is not UTF-8"},
		{"too large", strings.Repeat(" ", 1<<20) + "1", problem.TooLarge, "body: expected at most 1048576 bytes, got 1048577"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := canon.Parse([]byte(tt.doc), small)
			if !problem.Is(err, tt.kind) || problem.AsError(err).Text() != tt.text {
				t.Errorf("Parse(%.60q) = %v (%s), want %s (%s)", tt.doc, err, problem.AsError(err).Kind, tt.text, tt.kind)
			}
			d := canon.NewDecoder([]byte(tt.doc), small)
			if skipped := firstOf(d.Skip(), d.End); !problem.Is(skipped, tt.kind) || skipped.Error() != err.Error() {
				t.Errorf("Skip() = %v, want %v as Parse says", skipped, err)
			}
		})
	}
}

func firstOf(err error, then func() error) error {
	if err != nil {
		return err
	}
	return then()
}

func TestLimitsAreReachedAndNotPassed(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	object := func(n int) string {
		keys := make([]string, n)
		for i := range keys {
			keys[i] = fmt.Sprintf(`"k%d":0`, i)
		}
		return "{" + strings.Join(keys, ",") + "}"
	}
	l := canon.DefaultLimits()
	pad := strings.Repeat(" ", l.Bytes)
	tests := []struct {
		name, good, bad string
		kind            problem.Kind
	}{
		{"depth 32", nested(32), nested(33), problem.Malformed},
		{"depth 32 of objects", strings.Repeat(`{"a":`, 32) + "1" + strings.Repeat("}", 32), strings.Repeat(`{"a":`, 33) + "1" + strings.Repeat("}", 33), problem.Malformed},
		{"siblings do not add up", "[" + strings.Repeat(nested(31)+",", 40) + "0]", "[" + nested(32) + "]", problem.Malformed},
		{"1024 keys", object(1024), object(1025), problem.Malformed},
		{"256 KiB", pad[:l.Bytes-1] + "1", pad + "1", problem.TooLarge},
		{"4300 digits", strings.Repeat("9", 4300), strings.Repeat("9", 4301), problem.Malformed},
		{"4300 digits and a sign", "-" + strings.Repeat("9", 4300), "-" + strings.Repeat("9", 4301), problem.Malformed},
		{"largest float", "1.7976931348623157e308", "1.7976931348623159e308", problem.Malformed},
		{"depth 10000", nested(3), strings.Repeat("[", 10_000), problem.Malformed},
		{"100000 keys", object(3), object(30_000), problem.TooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := canon.Parse([]byte(tt.good), l); err != nil {
				t.Errorf("Parse(%.40q) = %v, want a value", tt.good, err)
			}
			if _, err := canon.Parse([]byte(tt.bad), l); !problem.Is(err, tt.kind) {
				t.Errorf("Parse(%.40q) = %v, want %s", tt.bad, err, tt.kind)
			}
		})
	}
}

func TestADuplicateIsFoundAmongManyKeys(t *testing.T) {
	for _, n := range []int{2, 15, 16, 17, 18, 40, 1000} {
		for _, at := range []int{0, n / 2, n - 1} {
			keys := make([]string, n)
			for i := range keys {
				keys[i] = fmt.Sprintf(`"%d":[{"%d":0}]`, i, i)
			}
			doc := "{" + strings.Join(keys, ",") + fmt.Sprintf(`,"%d":1}`, at)
			if _, err := canon.Parse([]byte(doc), canon.DefaultLimits()); !problem.Is(err, problem.Malformed) || !strings.HasPrefix(err.Error(), fmt.Sprint(at, ": ")) {
				t.Errorf("Parse(%d keys and %d again) = %v, want key %d named", n, at, err, at)
			}
			if _, err := canon.Parse([]byte("{"+strings.Join(keys, ",")+"}"), canon.DefaultLimits()); err != nil {
				t.Errorf("Parse(%d keys) = %v", n, err)
			}
		}
	}
}

func TestAReaderOfTheWrongKindLeavesTheValue(t *testing.T) {
	const doc = `{"s":"7","i":7,"big":9223372036854775808,"f":7.0,"b":true,"n":null,"a":[1],"o":{"k":1},"z":-0,"t":"` + "\u00e9" + `"}`
	reads := []struct {
		want string
		read func(*canon.Decoder) error
	}{
		{"a string", func(d *canon.Decoder) error { _, err := d.String(); return err }},
		{"an integer", func(d *canon.Decoder) error { _, err := d.Int64(); return err }},
		{"a number", func(d *canon.Decoder) error { _, err := d.Float64(); return err }},
		{"a boolean", func(d *canon.Decoder) error { _, err := d.Bool(); return err }},
		{"null", (*canon.Decoder).Null},
		{"an array", func(d *canon.Decoder) error { return d.Array(func(int) error { return d.Skip() }) }},
		{"an object", func(d *canon.Decoder) error { return d.Object(func(string) error { return d.Skip() }) }},
	}
	shown := map[string]string{"s": `"7"`, "i": "7", "big": "9223372036854775808", "f": "7.0", "b": "true", "n": "null",
		"a": "an array", "o": "an object", "z": "-0", "t": `"é"`}
	fits := map[string]string{"s": "a string", "t": "a string", "i": "an integer, a number", "big": "a number", "f": "a number",
		"b": "a boolean", "n": "null", "a": "an array", "o": "an object", "z": "an integer, a number"}
	for _, r := range reads {
		d := canon.NewDecoder([]byte(doc), canon.DefaultLimits())
		err := d.Document(func(key string) error {
			err := r.read(d)
			if strings.Contains(fits[key], r.want) {
				return err
			}
			want := fmt.Sprintf("%s: expected %s, got %s", key, r.want, shown[key])
			if key == "big" && r.want == "an integer" {
				want = "big: expected an integer of at most 64 bits, got 9223372036854775808"
			}
			if !problem.Is(err, problem.Malformed) || err.Error() != want {
				t.Errorf("reading %s as %s = %v, want %s", key, r.want, err, want)
			}
			return d.Skip()
		})
		if err != nil {
			t.Errorf("Document() reading %s everywhere = %v", r.want, err)
		}
	}
}

func TestAnErrorRepeatsNoControls(t *testing.T) {
	for doc, want := range map[string]string{
		"true\x1b[2J":      "body: expected a string, got true",
		"-1.5e3\x00":       "body: expected a string, got -1.5e3",
		"12\u202egnirts":   "body: expected a string, got 12",
		"[\"\\u001b[2J\"]": "body: expected a string, got an array",
	} {
		if _, err := canon.NewDecoder([]byte(doc), small).String(); err == nil || err.Error() != want {
			t.Errorf("String() of %q = %q, want %q", doc, err, want)
		}
	}
	if _, err := canon.NewDecoder([]byte(`"\u001b[2J\u202e"`), small).Int64(); err == nil || err.Error() != `body: expected an integer, got "\x1b[2J\u202e"` {
		t.Errorf("Int64() of a string with controls = %v", err)
	}
}

func TestEachKindIsRead(t *testing.T) {
	d := canon.NewDecoder([]byte(` { "s" : "a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00" , "i":-9223372036854775808,"f":-0.0,"z":-0,"e":2E-2,"t":true,"x":false,"n":null,"a":[1,[2],{}],"r": {"k" : [ 1.50 ]} } `), canon.DefaultLimits())
	var got []any
	err := d.Document(func(key string) error {
		var v any
		var err error
		switch d.Kind() {
		case canon.String:
			v, err = d.String()
		case canon.Int:
			v, err = d.Int64()
		case canon.Float:
			v, err = d.Float64()
			v = fmt.Sprint(v)
		case canon.Bool:
			v, err = d.Bool()
		case canon.Null:
			v, err = nil, d.Null()
		case canon.Array:
			n := 0
			err = d.Array(func(i int) error { n += i + 1; return d.Skip() })
			v = n
		case canon.Object:
			var raw []byte
			raw, err = d.Raw()
			v = string(raw)
		}
		got = append(got, key, v)
		return err
	})
	if err != nil {
		t.Fatalf("Document() = %v", err)
	}
	want := []any{"s", "a\"\\/\b\f\n\r\té😀", "i", int64(-9223372036854775808), "f", "-0", "z", int64(0), "e", "0.02",
		"t", true, "x", false, "n", nil, "a", 6, "r", `{"k" : [ 1.50 ]}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Document() mismatch (-want +got):\n%s", diff)
	}
}

func TestIntegersReadAsFloats(t *testing.T) {
	for doc, want := range map[string]string{"-0": "0.0", "-0.0": "-0.0", "1": "1.0", "9007199254740993": "9007199254740992.0"} {
		f, err := canon.NewDecoder([]byte(doc), small).Float64()
		if got := string(canon.AppendFloat(nil, f)); err != nil || got != want {
			t.Errorf("Float64() of %s = %s, %v, want %s", doc, got, err, want)
		}
	}
	if _, err := canon.NewDecoder([]byte(strings.Repeat("9", 400)), small).Float64(); !problem.Is(err, problem.Malformed) {
		t.Errorf("Float64() of 400 digits = %v, want a refusal", err)
	}
}

func TestStringsOutliveTheBody(t *testing.T) {
	body := []byte(`["plain","esc\u0061ped"]`)
	d := canon.NewDecoder(body, small)
	var got []string
	if err := d.Array(func(int) error {
		s, err := d.String()
		got = append(got, s)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	clear(body)
	if diff := cmp.Diff([]string{"plain", "escaped"}, got); diff != "" {
		t.Errorf("String() changed with the body (-want +got):\n%s", diff)
	}
}

func TestRawIsAPieceThatCannotGrowIntoTheBody(t *testing.T) {
	body := []byte(`[ {"a":1} ,2]`)
	d := canon.NewDecoder(body, small)
	err := d.Array(func(i int) error {
		raw, err := d.Raw()
		if i == 0 {
			if string(raw) != `{"a":1}` {
				t.Errorf("Raw() = %s", raw)
			}
			_ = append(raw, "XXXX"...)
		}
		return err
	})
	if err != nil || string(body) != `[ {"a":1} ,2]` {
		t.Errorf("append to Raw() changed the body to %s (%v)", body, err)
	}
}

func TestADecoderIsUsedAgain(t *testing.T) {
	d := canon.NewDecoder([]byte(`{"a":{"b":`), small)
	if err := d.Skip(); !problem.Is(err, problem.NotJSON) {
		t.Fatalf("Skip() = %v", err)
	}
	d.Reset([]byte(`{"a":{"b":{"c":"\ud800"}}}`), small)
	if err := d.Skip(); !problem.Is(err, problem.Malformed) || !strings.HasPrefix(err.Error(), "c: ") {
		t.Errorf("Skip() after Reset = %v, want the surrogate of c", err)
	}
	d.Reset([]byte(`{}`), small)
	if err := firstOf(d.Skip(), d.End); err != nil {
		t.Errorf("Skip() after Reset = %v", err)
	}
}

func TestDocumentIsOneObject(t *testing.T) {
	for doc, want := range map[string]string{
		"null": "body: expected one JSON object, got null", "[{}]": "body: expected one JSON object, got an array",
		"1": "body: expected one JSON object, got an integer", `"{}"`: "body: expected one JSON object, got a string",
		"true": "body: expected one JSON object, got a boolean", "1.0": "body: expected one JSON object, got a number",
		"{}{}": "body: not JSON: expected the end at byte 2, got '{'", "": "body: not JSON: expected a value at byte 0, got the end",
	} {
		d := canon.NewDecoder([]byte(doc), small)
		if err := d.Document(func(string) error { return d.Skip() }); !problem.Is(err, problem.NotJSON) || err.Error() != want {
			t.Errorf("Document() of %q = %v, want %s", doc, err, want)
		}
	}
	d := canon.NewDecoder([]byte("NaN"), small)
	if err := d.Document(func(string) error { return d.Skip() }); !problem.Is(err, problem.Malformed) {
		t.Errorf("Document() of NaN = %v, want Malformed", err)
	}
}

func TestAnErrorOfTheCallerEndsTheReading(t *testing.T) {
	mine := problem.New(problem.Forbidden, "no more")
	for _, doc := range []string{`{"a":[1,2],"b":1}`, `{"a":[1,2]`} {
		d := canon.NewDecoder([]byte(doc), small)
		err := d.Document(func(string) error { return d.Array(func(int) error { return mine }) })
		if err != error(mine) {
			t.Errorf("Document() = %v, want %v", err, mine)
		}
	}
}
