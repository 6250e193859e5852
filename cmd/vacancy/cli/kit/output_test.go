package kit

import (
	"strings"
	"testing"
)

func TestPrintableEscapesControlCharacters(t *testing.T) {
	if got, want := Printable("a\x1b[2Jb\r\nc\u0085"), `a\u001b[2Jb\u000d\u000ac\u0085`; got != want {
		t.Errorf("printable() = %q, want %q", got, want)
	}
	if got, want := Printable("a\u202eb\u2066c\u200fd"), `a\u202eb\u2066c\u200fd`; got != want {
		t.Errorf("printable() of marks of direction = %q, want %q", got, want)
	}
	a := &App{Out: &strings.Builder{}}
	if got, want := a.AnswerText("a\x1b[2Jb"), "a\x1b[2Jb"; got != want {
		t.Errorf("answerText() into a pipe = %q, want it untouched", got)
	}
	if got, want := EscapeControls("a\x1b\nb\tc", "\n\t"), "a\\u001b\nb\tc"; got != want {
		t.Errorf("escapeControls() = %q, want %q", got, want)
	}
}
