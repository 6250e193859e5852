package filetools

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

// newSession returns a session without a task, which can list and search files.
func newSession(t testing.TB, blobs func() (blob.Blobs, error)) *session {
	vault, err := local.FromHex(strings.Repeat("5a", 32), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := &session{Config: &Config{}, workspaceRef: workspace.Ref{Owner: workspace.OperatorOwner, Name: workspace.MainName}}
	s.Files = workspace.New(workspace.Config{
		Store: store.Updater{Store: memory.New(), Rand: rand.Reader}, Vault: vault, Now: time.Now, Blobs: blobs,
		CheckWritable: func(context.Context, string) error { return nil },
	})
	return s
}

// objects are blobs in memory, which are only put and read.
type objects struct {
	blob.Blobs
	all sync.Map
}

func (o *objects) Put(_ context.Context, key string, body io.ReadSeeker, _ int64, _ blob.Condition) (string, error) {
	data, err := io.ReadAll(body)
	o.all.Store(key, data)
	return "", err
}

func (o *objects) Get(_ context.Context, key string) (blob.Object, error) {
	data, _ := o.all.Load(key)
	return blob.Object{Body: io.NopCloser(bytes.NewReader(data.([]byte)))}, nil
}

// withFiles returns a session with files of the same text.
func withFiles(t *testing.T, count int, text string) *session {
	t.Helper()
	o := &objects{}
	s := newSession(t, func() (blob.Blobs, error) { return o, nil })
	for n := range count {
		if _, err := s.Files.Write(t.Context(), s.workspaceRef, workspace.Change{Path: fmt.Sprintf("d/f%04d", n), Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

var stop = regexp.MustCompile(`\[stopped after (.*): call (\w+) again with after_path "(.*?)"(?: and after_line (\d+))?]$`)

// follow calls a tool until it does not say where to go on. It returns all lines, and the reasons to stop.
func follow(t *testing.T, q *scope, line *int, run func() (string, error)) (lines, stops []string) {
	t.Helper()
	for range 20 {
		got, err := run()
		if err != nil {
			t.Fatal(err)
		}
		found := stop.FindStringSubmatch(got)
		lines = append(lines, strings.FieldsFunc(stop.ReplaceAllString(got, ""), func(r rune) bool { return r == '\n' })...)
		if found == nil {
			return lines, stops
		}
		stops = append(stops, found[1])
		q.AfterPath = found[3]
		*line, _ = strconv.Atoi(found[4])
	}
	t.Fatal("it does not end")
	return nil, nil
}

// A search that reaches a limit says where to go on, and the searches together find each line once.
func TestGrepGoesOnAfterItsLimits(t *testing.T) {
	for name, tt := range map[string]struct {
		files int
		text  string
		in    grepArguments
		limit int64
		stops []string
		lines int
	}{
		"hits":                {3, strings.Repeat("x\n", 130), grepArguments{Pattern: "x"}, 0, []string{"100 matches", "100 matches", "100 matches"}, 390},
		"one more hit":        {1, strings.Repeat("x\n", 101), grepArguments{Pattern: "x"}, 0, []string{"100 matches"}, 101},
		"no more hits":        {1, strings.Repeat("x\n", 100), grepArguments{Pattern: "x"}, 0, nil, 100},
		"files that match":    {150, "x\nx", grepArguments{Pattern: "x", Mode: "files_with_matches"}, 0, []string{"100 matches"}, 150},
		"files":               {1001, "a", grepArguments{Pattern: "x"}, 0, []string{"500 files", "500 files"}, 1},
		"files and hits":      {501, "x", grepArguments{Pattern: "x"}, 0, slices.Repeat([]string{"100 matches"}, 5), 501},
		"bytes on AWS":        {9, strings.Repeat("a\n", 1<<19), grepArguments{Pattern: "x"}, 8 << 20, []string{"8 files"}, 1},
		"bytes of an answer":  {3, strings.Repeat(strings.Repeat("x", 1000)+"\n", 90), grepArguments{Pattern: "x"}, 0, []string{"100 matches", "100 matches"}, 270},
		"files of a pattern":  {30, "x", grepArguments{Pattern: "x", Glob: "f000*"}, 0, nil, 10},
		"files of a folder":   {3, "x", grepArguments{Pattern: "x", scope: scope{Folder: "/d/"}}, 0, nil, 3},
		"a folder in capital": {3, "x", grepArguments{Pattern: "x", scope: scope{Folder: "D"}}, 0, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := withFiles(t, tt.files, tt.text)
			s.GrepBytes = tt.limit
			lines, stops := follow(t, &tt.in.scope, &tt.in.AfterLine, func() (string, error) { return s.searchLines(t.Context(), tt.in) })
			if !slices.Equal(stops, tt.stops) || len(lines) != tt.lines {
				t.Errorf("it stops after %q with %d lines, want %q and %d", stops, len(lines), tt.stops, tt.lines)
			}
			slices.Sort(lines)
			if unique := slices.Compact(lines); len(unique) != tt.lines && unique[0] != "no matches" {
				t.Errorf("%d different lines were found", len(unique))
			}
		})
	}
}

func TestListsGoOnAfterTheirLimit(t *testing.T) {
	s := withFiles(t, 1100, "x")
	q, line := scope{Folder: "d"}, 0
	for tool, run := range map[string]func() (string, error){
		"Glob": func() (string, error) { return s.listEntries(t.Context(), "Glob", q, "f*", false) },
		"LS":   func() (string, error) { return s.listFolder(t.Context(), q) },
	} {
		q.AfterPath = ""
		lines, stops := follow(t, &q, &line, run)
		if len(slices.Compact(lines)) != 1100 || lines[1099] != "d/f1099" || len(stops) != 2 {
			t.Errorf("%s lists %d files and stops after %q", tool, len(lines), stops)
		}
	}
	for _, folder := range []string{"", ".", "/", "./"} {
		if got, err := s.listFolder(t.Context(), scope{Folder: folder}); got != "d/\n" || err != nil {
			t.Errorf("LS of %q = %q, %v", folder, got, err)
		}
	}
}

// A model that is asked for the arguments of a tool gets their schema. Arguments that are too large, or have a member
// twice, are refused.
func TestArgumentsOfTools(t *testing.T) {
	c := &Config{}
	run := map[string]func(string) error{}
	got := map[string]string{}
	for _, tool := range c.Tools(&task.WorkerTurn{Dispatch: &task.Dispatch{Files: &task.Files{}}}, &definition.Agent{}) {
		var schema struct {
			Type       string
			Properties map[string]struct{ Description string }
			Required   []string
		}
		if err := json.Unmarshal(tool.Schema, &schema); err != nil || schema.Type != "object" {
			t.Fatal(string(tool.Schema), err)
		}
		var members []string
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			if schema.Properties[name].Description == "" {
				t.Errorf("%s: %s has no description", tool.Name, name)
			}
			if slices.Contains(schema.Required, name) {
				name += "!"
			}
			members = append(members, name)
		}
		got[tool.Name] = strings.Join(members, " ")
		if want := slices.Contains([]string{"Write", "Edit", "MultiEdit", "NotebookEdit"}, tool.Name); tool.Writes != want || (tool.OnRefusal != nil) != want {
			t.Errorf("%s writes: %t", tool.Name, tool.Writes)
		}
		run[tool.Name] = func(arguments string) error {
			_, err := tool.Run(t.Context(), nil, json.RawMessage(arguments))
			return err
		}
	}
	if want := map[string]string{
		"Read": "file_path! limit offset", "Write": "content! file_path!", "Edit": "file_path! new_string! old_string! replace_all",
		"MultiEdit": "edits! file_path!", "NotebookEdit": "cell_id cell_number cell_type edit_mode new_source notebook_path!",
		"Glob": "after_path path pattern!", "Grep": "after_line after_path glob ignore_case output_mode path pattern!", "LS": "after_path path",
	}; !maps.Equal(got, want) {
		t.Errorf("the arguments are %q, want %q", got, want)
	}
	for _, tt := range []struct{ tool, arguments, says string }{
		{"Write", `{"file_path":"a","file_path":"b","content":""}`, "file_path"},
		{"Write", `{"file_path":"a"}`, "content"},
		{"Write", `{"file_path":"a","content":"` + strings.Repeat("x", 8<<20) + `"}`, "8388608 bytes"},
		{"Read", `{"file_path":1}`, "file_path"},
		{"Glob", `{"pattern":"` + strings.Repeat("x", 401) + `"}`, "at most 400 bytes"},
		{"Grep", `{"pattern":"` + strings.Repeat("x", 1025) + `"}`, "at most 1024 bytes"},
		{"Grep", `{"pattern":"x","output_mode":"all"}`, "content or files_with_matches"},
		{"Grep", `{"pattern":"x","path":"../x"}`, "path"},
		{"LS", `{"path":"..\\x"}`, "no backslash"},
		{"MultiEdit", `{"file_path":"a","edits":[]}`, "at least one replacement"},
		{"NotebookEdit", `{"notebook_path":"a","edit_mode":"x"}`, "replace, insert or delete"},
		{"NotebookEdit", `{"notebook_path":"a","cell_type":"x"}`, "code or markdown"},
	} {
		if err := run[tt.tool](tt.arguments); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s %.60s = %v, want %q", tt.tool, tt.arguments, err, tt.says)
		}
	}
}

// The log has the errors of edits, so they have no contents.
func TestErrorsOfEditsHaveNoContents(t *testing.T) {
	const canary = "CANARY"
	in := replacement{Old: canary + "-OLD", New: canary + "-NEW"}
	book := notebookEdit{ID: canary, Source: canary}
	for _, text := range []string{canary, canary + "-OLD " + canary + "-OLD", `{"cells":[{"source":"` + canary + `"}]}`, `{"cells":"` + canary} {
		_, err := in.replaceIn(text)
		_, bookErr := book.editCells(text)
		if err == nil || bookErr == nil || strings.Contains(err.Error()+bookErr.Error(), canary) {
			t.Errorf("%q: %v, %v", text, err, bookErr)
		}
	}
}

func TestPathsOfModels(t *testing.T) {
	for path, want := range map[string]string{
		"a/b": "a/b", "/a/b": "a/b", "./a//b/": "a/b", "a/./b": "a/b", "e\u0301": "é",
		"": "!", "/": "!", ".": "!", "..": "!", "a/../b": "!", "../a": "!", `a\b`: "!", "a\x00": "!", "a\n": "!", "\xff": "!", strings.Repeat("a", 401): "!",
	} {
		got, err := normalizePath(path)
		if err != nil {
			got = "!"
		}
		if got != want {
			t.Errorf("filePath(%q) = %q, %v, want %q", path, got, err, want)
		}
	}
	for path, want := range map[string]string{"": "", "/": "", ".": "", "./": "", "a": "a/", "/a/b/": "a/b/", "..": "!", "../a": "!"} {
		q := scope{Folder: path}
		err := q.check("**")
		got := q.Folder
		if err != nil {
			got = "!"
		}
		if got != want {
			t.Errorf("the folder %q = %q, %v, want %q", path, got, err, want)
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
		{"{a,b}/x,y", "a/x,y b/x,y", "a/x y"},
		{"{a,{b,c}}", "a b c", "d"},
		{"./src/a", "src/a", "a"},
	} {
		f, err := compileGlob(tt.pattern)
		if err != nil {
			t.Fatalf("globOf(%q) = %v", tt.pattern, err)
		}
		for _, path := range strings.Fields(tt.matches) {
			if !f.MatchString(path) {
				t.Errorf("%q does not match %q", tt.pattern, path)
			}
		}
		for _, path := range strings.Fields(tt.not) {
			if f.MatchString(path) {
				t.Errorf("%q matches %q", tt.pattern, path)
			}
		}
	}
	for _, bad := range []string{"{a", "a}", "{a,{b}"} {
		if _, err := compileGlob(bad); !problem.Is(err, problem.Malformed) {
			t.Errorf("globOf(%q) = %v", bad, err)
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
		in := grepArguments{Pattern: tt.pattern, IgnoreCase: tt.fold}
		x, err := in.check()
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
		for _, h := range in.findHits(x, "a", []byte(tt.text)) {
			got = append(got, h.line)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q in %q = %v, want %v", tt.pattern, tt.text, got, tt.want)
		}
	}
	for _, bad := range []string{"(", "(?=a)"} {
		in := grepArguments{Pattern: bad}
		if _, err := in.check(); !problem.Is(err, problem.Malformed) {
			t.Errorf("check(%.10q) = %v", bad, err)
		}
	}
}

func TestReplacements(t *testing.T) {
	for _, tt := range []struct {
		e          replacement
		text, want string
	}{
		{replacement{"b", "c", false}, "abc", "acc"},
		{replacement{"b", "", false}, "abc", "ac"},
		{replacement{"b", "c", true}, "abb", "acc"},
		{replacement{"b", "c", false}, "abb", "! occurs 2 times"},
		{replacement{"x", "c", false}, "abb", "! not in the file"},
		{replacement{"", "c", false}, "abb", "! differs"},
		{replacement{"b", "b", false}, "abb", "! differs"},
		{replacement{"b", strings.Repeat("c", workspace.MaxFileBytes), true}, strings.Repeat("b", 1000), "! at most 1048576 bytes"},
	} {
		got, err := tt.e.replaceIn(tt.text)
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
		"change the type":      {notebookEdit{ID: "a", Source: "2", CellType: "markdown"}, book, `{"cell_type":"markdown","id":"a","source":"2"}`},
		"insert at first":      {notebookEdit{Mode: "insert", Source: "n"}, book, `[{"cell_type":"code","execution_count":null,"metadata":{},"outputs":[],"source":"n"},{"cell_type":"code","execution_count":3`},
		"insert after":         {notebookEdit{Mode: "insert", ID: "b", Source: "n"}, book, `"source":"x"},{"cell_type":"code"`},
		"delete":               {notebookEdit{Mode: "delete", ID: "a"}, book, `"cells":[{"cell_type":"markdown"`},
		"members are kept":     {notebookEdit{Mode: "delete", ID: "a"}, book, `"metadata":{"k":"<a>"}`},
		"no such cell":         {notebookEdit{ID: "c"}, book, "! the id of one of the 2 cells"},
		"no cell":              {notebookEdit{}, book, "! the id of one of the 2 cells"},
		"a number beyond":      {notebookEdit{Number: new(int), Mode: "delete"}, `{"cells":[]}`, "! the id of one of the 0 cells"},
		"no JSON":              {notebookEdit{ID: "a"}, "x", "! a notebook with cells"},
		"JSON without cells":   {notebookEdit{ID: "a"}, "{}", "! a notebook with cells"},
		"cells are null":       {notebookEdit{ID: "a"}, `{"cells":[null]}`, "! a notebook with cells"},
		"cells of other kinds": {notebookEdit{ID: "a"}, `{"cells":[1]}`, "! a notebook with cells"},
	} {
		got, err := tt.in.editCells(tt.text)
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
