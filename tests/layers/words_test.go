package layers

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// retired are words of an earlier vocabulary, each with the term that replaced
// it. They must not occur in source files, in parts of identifiers or in names of files.
var retired = map[string]string{
	"litter":   "children index",
	"litters":  "children indexes",
	"purse":    "read budget",
	"sealer":   "checkpointer",
	"sentinel": "tamper detector",
	"house":    "server",
	"houses":   "servers",
	"door":     "handler, route or endpoint",
	"doors":    "handlers, routes or endpoints",
	"epos":     "epoch start",
	"anew":     "again",
}

// words splits an identifier at its capitals: controlDoor is control, door.
func words(identifier string) []string {
	var parts []string
	start := 0
	for i, r := range identifier {
		if i > start && (unicode.IsUpper(r) || r == '_') {
			parts = append(parts, strings.ToLower(identifier[start:i]))
			start = i
		}
	}
	return append(parts, strings.ToLower(identifier[start:]))
}

var word = regexp.MustCompile(`[A-Za-z]+`)

func retiredIn(src string) (found []string) {
	line := 0
	for text := range strings.Lines(src) {
		line++
		for _, name := range word.FindAllString(text, -1) {
			for _, w := range words(name) {
				if instead, ok := retired[w]; ok {
					found = append(found, fmt.Sprintf("line %d: %q is now %s", line, w, instead))
				}
			}
		}
	}
	return found
}

func TestRetiredWordsDoNotReturn(t *testing.T) {
	for _, f := range source(t) {
		if strings.HasSuffix(f.path, "layers/words_test.go") {
			continue
		}
		for _, w := range append(retiredIn(filepath.Base(f.path)), retiredIn(string(f.src))...) {
			t.Errorf("%s, %s", f.path, w)
		}
	}
}

func TestRetiredWordsAreFound(t *testing.T) {
	for src, want := range map[string]int{
		`var x = "the house is open"`:        1,
		"var controlDoor int\n":              1,
		"door_linux_test.go":                 1,
		"// The house\n// of Doors is open.": 2,
		"var floor, outdoors, warehouse int": 0,
	} {
		if got := retiredIn(src); len(got) != want {
			t.Errorf("retiredIn(%q) = %q, want %d", src, got, want)
		}
	}
}
