package layers

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// retired are words of an earlier vocabulary, each with the term that replaced
// it. A word counts as a whole word of a comment or a string, and as a part of an
// identifier or a file's name.
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

// retiredPhrases are retired combinations of words in comments and strings.
var retiredPhrases = map[string]string{
	"control plane": "admin API",
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
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", src, parser.ParseComments)
	if err != nil {
		return []string{err.Error()}
	}
	note := func(at token.Pos, w string) {
		if instead, ok := retired[w]; ok {
			found = append(found, fmt.Sprintf("line %d: %q is now %s", fset.Position(at).Line, w, instead))
		}
	}
	prose := func(at token.Pos, text string) {
		all := word.FindAllString(strings.ToLower(text), -1)
		for _, w := range all {
			note(at, w)
		}
		for phrase, instead := range retiredPhrases {
			if strings.Contains(strings.Join(all, " "), phrase) {
				found = append(found, fmt.Sprintf("line %d: %q is now %s", fset.Position(at).Line, phrase, instead))
			}
		}
	}
	for _, group := range f.Comments {
		for _, c := range group.List {
			prose(c.Pos(), c.Text)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			for _, w := range words(n.Name) {
				note(n.Pos(), strings.Trim(w, "_0123456789"))
			}
		case *ast.BasicLit:
			prose(n.Pos(), n.Value)
		}
		return true
	})
	return found
}

func TestRetiredWordsDoNotReturn(t *testing.T) {
	for _, f := range source(t) {
		if strings.HasSuffix(f.path, "layers/words_test.go") {
			continue
		}
		for part := range strings.FieldsFuncSeq(filepath.Base(f.path), func(r rune) bool { return r == '_' || r == '.' }) {
			if instead, ok := retired[part]; ok {
				t.Errorf("%s: %q is now %s", f.path, part, instead)
			}
		}
		for _, w := range retiredIn(string(f.src)) {
			t.Errorf("%s, %s", f.path, w)
		}
	}
}

func TestRetiredWordsAreFound(t *testing.T) {
	for src, want := range map[string]int{
		`package p; var x = "the house is open"`:                  1,
		"package p\n\nvar controlDoor int\n":                      1,
		"package p\n\n// The house is open.\nvar x int\n":         1,
		"package p\n\n// The Control plane is open.\nvar x int\n": 1,
		"package p\n\nvar floor, outdoors, warehouse int\n":       0,
	} {
		if got := retiredIn(src); len(got) != want {
			t.Errorf("retiredIn(%q) = %q, want %d", src, got, want)
		}
	}
}
