package scaffold_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/scaffold"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil || len(text) == 0 || strings.Contains(string(text), "{{") || strings.Contains(string(text), "<no value>") {
			t.Errorf("%s: %v, %.200s", e.Name(), err, text)
		}
		names = append(names, e.Name())
	}
	return names
}

// write writes an agent named fox that listens at port 9321.
func write(t *testing.T, dir, template, language string) scaffold.Agent {
	t.Helper()
	a, err := scaffold.NewAgent("fox", template, language, 9321)
	if err == nil {
		err = a.Write(dir)
	}
	if err != nil {
		t.Fatalf("%s in %s: %v", template, language, err)
	}
	return a
}

func TestEachTemplateIsWrittenInEachLanguage(t *testing.T) {
	want := map[string][]string{
		"basic go":         {"README.md", "agent.md", "go.mod", "main.go", "main_test.go"},
		"basic python":     {"README.md", "agent.md", "agent.py", "test_agent.py"},
		"basic typescript": {"README.md", "agent.md", "agent.test.ts", "agent.ts", "package.json"},
		"stream python":    {"README.md", "agent.md", "agent.py", "server.py", "test_agent.py"},
		"openai python":    {"README.md", "agent.md", "agent.py", "server.py", "test_agent.py"},
		"langgraph python": {"README.md", "agent.md", "agent.py", "requirements.txt", "server.py", "test_agent.py"},
		"mcp-tools python": {"README.md", "agent.md", "mcp_server.py", "test_tools.py", "tools.py"},
		"paid python":      {"README.md", "agent.md", "agent.py", "server.py", "test_agent.py"},
	}
	got := map[string][]string{}
	for _, tpl := range scaffold.Templates() {
		for _, language := range tpl.LanguageNames() {
			what := tpl.Name + " " + language
			dir := filepath.Join(t.TempDir(), "deep", "fox")
			a := write(t, dir, tpl.Name, language)
			got[what] = list(t, dir)
			for _, file := range []string{a.Language.Program, "agent.md"} {
				if text, _ := os.ReadFile(filepath.Join(dir, file)); !strings.Contains(string(text), "9321") {
					t.Errorf("%s: %s does not have its port", what, file)
				}
			}
			commands, err := a.Commands()
			must(t, err)
			readme, _ := os.ReadFile(filepath.Join(dir, "README.md"))
			parts := append(commands, "# fox\n", a.Language.Program, a.Language.Start, a.Language.Test, "vacancy create fox ", "http://127.0.0.1:9321", tpl.Yours, tpl.Needs, tpl.Set)
			for _, part := range parts {
				if !strings.Contains(string(readme), part) {
					t.Errorf("%s: the README does not have %q", what, part)
				}
			}
			has := func(file string) bool {
				_, err := os.Stat(filepath.Join(dir, file))
				return err == nil
			}
			if l, start := scaffold.FindLanguage(has); l.Program != a.Language.Program || start != a.Language.Start {
				t.Errorf("%s: FindLanguage() = %s by %q, want %s by %q", what, l.Program, start, a.Language.Program, a.Language.Start)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestInstalledPackagesAreUsed(t *testing.T) {
	for installed, want := range map[string]string{"node_modules": "npm start", ".venv": ".venv/bin/pip install -q -r requirements.txt && .venv/bin/python agent.py"} {
		folder := map[string][]string{"node_modules": {"package.json"}, ".venv": {"agent.py", "requirements.txt"}}[installed]
		has := func(file string) bool { return file == installed || slices.Contains(folder, file) }
		if _, start := scaffold.FindLanguage(has); start != want {
			t.Errorf("with %s: FindLanguage() = %q, want %q", installed, start, want)
		}
	}
	if _, start := scaffold.FindLanguage(func(file string) bool { return file == "requirements.txt" }); start != "" {
		t.Errorf("FindLanguage() of a folder without a program = %q", start)
	}
}

func TestWrongNamesAreRefused(t *testing.T) {
	for _, name := range []string{"", "Fox", "a/b", "..", "1x", "a b", strings.Repeat("a", 64), "füchse"} {
		if _, err := scaffold.NewAgent(name, "basic", "go", 9321); !problem.Is(err, problem.Malformed) {
			t.Errorf("NewAgent(%q) = %v, want a refusal", name, err)
		}
	}
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
