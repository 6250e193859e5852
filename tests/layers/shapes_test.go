package layers

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var listShapes = flag.String("shapes", "", "list the shapes below this path, such as shared/host; . lists all")

// commentShapes are the numbers of shapes in comments by path. A number may only
// fall, and a path that is not listed has none.
var commentShapes = map[string]int{
	"shared/front/op": 2,
}

// textShapes are the numbers of shapes in texts that users read: strings of
// programs, and pages. They fall to none.
var textShapes = map[string]int{}

// rules names the place of the rules in a failure.
const rules = "the rules are the shapes in tests/layers/shapes_test.go, each with what to write instead"

// A shape is a form of sentence that readers had to read twice. It is searched
// in text whose lines are joined.
type shape struct {
	name  string
	write string // what readers understood
	find  *regexp.Regexp
	plain *regexp.Regexp // matches of find that are plain English
}

var shapes = []shape{
	{
		"X is what", "a verb, as in: CompleteUntil returns the time before which usage has every row",
		regexp.MustCompile(`(?m)^[A-Z]\w*(?:(?:,| and|, and) \w+)* (?:is|are) (?:until |since |by |for |from |in |to |at )?(?:what|whom|who|whose|when|where|how|why|which)\b|\b(?:is|are|was|were|be) (?:(?:until|since|by|for|from) )?(?:what|whom|who|whose|until when|since when|how many|how much|how long|how often)\b`),
		nil,
	},
	{
		"that of", "the noun again",
		regexp.MustCompile(`(?:\w+ )?\b(?:[Tt]hat|[Tt]hose) of\b`), regexp.MustCompile(`^so that `),
	},
	{
		"; 0: none", "a sentence, as in: Zero means no limit",
		regexp.MustCompile(`(?m)(?:^|[;(,] ?|[.] )(?:0|nil|""|[Zz]ero|[Ee]mpty|Nil|[Aa]bsent|[Nn]one|[Ff]alse|[Tt]rue): \S|[;,] (?:nil|0|""|empty|none) if (?:there (?:is|are)|it has|they have|it is) no(?:ne|t)?\b`), nil,
	},
	{
		"is no X", "is not an X, or what it is",
		regexp.MustCompile(`(?:\w+ ){0,2}\b(?:is|are|was|were|be|been) no \w+`),
		regexp.MustCompile(`\b[Tt]here (?:may |can |will |should )?(?:is|are|was|were|be)|no (?:longer|more|later|earlier|less|greater|smaller|larger|bigger|better|worse|older|newer|other)$`),
	},
	{
		"alone", "only",
		regexp.MustCompile(`\w+ alone\b`), regexp.MustCompile(`^(?:let|lets|leave|leaves|left|stand|stands) `),
	},
	{
		"of-chain", "a noun phrase, as in: daily request quota per tier",
		regexp.MustCompile(`\bof(?: [\w'’/-]+){1,4} of(?: [\w'’/-]+){1,4} of\b`), nil,
	},
	{
		"what Y gives of Z", "a sentence whose subject is the noun",
		regexp.MustCompile(`\b[Ww]hat (?:[\w'’-]+ ){0,4}of\b`), nil,
	},
}

// A finding is one shape in one text.
type finding struct {
	path  string
	line  int
	shape shape
	text  string
}

// find returns the shapes in text.
func find(path string, line int, text string) (found []finding) {
	for _, s := range shapes {
		for _, at := range s.find.FindAllStringIndex(text, -1) {
			match := text[at[0]:at[1]]
			if s.plain != nil && s.plain.MatchString(match) {
				continue
			}
			found = append(found, finding{path, line, s, strings.TrimSpace(text[max(0, at[0]-30):min(len(text), at[1]+30)])})
		}
	}
	return found
}

// paragraphs joins the lines of each paragraph.
func paragraphs(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(text, "\n\n", "\x00"), "\n", " "), "\x00", "\n")
}

// paraphrase reports whether a doc comment has only words of the name that it
// explains, as in: Scopes are all scopes.
func paraphrase(name, doc string) bool {
	rest, ok := strings.CutPrefix(strings.TrimSpace(doc), name+" ")
	if !ok || strings.Count(rest, ".") > 1 {
		return false
	}
	known := words(name)
	for _, w := range word.FindAllString(strings.ToLower(rest), -1) {
		switch w {
		case "is", "are", "returns", "the", "a", "an", "all", "of", "its", "their", "every", "each":
		default:
			if !slices.ContainsFunc(known, func(k string) bool {
				return k == w || strings.TrimSuffix(k, "s") == strings.TrimSuffix(w, "s")
			}) {
				return false
			}
		}
	}
	return true
}

var paraphrased = shape{name: "a name paraphrased", write: "no comment, or what the name does not say"}

// inComments returns the shapes in the comments of a file.
func inComments(path string, fset *token.FileSet, f *ast.File) (found []finding) {
	for _, group := range f.Comments {
		found = append(found, find(path, fset.Position(group.Pos()).Line, paragraphs(group.Text()))...)
	}
	doc := func(name string, doc *ast.CommentGroup) {
		if doc != nil && paraphrase(name, doc.Text()) {
			found = append(found, finding{path, fset.Position(doc.Pos()).Line, paraphrased, strings.TrimSpace(doc.Text())})
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			doc(d.Name.Name, d.Doc)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					doc(s.Name.Name, d.Doc)
					doc(s.Name.Name, s.Doc)
				case *ast.ValueSpec:
					doc(s.Names[0].Name, d.Doc)
					doc(s.Names[0].Name, s.Doc)
				}
			}
		}
	}
	return found
}

// inStrings returns the shapes in the strings of a program. Concatenated strings
// are one text.
func inStrings(path string, fset *token.FileSet, f *ast.File) (found []finding) {
	var text func(e ast.Expr) (string, bool)
	text = func(e ast.Expr) (string, bool) {
		switch e := e.(type) {
		case *ast.BasicLit:
			s, err := strconv.Unquote(e.Value)
			return s, err == nil && e.Kind == token.STRING
		case *ast.BinaryExpr:
			a, okA := text(e.X)
			b, okB := text(e.Y)
			return a + b, e.Op == token.ADD && (okA || okB)
		}
		return "…", false
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case ast.Expr:
			if s, ok := text(n); ok {
				found = append(found, find(path, fset.Position(n.Pos()).Line, paragraphs(s))...)
				return false
			}
		}
		return true
	})
	return found
}

var fence = regexp.MustCompile("(?ms)^ *```.*?^ *```$")

// inPage returns the shapes in a page of Markdown, without its code.
func inPage(path, page string) (found []finding) {
	page = fence.ReplaceAllStringFunc(page, func(code string) string { return strings.Repeat("\n", strings.Count(code, "\n")) })
	line := 1
	for part := range strings.SplitSeq(page, "\n\n") {
		text := part
		if strings.HasPrefix(part, "|") {
			text = strings.ReplaceAll(strings.ReplaceAll(part, "\n", "\n\n"), "|", "\n\n")
		}
		found = append(found, find(path, line, paragraphs(strings.ReplaceAll(text, "`", "")))...)
		line += strings.Count(part, "\n") + 2
	}
	return found
}

// allShapes returns the shapes of the project: in comments, and in what users
// read. Tests and the packages that only tests import show users nothing.
func allShapes(t *testing.T) (comments, texts []finding) {
	t.Helper()
	top := filepath.Join("..", "..")
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{".git", "testdata", "node_modules", "cdk.out"}, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(top, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch filepath.Ext(rel) {
		case ".md":
			if rel == "cmd/vacancy/REFERENCE.md" {
				return nil // made of strings, which are counted in their programs
			}
			b, err := os.ReadFile(path)
			texts = append(texts, inPage(rel, string(b))...)
			return err
		case ".go":
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			if rel == "tests/layers/shapes_test.go" {
				return nil
			}
			comments = append(comments, inComments(rel, fset, f)...)
			if !strings.HasSuffix(rel, "_test.go") && !strings.HasPrefix(rel, "tests/") && !strings.HasSuffix(filepath.Dir(rel), "test") {
				texts = append(texts, inStrings(rel, fset, f)...)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return comments, texts
}

// areaOf returns the longest path of table that contains path.
func areaOf(path string, table map[string]int) string {
	best := ""
	for a := range table {
		if (path == a || strings.HasPrefix(path, a+"/")) && len(a) > len(best) {
			best = a
		}
	}
	return best
}

// The numbers of shapes only fall. To list the shapes below a path:
// go test ./tests/layers -v -run Sentences -shapes shared/host
func TestSentencesHaveFewShapesThatAreReadTwice(t *testing.T) {
	comments, texts := allShapes(t)
	for _, kind := range []struct {
		name  string
		found []finding
		table map[string]int
	}{{"comments", comments, commentShapes}, {"texts", texts, textShapes}} {
		byArea := map[string][]finding{}
		byPackage, byShape := map[string]int{}, map[string]int{}
		for _, f := range kind.found {
			a := areaOf(f.path, kind.table)
			byArea[a] = append(byArea[a], f)
			if *listShapes != "" && (*listShapes == "." || strings.HasPrefix(f.path, *listShapes)) {
				byPackage[filepath.Dir(f.path)]++
				byShape[f.shape.name]++
				fmt.Printf("%s:%d: %s: %s: %q\n", f.path, f.line, kind.name, f.shape.name, f.text)
			}
		}
		if *listShapes != "" {
			for _, pkg := range slices.SortedFunc(maps.Keys(byPackage), func(a, b string) int { return byPackage[b] - byPackage[a] }) {
				fmt.Printf("%5d %s of %s\n", byPackage[pkg], kind.name, pkg)
			}
			for _, name := range slices.Sorted(maps.Keys(byShape)) {
				fmt.Printf("%5d %s: %s\n", byShape[name], kind.name, name)
			}
		}
		for a := range kind.table {
			if _, ok := byArea[a]; !ok {
				byArea[a] = nil
			}
		}
		for _, a := range slices.Sorted(maps.Keys(byArea)) {
			found, most := byArea[a], kind.table[a]
			switch {
			case len(found) > most:
				t.Errorf("%s of %s have %d shapes that are read twice, want at most %d; %s", kind.name, cmp.Or(a, "."), len(found), most, rules)
				for i, f := range found {
					if most > 0 && i == 20 {
						t.Logf("… and more: -shapes %s", cmp.Or(a, "."))
						break
					}
					t.Logf("%s:%d: %s: %q; write %s", f.path, f.line, f.shape.name, f.text, f.shape.write)
				}
			case len(found) < most:
				t.Errorf("%s of %s have %d shapes, fewer than %d: write the smaller number here", kind.name, cmp.Or(a, "."), len(found), most)
			}
		}
	}
}

func TestShapesAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"Complete is until when usage has all rows.":     "X is what",
		"Key, and Name are what a client sends.":         "X is what",
		"It is how long a call may take.":                "X is what",
		"The path is where Stripe sends.":                "",
		"Its errors are those of the store.":             "that of",
		"It is cut, so that of two writers one is told.": "",
		"Stop ends the turn; nil: never.":                "; 0: none",
		"nil: there are none":                            "; 0: none",
		"the last position, 0 if there is none":          "; 0: none",
		"With nil, it never ends.":                       "",
		"Ports are 80: 443 is refused.":                  "",
		"it is no JSON-RPC":                              "is no X",
		"There is no manifest, and it is no longer here": "",
		"There may be no room.":                          "",
		"Only the head moves, and the tip alone counts":  "alone",
		"The rows are left alone.":                       "",
		"the row of the table of the rows of a stream":   "of-chain",
		"the size of a page of rows":                     "",
		"What a substrate leaves of an agent is lost.":   "what Y gives of Z",
		"What a host signs, others verify.":              "",
	} {
		var got []string
		for _, f := range find("p", 1, text) {
			got = append(got, f.shape.name)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("find(%q) = %q, want %q", text, got, want)
		}
	}
	for doc, want := range map[string]bool{
		"Scopes are all scopes.":                  true,
		"Scopes returns the scopes.":              true,
		"Scopes are the permissions of a key.":    false,
		"AllScopes returns scopes in their order": false,
	} {
		if got := paraphrase("Scopes", doc); got != want {
			t.Errorf("paraphrase(%q) = %t, want %t", doc, got, want)
		}
	}
	page := "# Title\n\n```\nx; 0: none\n```\n\n| a | b |\n|---|---|\n| `it` is no X | c |\n"
	if got := inPage("p", page); len(got) != 1 || got[0].shape.name != "is no X" {
		t.Errorf("inPage() = %v, want one", got)
	}
}
