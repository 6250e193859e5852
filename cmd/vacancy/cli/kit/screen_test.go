package kit

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// hostile are pieces of texts of others.
var hostile = []string{
	"a", "é", "法", "🦊", "\"", "\\", "\\u009b", "<&>", " ", "\x00", "\x07", "\b", "\x1b", "\x1b[2J", "\x1b]0;title\x07", "\x1b[32", "\x1b[3", "\r", "\r\x1b[", "\x7f",
	"\u0080", "\u0085", "\u009b31m", "\u009d", "\u009f", "\u061c", "\u200e", "\u200f", "\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069", "\u2028",
	"\xff", "\x9b", "\xc2", "\xe2\x80", "\ufffd",
}

func hostileText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(12) {
		b.WriteString(hostile[r.IntN(len(hostile))])
	}
	return b.String()
}

// withoutOwn returns a text without the own escapes.
func withoutOwn(text string) string {
	for _, own := range ownEscapes {
		text = strings.ReplaceAll(text, own, "")
	}
	return text
}

// onScreen returns the bytes that a screen writes to its terminal.
func onScreen(t *testing.T, writes ...string) string {
	t.Helper()
	var b strings.Builder
	s := &escapingWriter{Writer: &b}
	for _, w := range writes {
		if n, err := s.Write([]byte(w)); n != len(w) || err != nil {
			t.Fatalf("Write(%q) = %d, %v", w, n, err)
		}
	}
	s.flush()
	return b.String()
}

func TestNoTextSteersATerminal(t *testing.T) {
	if got, want := onScreen(t, "a\u009bb\u202ec\x1b[2Jd\r\n\tfertig\xff"), "a\\u009bb\\u202ec\\u001b[2Jd\\u000d\n\tfertig\ufffd"; got != want {
		t.Errorf("on a terminal: %q, want %q", got, want)
	}
	if got, want := onScreen(t, string(Good)+"ok"+resetShade, eraseLine+"5 s"), string(Good)+"ok"+resetShade+eraseLine+"5 s"; got != want {
		t.Errorf("own escapes on a terminal: %q, want %q", got, want)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		text := hostileText(r)
		whole := onScreen(t, text)
		if rest := withoutOwn(whole); strings.ContainsFunc(rest, func(c rune) bool { return isControl(c) && c != '\n' && c != '\t' }) || !utf8.ValidString(whole) {
			t.Fatalf("%q on a terminal: %q", text, whole)
		}
		var writes []string
		for rest := text; rest != ""; {
			n := 1 + r.IntN(len(rest))
			writes, rest = append(writes, rest[:n]), rest[n:]
		}
		if got := onScreen(t, writes...); got != whole {
			t.Fatalf("%q in the writes %q: %q, want %q", text, writes, got, whole)
		}
	}
}

func TestJSONWithoutControlsHasTheSameValue(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		value := map[string]any{strings.ToValidUTF8(hostileText(r), "?"): []any{strings.ToValidUTF8(hostileText(r), "?"), 1.5, nil}}
		raw, err := json.Marshal(value)
		must(t, err)
		for _, v := range []any{value, json.RawMessage(raw)} {
			var b strings.Builder
			must(t, WriteJSON(&b, v))
			line, ended := strings.CutSuffix(b.String(), "\n")
			if !ended || strings.ContainsFunc(line, isControl) {
				t.Fatalf("WriteJSON(%q) = %q", value, line)
			}
			var got map[string]any
			if err := json.Unmarshal([]byte(line), &got); err != nil || !reflect.DeepEqual(got, value) {
				t.Fatalf("WriteJSON(%q) = %q, which is %q, %v", value, line, got, err)
			}
		}
	}
}

func FuzzScreen(f *testing.F) {
	for _, s := range hostile {
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, text string, at int) {
		at = max(0, min(at, len(text)))
		first, rest := escapeForTerminal([]byte(text[:at]))
		second, end := escapeForTerminal(append(rest, text[at:]...))
		shown := withoutOwn(first + second)
		if strings.ContainsFunc(shown, func(c rune) bool { return isControl(c) && c != '\n' && c != '\t' }) {
			t.Errorf("%q: %q", text, shown)
		}
		if whole, rest := escapeForTerminal([]byte(text)); whole != first+second || string(rest) != string(end) {
			t.Errorf("%q at %d: %q and %q, want %q and %q", text, at, first+second, end, whole, rest)
		}
	})
}
