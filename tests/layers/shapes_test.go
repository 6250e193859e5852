package layers

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var listShapes = flag.String("shapes", "", "list the shapes below this path, such as shared/host; . lists all")

// limits are the numbers of shapes by kind of text. A number may only fall, and a shape
// that is not listed must not occur. If a number falls by a tenth, write the smaller one.
var limits = map[string]map[string]int{
	"comments":          {},
	"comments of tests": {"With X,": 18, "fragment": 129, "function X is": 446, "nobody": 220},
	"texts":             {}, // strings of programs, and pages
	"names":             {"empty local name": 13, "participle as a function": 4},
}

// A shape is a form of sentence or name that readers had to read twice. It is searched in text
// whose lines are joined.
type shape struct {
	name  string
	write string // what readers understood
	find  *regexp.Regexp
	plain *regexp.Regexp // matches the plain English among the matches of find
}

var shapes = []shape{
	{"control plane", "admin API", regexp.MustCompile(`(?i)\bcontrol plane\b`), nil},
	{
		"X is what", "a verb, as in: CompleteUntil returns the time before which usage has every row",
		regexp.MustCompile(`(?m)^[A-Z]\w*(?:(?:,| and|, and) \w+)* (?:is|are) (?:until |since |by |for |from |in |to |at )?(?:what|whom|who|whose|when|where|why)\b|\b(?:is|are|was|were|be) (?:(?:until|since|by|for|from) )?(?:what|whom|who|whose|until when|since when)\b`),
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

const verb = `\b(?:is|are|was|were|be|been|has|have|had|do|did|can|could|may|might|must|shall|should|will|would|\w+n't|\w+ed|\w{3,}s)\b`

// commentShapes are searched in comments only.
var commentShapes = []shape{
	{
		"nobody", "who or what acts, in the positive: a turn whose runner has died",
		regexp.MustCompile(`\b(?:[Nn]obody|[Nn]o one)\b|(?:\w+ )?\b[Nn]othing\b(?: \w+)?`),
		regexp.MustCompile(`^(?:[Dd]o|does|did|doing|almost) |^Nothing$|[Nn]othing (?:to|else)$`),
	},
	{
		"With X,", "a condition with If or When",
		regexp.MustCompile(`(?m)(?:^|[.:!?] )With(?:out)? [^,.;:\n]{1,50},`), regexp.MustCompile(`With (?:is|has)`),
	},
	{
		"fragment", "a noun phrase or a sentence",
		regexp.MustCompile(`(?m)^(?:of|its|it|so|as|by|before) [^,.;:\n]*(?:[,.;]|$)|(?:\bexample)?, (?:of|by) [^,.;:\n]*(?:[.] |[.]?$)|; [^".;:\n(]+[.](?: |$)`),
		regexp.MustCompile(verb + `|^example, |^; (?:never|put|return|see|use) `),
	},
}

// functionIs is searched in comments of functions only.
var functionIs = shape{
	"function X is", "a verb in the third person: formatTime formats a wire timestamp",
	regexp.MustCompile(`^\w+(?:(?:,|,? and|,? or) \w+)* (?:is|are|has|have)\b(?: \w+)*`),
	regexp.MustCompile(`^\w+ is (?:like|similar|identical|almost|exactly|for|run|called|used|an? (?:\w+ )*(?:copy|wrapper|helper|version|variant))`),
}

// A finding is one shape in one text.
type finding struct {
	path  string
	line  int
	shape shape
	text  string
}

// find returns the shapes in text.
func find(path string, line int, text string, shapes ...shape) (found []finding) {
	for _, s := range shapes {
		for _, span := range s.find.FindAllStringIndex(text, -1) {
			if s.plain == nil || !s.plain.MatchString(text[span[0]:span[1]]) {
				found = append(found, finding{path, line, s, strings.TrimSpace(text[max(0, span[0]-30):min(len(text), span[1]+30)])})
			}
		}
	}
	return found
}

// paragraphs joins the lines of each paragraph.
func paragraphs(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(text, "\n\n", "\x00"), "\n", " "), "\x00", "\n")
}

// paraphrases reports whether a comment has only words of the name that it begins
// with, as in: Scopes are all scopes.
func paraphrases(doc string) bool {
	name, rest, ok := strings.Cut(strings.TrimSpace(doc), " ")
	if !ok || strings.Count(rest, ".") > 1 {
		return false
	}
	stem := func(w string) string { return strings.TrimSuffix(w, "s") }
	repeats := false
	for _, w := range word.FindAllString(strings.ToLower(rest), -1) {
		isPart := func(part string) bool { return stem(part) == stem(w) }
		switch {
		case slices.ContainsFunc(words(name), isPart):
			repeats = true
		case !slices.Contains(fillers, w):
			return false
		}
	}
	return repeats
}

var fillers = []string{"is", "are", "returns", "the", "a", "an", "all", "of", "its", "their", "every", "each"}

var paraphrased = shape{name: "a name paraphrased", write: "no comment, or what the name does not say"}

// inComments returns the shapes in the comments of a file.
func inComments(path string, fset *token.FileSet, f *ast.File) (found []finding) {
	functionNames := map[*ast.CommentGroup]string{}
	for _, d := range f.Decls {
		if d, ok := d.(*ast.FuncDecl); ok {
			functionNames[d.Doc] = d.Name.Name
		}
	}
	for _, group := range f.Comments {
		line, text := fset.Position(group.Pos()).Line, paragraphs(group.Text())
		found = append(found, find(path, line, text, append(commentShapes, shapes...)...)...)
		if name := functionNames[group]; name != "" && strings.HasPrefix(text, name+" ") {
			found = append(found, find(path, line, text, functionIs)...)
		}
		if paraphrases(text) {
			found = append(found, finding{path, line, paraphrased, strings.TrimSpace(text)})
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
				found = append(found, find(path, fset.Position(n.Pos()).Line, paragraphs(s), shapes...)...)
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
		found = append(found, find(path, line, paragraphs(strings.ReplaceAll(text, "`", "")), shapes...)...)
		line += strings.Count(part, "\n") + 2
	}
	return found
}

// allShapes returns the shapes of the project by the kinds of limits.
func allShapes(t *testing.T) map[string][]finding {
	t.Helper()
	found := map[string][]finding{}
	for _, file := range source(t) {
		if file.path == "tests/layers/shapes_test.go" || strings.Contains(file.path, "/testdata/") {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file.path, file.src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if !file.production() {
			found["comments of tests"] = append(found["comments of tests"], inComments(file.path, fset, f)...)
			continue
		}
		found["comments"] = append(found["comments"], inComments(file.path, fset, f)...)
		found["texts"] = append(found["texts"], inStrings(file.path, fset, f)...)
		found["names"] = append(found["names"], inNames(file.path, fset, f)...)
	}
	top := filepath.Join("..", "..")
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "testdata", "node_modules", "cdk.out"}, d.Name()) {
			return fs.SkipDir
		}
		if filepath.Ext(path) != ".md" || d.Name() == "REFERENCE.md" { // its strings are counted in their programs
			return nil
		}
		b, err := os.ReadFile(path)
		found["texts"] = append(found["texts"], inPage(filepath.ToSlash(strings.TrimPrefix(path, top+string(filepath.Separator))), string(b))...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// To list the shapes below a path: go test ./tests/layers -v -run Sentences -shapes shared/host
func TestSentencesAndNamesHaveFewShapesThatAreReadTwice(t *testing.T) {
	project := allShapes(t)
	for kind, limits := range limits {
		byShape := map[string][]finding{}
		for name := range limits {
			byShape[name] = nil
		}
		for _, f := range project[kind] {
			byShape[f.shape.name] = append(byShape[f.shape.name], f)
		}
		for _, name := range slices.Sorted(maps.Keys(byShape)) {
			found, limit := byShape[name], limits[name]
			if len(found) > limit {
				t.Errorf("%s have %d times the shape %q, want at most %d", kind, len(found), name, limit)
			} else if len(found) < limit*9/10 {
				t.Errorf("%s have %d times the shape %q: write this number in limits instead of %d", kind, len(found), name, limit)
			}
			for _, f := range found {
				if len(found) > limit || *listShapes == "." || *listShapes != "" && strings.HasPrefix(f.path, *listShapes) {
					t.Logf("%s:%d: %s: %s: %q; write %s", f.path, f.line, kind, name, f.text, f.shape.write)
				}
			}
		}
	}
}

// The shapes must accept ordinary English, so they rarely occur in the standard library.
func TestShapesAcceptTheStandardLibrary(t *testing.T) {
	count, lines := map[string]int{}, 0
	for _, pkg := range []string{"net/http", "crypto/tls"} {
		dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", pkg).Output()
		if err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, group := range f.Comments {
				lines += fset.Position(group.End()).Line - fset.Position(group.Pos()).Line + 1
			}
			for _, x := range append(inComments(path, fset, f), inNames(path, fset, f)...) {
				count[x.shape.name]++
				t.Logf("%s:%d: %s: %q", x.path, x.line, x.shape.name, x.text)
			}
		}
	}
	if lines < 5_000 {
		t.Errorf("found %d lines of comments, want those of net/http and crypto/tls", lines)
	}
	for name, n := range count {
		if n > lines/1000 {
			t.Errorf("%q occurs %d times in %d lines of comments, want at most 1 in 1,000", name, n, lines)
		}
	}
}

func TestShapesAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"Complete is until when usage has all rows.":     "X is what",
		"Key, and Name are what a client sends.":         "X is what",
		"The path is where Stripe sends.":                "",
		"Its errors are those of the store.":             "that of",
		"It is cut, so that of two writers one is told.": "",
		"Stop ends the turn; nil: never.":                "; 0: none",
		"nil: there are none":                            "; 0: none",
		"the last position, 0 if there is none":          "; 0: none",
		"With nil, it never ends.":                       "With X,",
		"Nobody waits, and nothing is sent.":             "nobody, nobody",
		"It does nothing, as there is nothing to do.":    "",
		"rows, of one day":                               "fragment",
		"of the balance, or of a hold":                   "fragment",
		"Name of a host; nil for a client.":              "fragment",
		"its own key, of a host":                         "fragment",
		"a number, as the limit is reached; it is 1.":    "",
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
		for _, f := range find("p", 1, text, append(commentShapes, shapes...)...) {
			got = append(got, f.shape.name)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("find(%q) = %q, want %q", text, got, want)
		}
	}
	for doc, want := range map[string]int{
		"since is a time in wire form, for people.":        1,
		"Open, Close and Read are methods of files.":       1,
		"get is like Get, but accepts lower case.":         0,
		"roundTrip is called when the request has no body": 0,
		"isOpen returns whether it is a file.":             0,
	} {
		if got := find("p", 1, doc, functionIs); len(got) != want {
			t.Errorf("find(%q) = %v, want %d", doc, got, want)
		}
	}
	for doc, want := range map[string]bool{
		"Scopes are all scopes.":                  true,
		"Scopes returns the scopes.":              true,
		"Scopes are the permissions of a key.":    false,
		"AllScopes returns scopes in their order": false,
	} {
		if got := paraphrases(doc); got != want {
			t.Errorf("paraphrases(%q) = %t, want %t", doc, got, want)
		}
	}
	page := "# Title\n\n```\nx; 0: none\n```\n\n| a | b |\n|---|---|\n| `it` is no X | c |\n"
	if got := inPage("p", page); len(got) != 1 || got[0].shape.name != "is no X" {
		t.Errorf("inPage() = %v, want one", got)
	}
}
