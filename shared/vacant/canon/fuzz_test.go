package canon_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// encoding/json must accept each accepted document, and Parse must accept its canonical form and
// leave it unchanged. Errors must have a kind for bad input.
func FuzzDecode(f *testing.F) {
	for _, c := range vectors[documentCase](f, "testdata/canonical_json.json") {
		f.Add([]byte(c.Input.JSON))
	}
	f.Add([]byte("{\"a\":\"\xed\xa0\x80\"}"))
	f.Add([]byte(`{"a":1,"\u0061":2}`))
	f.Add(bytes.Repeat([]byte("["), 10_000))
	f.Fuzz(func(t *testing.T, doc []byte) {
		v, err := canon.Parse(doc, canon.DefaultLimits())
		d := canon.NewDecoder(doc, canon.DefaultLimits())
		if skipped := firstOf(d.Skip(), d.End); (skipped == nil) != (err == nil) {
			t.Fatalf("Skip() = %v, Parse() = %v of %q", skipped, err, doc)
		}
		if err != nil {
			if k := problem.AsError(err).Kind; k != problem.NotJSON && k != problem.Malformed && k != problem.TooLarge {
				t.Errorf("Parse(%q) = %v of kind %s", doc, err, k)
			}
			return
		}
		if !json.Valid(doc) {
			t.Fatalf("Parse(%q) = %s, which encoding/json refuses", doc, v.AppendCJ(nil))
		}
		cj := v.AppendCJ(nil)
		for _, form := range [][]byte{cj, v.AppendASCII(nil)} {
			// The canonical form can be longer than the document, because it escapes control
			// characters.
			again, err := canon.Parse(form, canon.AnswerLimits())
			if err != nil || !bytes.Equal(again.AppendCJ(nil), cj) {
				t.Fatalf("Parse(%s) = %s, %v, want %s", form, again.AppendCJ(nil), err, cj)
			}
		}
	})
}

// A parsed time that is formatted and parsed again must be the same.
func FuzzParseTime(f *testing.F) {
	for _, c := range vectors[timeCase](f, "testdata/timestamps.json") {
		f.Add(c.Input.Text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, err := canon.ParseTime(s)
		if err != nil {
			if !problem.Is(err, problem.Malformed) {
				t.Errorf("ParseTime(%q) = %v, want Malformed", s, err)
			}
			return
		}
		text := canon.FormatTime(at)
		again, err := canon.ParseTime(text)
		if err != nil || again != at || canon.FormatTime(again) != text {
			t.Errorf("ParseTime(%q) = %s, but ParseTime(%q) = %s, %v", s, at, text, again, err)
		}
	})
}
