package canon_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

func lenient() canon.Limits {
	l := canon.DefaultLimits()
	l.Lenient = true
	return l
}

// A lenient decoder accepts values with defects if it skips them, but not if it reads them. A strict
// decoder refuses each of these documents.
func TestALenientDecoderChecksOnlyWhatIsRead(t *testing.T) {
	for doc, want := range map[string]string{
		`{"a":"x","odd":"\ud800"}`:                            "",
		`{"odd":1,"odd":{"odd":2,"odd":"\udfff"},"a":"x"}`:    "",
		`{"odd":[1e999],"a":"x"}`:                             "",
		`{"odd":` + strings.Repeat("9", 5000) + `,"a":"x"}`:   "",
		`{"n":1.0,"a":"x"}`:                                   "",
		`{"n":-3e2,"a":"x"}`:                                  "",
		`{"n":null,"in":null,"list":null,"raw":null,"a":"x"}`: "",
		`{"a":"x","a":"y"}`:                                   "a: expected the key once",
		`{"a":"\ud800"}`:                                      "whole characters",
		`{"n":1.5,"a":"x"}`:                                   "n: expected an integer, got 1.5",
		`{"n":9007199254740993.0,"a":"x"}`:                    "n: expected an integer",
		`{"n":1e19,"a":"x"}`:                                  "n: expected an integer",
		`{"a":null}`:                                          "a: expected a string, got null",
		`{"in":{"odd":1,"b":"x","b":"y"},"a":"x"}`:            "b: expected the key once",
		`{"raw":{"c":1,"c":2},"a":"x"}`:                       "c: expected the key once",
		`{"odd":01,"a":"x"}`:                                  "not JSON",
		`{"odd":"\x","a":"x"}`:                                "not JSON",
		"\uFEFF" + `{"a":"x"}`:                                "byte order mark",
		`{"odd":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `,"a":"x"}`: "nesting of at most 32",
	} {
		var to struct {
			N  int64  `json:"n"`
			A  string `json:"a" canon:"required"`
			In *struct {
				B string `json:"b"`
			} `json:"in"`
			Raw  json.RawMessage `json:"raw"`
			List []string        `json:"list"`
		}
		d := canon.NewDecoder([]byte(doc), lenient())
		err := d.Document(func(key string) (err error) {
			switch key {
			case "n":
				if d.Kind() == canon.Null {
					return d.Null()
				}
				to.N, err = d.Int64()
			case "a":
				to.A, err = d.String()
			case "in":
				if d.Kind() == canon.Null {
					return d.Null()
				}
				err = d.Object(func(key string) error {
					if key != "b" {
						return d.Skip()
					}
					_, err := d.String()
					return err
				})
			case "raw":
				_, err = d.Raw()
			default:
				err = d.Skip()
			}
			return err
		})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(problem.AsError(err).Text(), want) {
			t.Errorf("%.80s: %v, want %q", doc, err, want)
		}
		if strings.Contains(doc, "odd") {
			continue // Unmarshal refuses unknown members
		}
		if err := canon.Unmarshal([]byte(doc), &to, lenient()); (err == nil) != (want == "") || err != nil && !strings.Contains(problem.AsError(err).Text(), want) {
			t.Errorf("Unmarshal(%.80s) = %v, want %q", doc, err, want)
		}
		if err := canon.Unmarshal([]byte(doc), &to, canon.DefaultLimits()); err == nil {
			t.Errorf("a strict Unmarshal(%.80s) succeeds", doc)
		}
	}
}

func TestASpanComesUnchanged(t *testing.T) {
	const value = `{"a":"\ud800", "a":1e999}`
	d := canon.NewDecoder([]byte(`[ `+value+` ]`), lenient())
	err := d.Array(func(int) error {
		got, err := d.SkipRaw()
		if string(got) != value {
			t.Errorf("Span() = %s", got)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	d = canon.NewDecoder([]byte(`{"a":1,"a":2}`), lenient())
	if err := d.Object(func(string) error { _, err := d.SkipRaw(); return err }); err == nil {
		t.Error("a span may come twice")
	}
}

// FuzzLenient checks that a lenient decoder skips only JSON, and that it accepts all documents that
// a strict decoder accepts.
func FuzzLenient(f *testing.F) {
	for _, doc := range []string{`{"a":"\ud800","a":1e999}`, `[01]`, "{\"a\":\"\xed\xa0\x80\"}", `{"a":{"a":[]},"a":-0.0e-7}`, "\uFEFF7"} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		d, strict := canon.NewDecoder(doc, lenient()), canon.NewDecoder(doc, canon.DefaultLimits())
		err, strictErr := firstOf(d.Skip(), d.End), firstOf(strict.Skip(), strict.End)
		if err == nil && !json.Valid(doc) {
			t.Errorf("%q is skipped, which is not JSON", doc)
		}
		if err != nil && strictErr == nil {
			t.Errorf("%q: %v, but a strict decoder accepts it", doc, err)
		}
		if _, err := canon.Parse(doc, lenient()); (err == nil) != (strictErr == nil) {
			t.Errorf("Parse(%q) = %v, a strict Skip %v", doc, err, strictErr)
		}
	})
}
