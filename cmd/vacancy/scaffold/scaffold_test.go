package scaffold_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/scaffold"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil || len(text) == 0 || strings.Contains(string(text), "{{") || strings.Contains(string(text), "<no value>") {
			t.Errorf("%s: %v, %.200s", e.Name(), err, text)
		}
		names = append(names, e.Name())
	}
	return names
}

func TestEachLanguageIsWritten(t *testing.T) {
	want := map[string][]string{
		"go":         {"README.md", "agent.md", "go.mod", "main.go", "main_test.go"},
		"python":     {"README.md", "agent.md", "agent.py", "test_agent.py"},
		"typescript": {"README.md", "agent.md", "agent.test.ts", "agent.ts", "package.json"},
	}
	got := map[string][]string{}
	for _, l := range scaffold.Languages() {
		dir := filepath.Join(t.TempDir(), "deep", "fox")
		if made, err := scaffold.Write(dir, "fox", l.Name, 9321); err != nil || made != l {
			t.Fatalf("Write(%s) = %+v, %v", l.Name, made, err)
		}
		got[l.Name] = list(t, dir)
		for _, file := range []string{l.Program, "agent.md"} {
			if text, _ := os.ReadFile(filepath.Join(dir, file)); !strings.Contains(string(text), "9321") {
				t.Errorf("%s of %s does not have its port", file, l.Name)
			}
		}
		readme, _ := os.ReadFile(filepath.Join(dir, "README.md"))
		for _, part := range []string{"# fox\n", l.Program, l.Start, l.Test, "vacancy create fox ", "http://127.0.0.1:9321"} {
			if !strings.Contains(string(readme), part) {
				t.Errorf("the README of %s says nothing of %q", l.Name, part)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestNothingIsOverwritten(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "mine.txt")
	if err := os.WriteFile(mine, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := scaffold.Write(dir, "fox", "python", 9321); !problem.Is(err, problem.Conflict) {
		t.Errorf("Write() into a directory with a file = %v, want Conflict", err)
	}
	if _, err := scaffold.Write(mine, "fox", "python", 9321); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Write() into a file = %v, want Unavailable", err)
	}
	if got := list(t, dir); len(got) != 1 {
		t.Errorf("left %v", got)
	}
	if _, err := scaffold.Write(t.TempDir(), "fox", "python", 9321); err != nil {
		t.Errorf("Write() into an empty directory = %v", err)
	}
}

func TestWrongNamesAndLanguagesAreRefused(t *testing.T) {
	for _, name := range []string{"", "Fox", "a/b", "..", "1x", "a b", strings.Repeat("a", 64), "füchse"} {
		if _, err := scaffold.Write(filepath.Join(t.TempDir(), "x"), name, "go", 9321); !problem.Is(err, problem.Malformed) {
			t.Errorf("Write(%q) = %v, want a refusal", name, err)
		}
	}
	if _, err := scaffold.Write(filepath.Join(t.TempDir(), "x"), "fox", "cobol", 9321); !problem.Is(err, problem.Malformed) || !strings.Contains(err.Error(), "go, python, typescript") {
		t.Errorf("Write(cobol) = %v, want the languages named", err)
	}
}
