package kit

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

func TestColoursGoOnlyToTerminals(t *testing.T) {
	var b bytes.Buffer
	file, err := os.CreateTemp(t.TempDir(), "")
	must(t, err)
	defer file.Close()
	for _, w := range []any{&b, file} {
		a := &App{Env: map[string]string{"TERM": "xterm-256color"}}
		got := a.Terminal(w.(interface{ Write([]byte) (int, error) }))
		if Paint(got, Good, "ok") != "ok" || FitLine(got, strings.Repeat("x", 500)) != strings.Repeat("x", 500) {
			t.Errorf("%T is taken for a terminal", w)
		}
	}
	on := terminal{Writer: &b, colours: true}
	for text, want := range map[string]string{"ok": "\x1b[32mok\x1b[0m", "ok  ": "\x1b[32mok\x1b[0m  ", "": ""} {
		if got := Paint(on, Good, text); got != want {
			t.Errorf("Paint(%q) = %q, want %q", text, got, want)
		}
	}
	if got := Paint(terminal{Writer: &b}, Good, "ok"); got != "ok" {
		t.Errorf("Paint without colours = %q", got)
	}
	for s, shade := range map[lifecycle.State]Shade{
		lifecycle.Local: Good, lifecycle.Active: Good, lifecycle.Hibernating: Caution, lifecycle.Stale: Caution, lifecycle.Sunk: Bad, lifecycle.Archived: Bad,
	} {
		if got := PaintState(on, s, string(s)); got != string(shade)+string(s)+resetShade {
			t.Errorf("PaintState(%s) = %q", s, got)
		}
	}
}

func TestRowsFitTheTerminal(t *testing.T) {
	row := "fox  \x1b[32mLOCAL\x1b[0m  aaaaaaaaaaaa  answers lettersé of customers"
	for columns, want := range map[int]string{
		0: row, 200: row, 14: "fox  \x1b[32mLOCAL\x1b[0m  a" + resetShade + "…", 7: "fox  \x1b[32mL" + resetShade + "…",
	} {
		if got := FitLine(terminal{colours: true, width: columns}, row); got != want {
			t.Errorf("in %d columns: %q, want %q", columns, got, want)
		}
	}
	if got := FitLine(terminal{width: 6}, "abcdef"); got != "abcdef" {
		t.Errorf("a row that just fits = %q", got)
	}
	if got := FitLine(terminal{width: 6}, "abcdefg"); got != "abcde…" {
		t.Errorf("a row that is too long = %q", got)
	}
}

func TestTextsAreBrokenAtSpaces(t *testing.T) {
	text := "A paragraph that is longer than\nthe terminal.\n\nShort:\n  --host string   a URL, aws or local, and more words\n  vacancy call demo \"a long text of somebody\"\n  call   Call a vacant and verify its answer\n  url    http://127.0.0.1:8000/v1 by default\n"
	want := `A paragraph that is
longer than the
terminal.

Short:
  --host string   a
      URL, aws or
      local, and more
      words
  vacancy call demo "a long text of somebody"
  call   Call a vacant
         and verify
         its answer
  url    http://127.0.0.1:8000/v1
         by default
`
	if got := WrapText(terminal{width: 22}, text); got != want {
		t.Errorf("WrapText() =\n%s\nwant\n%s", got, want)
	}
	for _, columns := range []int{0, 200} {
		if got := WrapText(terminal{width: columns}, text); got != text {
			t.Errorf("WrapText() in %d columns changes the text:\n%s", columns, got)
		}
	}
	for line := range strings.Lines(WrapText(terminal{width: 40}, strings.Repeat("wörter ", 50))) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 40 {
			t.Errorf("a line of %d characters: %q", n, line)
		}
	}
}
