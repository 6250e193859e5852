package bleve

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
)

func FuzzAProofReadsBack(f *testing.F) {
	f.Add("translates", "legal", "a summary", "translates", "other")
	f.Add("", "", "", "", "")
	f.Add("\x1d0", "\x1e", "\x1f", "\x1d0", "é\xff")
	f.Fuzz(func(t *testing.T, capability, tag, summary, first, second string) {
		e := search.Entry{Capability: capability, Tags: []string{tag}, Summary: summary, DeclaredCapabilities: []string{first, second}}
		got := parseProof(string(encodeProof(&e)))
		for g, want := range e.GroupTexts() {
			if diff := cmp.Diff(want, got[g], cmpopts.EquateEmpty(), cmpopts.IgnoreSliceElements(func(s string) bool { return s == "" })); diff != "" {
				t.Errorf("group %d of the proof (-want +got):\n%s", g, diff)
			}
		}
	})
}

func FuzzParseProof(f *testing.F) {
	f.Add("a b\x1fc\x1f\x1esum\x1f\x1e\x1d1\x1f\x1e", "c")
	f.Add("\x1d9\x1e\x1d-1\x1e\x1d99999999999999999999", "")
	f.Fuzz(func(_ *testing.T, s, w string) {
		matchProof(&search.Query{Words: []string{w}, Text: w}, s)
	})
}

func FuzzParseColumn(f *testing.F) {
	f.Add([]byte(encodeColumn(&search.Entry{Score: 0.5, Price: 7, FirstSeq: 9})))
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		step, price, joined, err := parseColumn(b)
		if err != nil {
			return
		}
		if step > search.ScoreSteps {
			return // none that column writes
		}
		e := search.Entry{Score: float64(step) / search.ScoreSteps, Price: price, FirstSeq: joined}
		s, p, j, err := parseColumn([]byte(encodeColumn(&e)))
		if s != step || p != price || j != joined || err != nil {
			t.Errorf("parseColumn(column(%v)) = %d, %d, %d, %v", e, s, p, j, err)
		}
	})
}
