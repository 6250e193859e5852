package web

import "strings"

// compact removes indentation, empty lines and comment lines from an asset. A test checks that the
// assets have no multi-line strings that compact would change.
func compact(source string) string {
	var b strings.Builder
	inComment := false
	for line := range strings.Lines(source) {
		line = strings.TrimSpace(line)
		switch {
		case inComment:
			inComment = !strings.HasSuffix(line, "*/")
			continue
		case strings.HasPrefix(line, "/*"):
			end := strings.Index(line, "*/")
			if end < 0 {
				inComment = true
				continue
			}
			// Code may follow a JSDoc type comment on the same line.
			line = strings.TrimSpace(line[end+len("*/"):])
		}
		if line != "" && !strings.HasPrefix(line, "//") {
			b.WriteString(line)
			b.WriteByte('\n')
		}
	}
	return b.String()
}
