package canon

import (
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestCheckTextRefusesWhatSplitsOrHidesText(t *testing.T) {
	tests := map[string]string{
		"":              "",
		"plain":         "",
		"ZH↔EN\u2028 😀": "",
		"a\x1fb":        "f: expected no control characters, got U+001F at byte 1",
		"a\nb":          "f: expected no control characters, got U+000A at byte 1",
		"é\x7f":         "f: expected no control characters, got U+007F at byte 2",
		"\u0085":        "f: expected no control characters, got U+0085 at byte 0",
		"a\xff":         "f: expected UTF-8, got other bytes",
		"\xed\xa0\x80":  "f: expected UTF-8, got other bytes",
	}
	for s, want := range tests {
		err := CheckSignedText("f", s)
		if want == "" && err != nil || want != "" && (!problem.Is(err, problem.Malformed) || err.Error() != want) {
			t.Errorf("CheckText(%q) = %v, want %q", s, err, want)
		}
	}
}

func TestIsBlankIsPythonsStrip(t *testing.T) {
	for s, want := range map[string]bool{"": true, " \t\r\n\v\f": true, "\x1c\x1d\x1e\x1f": true, "\u0085\u00a0\u2003\u3000": true, "\u200b": false, " x ": false, "\x00": false} {
		if got := IsBlank(s); got != want {
			t.Errorf("IsBlank(%q) = %t, want %t", s, got, want)
		}
	}
}
