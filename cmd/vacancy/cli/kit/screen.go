package kit

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// escapingWriter is a terminal. Text from others could hide or forge what the user reads, so Write
// escapes the characters that control a terminal, except this program's own escapes.
type escapingWriter struct {
	io.Writer

	mu      sync.Mutex
	pending []byte // incomplete character or escape
}

var ownEscapes = []string{string(Good), string(Bad), string(Caution), string(Dim), string(Bold), resetShade, eraseLine}

func wrapTerminal(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&fs.ModeCharDevice != 0 {
			return &escapingWriter{Writer: f}
		}
	}
	return w
}

func (s *escapingWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, rest := escapeForTerminal(append(s.pending, p...))
	s.pending = rest
	if _, err := io.WriteString(s.Writer, text); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *escapingWriter) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.Writer, EscapeControls(strings.ToValidUTF8(string(s.pending), "\ufffd"), ""))
	s.pending = nil
}

// escapeForTerminal escapes b. rest is the end of b that may be an incomplete character or escape.
func escapeForTerminal(b []byte) (text string, rest []byte) {
	var out strings.Builder
	for len(b) > 0 {
		// Fast path: nearly all output is printable ASCII, and a log may have thousands of lines
		// per second.
		n := bytes.IndexFunc(b, func(r rune) bool { return (r < ' ' || r > '~') && r != '\n' && r != '\t' })
		if n < 0 {
			n = len(b)
		}
		if n > 0 {
			out.Write(b[:n])
			b = b[n:]
			continue
		}
		n, isComplete := matchOwnEscape(b)
		switch {
		case n > 0:
			out.Write(b[:n])
		case !isComplete || !utf8.FullRune(b):
			return out.String(), slices.Clone(b)
		default:
			var r rune
			r, n = utf8.DecodeRune(b)
			out.WriteString(EscapeControls(string(r), "\n\t"))
		}
		b = b[n:]
	}
	return out.String(), nil
}

// matchOwnEscape returns the length of the ownEscapes sequence at the start of b, or 0. isComplete
// is false if more bytes may complete a sequence.
func matchOwnEscape(b []byte) (n int, isComplete bool) {
	if b[0] != '\x1b' && b[0] != '\r' {
		return 0, true
	}
	for _, own := range ownEscapes {
		switch {
		case bytes.HasPrefix(b, []byte(own)):
			return len(own), true
		case strings.HasPrefix(own, string(b)):
			return 0, false
		}
	}
	return 0, true
}

func isTerminal(w io.Writer) bool {
	_, ok := w.(*escapingWriter)
	return ok
}

func isControl(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// EscapeControls escapes the characters that control a terminal, except those in keep. It writes
// JSON escapes, so that JSON text keeps its value.
func EscapeControls(s, keep string) string {
	if strings.IndexFunc(s, isControl) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if isControl(r) && !strings.ContainsRune(keep, r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
