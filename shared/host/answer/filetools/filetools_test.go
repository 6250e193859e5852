package filetools

import (
	"slices"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestPathsOfModels(t *testing.T) {
	for path, want := range map[string]string{
		"a/b": "a/b", "/a/b": "a/b", "./a//b/": "a/b", "a/./b": "a/b", "e\u0301": "é",
		"": "!", "/": "!", ".": "!", "..": "!", "a/../b": "!", "../a": "!", `a\b`: "!", "a\x00": "!", "a\n": "!", "\xff": "!", strings.Repeat("a", 401): "!",
	} {
		got, err := filePath(path)
		if err != nil {
			got = "!"
		}
		if got != want {
			t.Errorf("filePath(%q) = %q, %v, want %q", path, got, err, want)
		}
	}
	for path, want := range map[string]string{"": "", "/": "", ".": "", "./": "", "a": "a/", "/a/b/": "a/b/", "..": "!", "../a": "!"} {
		got, err := folderPath(path)
		if err != nil {
			got = "!"
		}
		if got != want {
			t.Errorf("folderPath(%q) = %q, %v, want %q", path, got, err, want)
		}
	}
}

func TestPatternsOfPaths(t *testing.T) {
	for _, tt := range []struct{ pattern, matches, not string }{
		{"*.go", "a.go src/a.go a/b/c.go", "a.gox ago a.go/b"},
		{"src/*.go", "src/a.go", "src/a/b.go a.go xsrc/a.go"},
		{"src/**/*.go", "src/a.go src/a/b.go src/a/b/c.go", "a.go src/a.md"},
		{"**", "a a/b", ""},
		{"**/a", "a b/a", "ba b/aa"},
		{"a?c", "abc x/a.c", "ac a/c"},
		{"{a,b}/*.{md,rs}", "a/x.md b/y.rs", "c/x.md a/x.py"},
		{"a+(b).[c]", "a+(b).[c]", "aab.c"},
		{"a,b", "a,b", "a b"},
		{"./src/a", "src/a", "a"},
	} {
		f, err := globOf(tt.pattern)
		if err != nil {
			t.Fatalf("globOf(%q) = %v", tt.pattern, err)
		}
		for _, path := range strings.Fields(tt.matches) {
			if !f(path) {
				t.Errorf("%q does not match %q", tt.pattern, path)
			}
		}
		for _, path := range strings.Fields(tt.not) {
			if f(path) {
				t.Errorf("%q matches %q", tt.pattern, path)
			}
		}
	}
	for _, bad := range []string{"{a", strings.Repeat("a", workspace.MaxPath+1)} {
		if _, err := globOf(bad); !problem.Is(err, problem.Malformed) {
			t.Errorf("globOf(%.10q) = %v", bad, err)
		}
	}
}

func TestLinesThatMatch(t *testing.T) {
	for _, tt := range []struct {
		pattern, text string
		fold          bool
		want          []int
	}{
		{"b", "a\nb\nab\n", false, []int{2, 3}},
		{"^b$", "a\r\nb\r\nab", false, []int{2}},
		{"B", "b", true, []int{1}},
		{"B", "b", false, nil},
		{`a\s+b`, "a\nb\na b", false, []int{3}}, // not over lines
		{`\Aa`, "b\na", false, []int{2}},        // of each line
		{`(?-m:^a)`, "b\na", false, []int{2}},
		{"", "a\n\n", false, []int{1, 2}},
		{"a", "a\x00", false, nil}, // binary
		{"a", "", false, nil},
		{"\xff", "a", false, nil},
	} {
		x, err := newExpression(tt.pattern, tt.fold)
		if tt.pattern == "\xff" {
			if err == nil {
				t.Error("an expression of other bytes than UTF-8 is accepted")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, h := range x.find([]byte(tt.text), 100) {
			got = append(got, h.line)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q in %q = %v, want %v", tt.pattern, tt.text, got, tt.want)
		}
	}
	for _, bad := range []string{"(", "(?=a)", strings.Repeat("a", 2000)} {
		if _, err := newExpression(bad, false); !problem.Is(err, problem.Malformed) {
			t.Errorf("newExpression(%.10q) = %v", bad, err)
		}
	}
}

func TestReplacements(t *testing.T) {
	for _, tt := range []struct {
		e          edit
		text, want string
	}{
		{edit{"b", "c", false}, "abc", "acc"},
		{edit{"b", "", false}, "abc", "ac"},
		{edit{"b", "c", true}, "abb", "acc"},
		{edit{"b", "c", false}, "abb", "! occurs 2 times"},
		{edit{"x", "c", false}, "abb", "! not in the file"},
		{edit{"", "c", false}, "abb", "! differs"},
		{edit{"b", "b", false}, "abb", "! differs"},
		{edit{"b", strings.Repeat("c", workspace.MaxFile), true}, strings.Repeat("b", 1000), "! at most 1048576 bytes"},
	} {
		got, err := tt.e.apply(tt.text)
		want, failed := strings.CutPrefix(tt.want, "! ")
		if failed != (err != nil) || err == nil && got != want || failed && !strings.Contains(err.Error(), want) {
			t.Errorf("%q in %q = %q, %v, want %q", tt.e.Old, tt.text[:min(len(tt.text), 9)], got, err, tt.want)
		}
	}
}

func TestCellsOfNotebooks(t *testing.T) {
	const book = `{"metadata":{"k":"<a>"},"cells":[{"id":"a","cell_type":"code","source":["1"],"outputs":[1],"execution_count":3},{"id":"b","cell_type":"markdown","source":"x"}]}`
	one := 1
	for name, tt := range map[string]struct {
		in         notebookEdit
		text, want string
	}{
		"replace code":         {notebookEdit{ID: "a", Source: "2"}, book, `{"cell_type":"code","execution_count":null,"id":"a","outputs":[],"source":"2"}`},
		"replace by number":    {notebookEdit{Number: &one, Source: "<y>"}, book, `{"cell_type":"markdown","id":"b","source":"<y>"}`},
		"change the type":      {notebookEdit{ID: "a", Source: "2", Type: "markdown"}, book, `{"cell_type":"markdown","id":"a","source":"2"}`},
		"insert at first":      {notebookEdit{Mode: "insert", Source: "n"}, book, `[{"cell_type":"code","execution_count":null,"metadata":{},"outputs":[],"source":"n"},{"cell_type":"code","execution_count":3`},
		"insert after":         {notebookEdit{Mode: "insert", ID: "b", Source: "n"}, book, `"source":"x"},{"cell_type":"code"`},
		"delete":               {notebookEdit{Mode: "delete", ID: "a"}, book, `"cells":[{"cell_type":"markdown"`},
		"members are kept":     {notebookEdit{Mode: "delete", ID: "a"}, book, `"metadata":{"k":"<a>"}`},
		"no such cell":         {notebookEdit{ID: "c"}, book, "! the id of one of the 2 cells"},
		"no cell":              {notebookEdit{}, book, "! the id of one of the 2 cells"},
		"a number beyond":      {notebookEdit{Number: new(int), Mode: "delete"}, `{"cells":[]}`, "! the id of one of the 0 cells"},
		"no JSON":              {notebookEdit{ID: "a"}, "x", "! a notebook with cells"},
		"JSON without cells":   {notebookEdit{ID: "a"}, "{}", "! a notebook with cells"},
		"cells of other kinds": {notebookEdit{ID: "a"}, `{"cells":[1]}`, "! a notebook with cells"},
	} {
		got, err := tt.in.apply(tt.text)
		got = strings.NewReplacer("\n", "", " ", "").Replace(got)
		want, failed := strings.CutPrefix(tt.want, "! ")
		if failed != (err != nil) || err == nil && !strings.Contains(got, want) || failed && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v, want %s", name, got, err, tt.want)
		}
	}
}

func TestLogsHaveNoSecrets(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	for text, want := range map[string]string{
		".vault/report.md":                                    ".vault/report.md",
		"src/components/dialogs/settings/index.ts":            "src/components/dialogs/settings/index.ts",
		"a/sk-ant-api03-0123456789.md":                        "a/[redacted].md",
		"a/" + id + "/b":                                      "a/[redacted]/b",
		"a: task " + id + " of agent writer holds .vault/":    "a: task " + id + " of agent writer holds .vault/",
		"Write is denied: \"src/password=hunter2hunter2.md\"": "Write is denied: \"src/password=[redacted]\"",
	} {
		if got := redact(text); got != want {
			t.Errorf("redact(%q) = %q, want %q", text, got, want)
		}
	}
}
