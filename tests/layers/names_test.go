package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	participleNames = shape{name: "participle as a function", write: "a verb, is… for a boolean, or a noun for a getter"}
	emptyLocals     = shape{name: "empty local name", write: "a noun of the domain"}
)

var emptyNames = []string{"one", "all", "at", "of", "most", "says", "said", "known", "was"}

// participle matches one word in lower case, without un-.
var participle = regexp.MustCompile(`^(?:.*[^e]ed|agreed|freed|guaranteed|written|taken|overtaken|given|forgiven|known|seen|shown|chosen|broken|spoken|proven|driven|frozen|hidden|` +
	`forgotten|drawn|grown|thrown|torn|worn|gone|held|kept|sent|made|built|found|left|lost|paid|said|sold|told|bound|spent|meant|brought|caught|begun|shaken)$`)

// nouns and verbs are words that participle matches.
var nounsAndVerbs = []string{"embed", "shed", "shred", "sled", "bed", "red", "wed"}

func isParticiple(name string) bool {
	w := strings.ToLower(name)
	return len(words(name)) == 1 && participle.MatchString(strings.TrimPrefix(w, "un")) && !slices.Contains(nounsAndVerbs, w)
}

// inNames returns the shapes in names of functions and in declarations of locals and parameters.
func inNames(path string, fset *token.FileSet, f *ast.File) (found []finding) {
	declare := func(names ...*ast.Ident) {
		for _, id := range names {
			if id != nil && slices.Contains(emptyNames, id.Name) {
				found = append(found, finding{path, fset.Position(id.Pos()).Line, emptyLocals, id.Name})
			}
		}
	}
	declareIn := func(names ...ast.Expr) {
		for _, e := range names {
			id, _ := e.(*ast.Ident)
			declare(id)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if isParticiple(n.Name.Name) {
				found = append(found, finding{path, fset.Position(n.Pos()).Line, participleNames, n.Name.Name})
			}
		case *ast.FuncType:
			fields := n.Params.List
			if n.Results != nil {
				fields = slices.Concat(fields, n.Results.List)
			}
			for _, field := range fields {
				declare(field.Names...)
			}
		case *ast.DeclStmt:
			for _, spec := range n.Decl.(*ast.GenDecl).Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					declare(v.Names...)
				}
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				declareIn(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				declareIn(n.Key, n.Value)
			}
		}
		return true
	})
	return found
}

func TestNamesAreFound(t *testing.T) {
	src := `package p
func Written() {}
func unseen(most int, f func(at int)) (said bool) {
	var one, two int
	all, err := 1, 2
	for was := range 3 {}
	all = 4
}
func Feed(allowed bool) { embed, parsedNames := 1, 2 }
func isParsed() {}`
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range inNames("p.go", fset, f) {
		got = append(got, x.text)
	}
	if want := "Written unseen most said at one all was"; strings.Join(got, " ") != want {
		t.Errorf("inNames() = %q, want %q", got, want)
	}
}
