package kit

import (
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

type Shade string

const (
	Good    Shade = "\x1b[32m"
	Bad     Shade = "\x1b[31m"
	Caution Shade = "\x1b[33m"
	Dim     Shade = "\x1b[2m"
	Bold    Shade = "\x1b[1m"

	resetShade = "\x1b[0m"
)

type terminal struct {
	io.Writer
	colours bool
	width   int
}

// Terminal returns a writer that supports colours and line widths if w is a terminal and --json is
// not set. Otherwise it returns w.
func (a *App) Terminal(w io.Writer) io.Writer {
	if a.JSON || !isTerminal(w) {
		return w
	}
	return terminal{w, a.Env["NO_COLOR"] == "" && a.Env["TERM"] != "dumb", terminalWidth(w, a.Env["COLUMNS"])}
}

func terminalWidth(w io.Writer, columnsEnv string) int {
	if n, err := strconv.Atoi(columnsEnv); err == nil && n > 0 {
		return n
	}
	if screen, ok := w.(*escapingWriter); ok {
		if f, ok := screen.Writer.(*os.File); ok {
			return columnsOf(f)
		}
	}
	return 0
}

// Paint returns text in a shade if w comes from Terminal and shows colours. Final spaces are not
// painted.
func Paint(w io.Writer, shade Shade, text string) string {
	if t, ok := w.(terminal); !ok || !t.colours || text == "" {
		return text
	}
	padding := len(text) - len(strings.TrimRight(text, " "))
	return string(shade) + text[:len(text)-padding] + resetShade + text[len(text)-padding:]
}

func PaintState(w io.Writer, s lifecycle.State, text string) string {
	switch s {
	case lifecycle.Local, lifecycle.Active:
		return Paint(w, Good, text)
	case lifecycle.Hibernating, lifecycle.Stale:
		return Paint(w, Caution, text)
	}
	return Paint(w, Bad, text)
}

func PaintVerdict(w io.Writer, ok bool, text string) string {
	if ok {
		return Paint(w, Good, text)
	}
	return Paint(w, Bad, text)
}

// FitLine truncates a table line to the width of a terminal.
func FitLine(w io.Writer, line string) string {
	t, ok := w.(terminal)
	if !ok || t.width < 2 {
		return line
	}
	offset, width, cutOffset := 0, 0, 0 // the cut leaves one column for the ellipsis
	for offset < len(line) {
		if n := escapeLength(line[offset:]); n > 0 {
			offset += n
			continue
		}
		if width == t.width-1 {
			cutOffset = offset
		}
		_, n := utf8.DecodeRuneInString(line[offset:])
		offset += n
		width++
	}
	if width <= t.width {
		return line
	}
	ellipsis := "…"
	if t.colours {
		ellipsis = resetShade + ellipsis
	}
	return line[:cutOffset] + ellipsis
}

func escapeLength(s string) int {
	if !strings.HasPrefix(s, "\x1b[") {
		return 0
	}
	return strings.IndexByte(s, 'm') + 1
}

// WrapText breaks long lines at spaces to the width of a terminal. Indented commands are not
// broken, because people copy them.
func WrapText(w io.Writer, text string) string {
	t, ok := w.(terminal)
	if !ok || t.width < minWrapWidth {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(joinParagraphs(text, t.width)) {
		rest := strings.TrimSuffix(line, "\n")
		indent := hangingIndent(rest, t.width)
		for utf8.RuneCountInString(rest) > t.width && !strings.HasPrefix(strings.TrimSpace(rest), programName+" ") {
			head := string([]rune(rest)[:t.width+1])
			space := strings.LastIndexByte(head, ' ')
			if space <= indent { // the first word is too long for a line
				next := strings.IndexByte(rest[len(head):], ' ')
				if next < 0 {
					break
				}
				space = len(head) + next
			}
			b.WriteString(strings.TrimRight(rest[:space], " ") + "\n")
			rest = strings.Repeat(" ", indent) + strings.TrimLeft(rest[space:], " ")
		}
		b.WriteString(rest + line[len(strings.TrimSuffix(line, "\n")):])
	}
	return b.String()
}

// joinParagraphs joins the lines of each paragraph in which a line is longer than width. Indented
// lines stay, because they form lists and tables.
func joinParagraphs(text string, width int) string {
	lines := strings.Split(text, "\n")
	var out []string
	for start := 0; start < len(lines); {
		end, isLong := start, false
		for end < len(lines) && lines[end] != "" && lines[end][0] != ' ' {
			isLong = isLong || utf8.RuneCountInString(lines[end]) > width
			end++
		}
		switch {
		case end == start:
			end++
			out = append(out, lines[start])
		case isLong:
			out = append(out, strings.Join(lines[start:end], " "))
		default:
			out = append(out, lines[start:end]...)
		}
		start = end
	}
	return strings.Join(out, "\n")
}

const minWrapWidth = 20

// hangingIndent returns the indent of the lines that continue a broken line. In a table it is the
// second column, if that column begins in the left half of the terminal.
func hangingIndent(line string, width int) int {
	lineIndent := len(line) - len(strings.TrimLeft(line, " "))
	if gap := strings.Index(line[lineIndent:], "  "); gap > 0 {
		start := lineIndent + gap
		secondColumn := start + len(line[start:]) - len(strings.TrimLeft(line[start:], " "))
		if secondColumn <= width/2 {
			return secondColumn
		}
		return lineIndent + 4
	}
	return lineIndent
}
