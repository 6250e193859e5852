package web

import "strings"

// compact removes the comments that have lines of their own, the indentation and the empty lines of a script or style.
// A reader of the source needs them, a browser loads a third less. The files have no text that spans lines and begins a
// line like a comment; a test checks that.
func compact(source string) string {
	var b strings.Builder
	comment := false
	for line := range strings.Lines(source) {
		line = strings.TrimSpace(line)
		switch {
		case comment:
			comment = !strings.HasSuffix(line, "*/")
			continue
		case strings.HasPrefix(line, "/*"):
			end := strings.Index(line, "*/")
			if end < 0 {
				comment = true
				continue
			}
			// A type before a value begins a line, too.
			line = strings.TrimSpace(line[end+len("*/"):])
		}
		if line != "" && !strings.HasPrefix(line, "//") {
			b.WriteString(line)
			b.WriteByte('\n')
		}
	}
	return b.String()
}
