package layers

import (
	"bytes"
	"strings"
	"testing"
)

// maxLines limits the production lines of each part of the project. A limit may fall. A feature that
// needs more lines raises it in a commit of its own that says why.
var maxLines = map[string]int{
	"cmd/":          34_400,
	"shared/front/": 29_400,
	"shared/host/":  72_300,
	"":              32_200, // the rest
}

func TestTheProjectDoesNotGrow(t *testing.T) {
	lines := map[string]int{}
	for _, f := range source(t) {
		if f.test {
			continue
		}
		part := ""
		for name := range maxLines {
			if strings.HasPrefix(f.path, name) && len(name) > len(part) {
				part = name
			}
		}
		lines[part] += bytes.Count(f.src, []byte("\n"))
	}
	for part, limit := range maxLines {
		if lines[part] > limit {
			t.Errorf("%q has %d production lines, want at most %d", part, lines[part], limit)
		}
	}
}
