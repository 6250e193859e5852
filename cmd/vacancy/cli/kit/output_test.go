package kit

import (
	"errors"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestPrintableEscapesControlCharacters(t *testing.T) {
	if got, want := EscapeLine("a\x1b[2Jb\r\nc\u0085"), `a\u001b[2Jb\u000d\u000ac\u0085`; got != want {
		t.Errorf("printable() = %q, want %q", got, want)
	}
	if got, want := EscapeLine("a\u202eb\u2066c\u200fd"), `a\u202eb\u2066c\u200fd`; got != want {
		t.Errorf("printable() of marks of direction = %q, want %q", got, want)
	}
	a := &App{Out: &strings.Builder{}}
	if got, want := a.FormatAnswer("a\x1b[2Jb"), "a\x1b[2Jb"; got != want {
		t.Errorf("answerText() into a pipe = %q, want it untouched", got)
	}
	if got, want := EscapeControls("a\x1b\nb\tc", "\n\t"), "a\\u001b\nb\tc"; got != want {
		t.Errorf("escapeControls() = %q, want %q", got, want)
	}
}

func TestAnErrorSaysNothingTwice(t *testing.T) {
	cause := problem.Wrap(problem.Unavailable, errors.New("refused"), "no answer")
	quoting := problem.Wrap(problem.Unavailable, cause, "URL: %s", cause.Text())
	for want, p := range map[string]*problem.Error{
		"no answer: refused":                 cause,
		"URL: no answer: refused":            quoting,
		"search: URL: no answer: refused":    problem.Wrap(problem.Unavailable, quoting, "search: %s", quoting.Text()),
		"it failed: URL: no answer: refused": problem.Wrap(problem.Unavailable, quoting, "it failed"),
	} {
		if got := TextWithCauses(p); got != want {
			t.Errorf("whole() = %q, want %q", got, want)
		}
	}
}
