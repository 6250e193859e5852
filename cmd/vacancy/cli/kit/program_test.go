package kit

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestCommandsArePrintedAsThisProgramIsStarted(t *testing.T) {
	top := t.TempDir()
	write := func(mode os.FileMode, parts ...string) string {
		path := filepath.Join(append([]string{top}, parts...)...)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, nil, mode))
		return path
	}
	installed := write(0o755, "bin", "vacancy")
	other := write(0o755, "other", "vacancy")
	spaced := write(0o755, "my tools", "vacancy")
	renamed := write(0o755, "bin", "vac")
	data := write(0o644, "data", "vacancy") // not a program
	checkout := filepath.Dir(filepath.Dir(filepath.Dir(write(0o644, "checkout", "cmd", "vacancy", "main.go"))))
	first := write(0o755, "tmp", "go-build123", "b001", "exe", "vacancy")
	cached := write(0o755, "cache", "97", "97b567dff76c36b9c3b8dfb79610418615f40eb60b632e05d5db856bd11c1b91-d", "vacancy")
	link := filepath.Join(top, "links", "vacancy")
	must(t, os.Mkdir(filepath.Dir(link), 0o755))
	must(t, os.Symlink(installed, link))
	for _, tc := range []struct {
		name, arg, self, path, dir string
		want                       string
	}{
		{"in PATH", "vacancy", installed, installed, checkout, "vacancy"},
		{"in PATH by a link", "vacancy", installed, link, checkout, "vacancy"},
		{"in PATH, started by its path", installed, installed, installed, checkout, "vacancy"},
		{"in PATH under another name", "vac", renamed, renamed, checkout, "vac"},
		{"not in PATH", installed, installed, data, checkout, installed},
		{"not in PATH, from its directory", "./vacancy", installed, data, filepath.Dir(installed), "./vacancy"},
		{"not in PATH, from the directory above", "bin/vacancy", installed, data, top, "bin/vacancy"},
		{"not in PATH, by a link", link, installed, data, top, link},
		{"not in PATH, by a bare name", "vacancy", installed, data, top, installed},
		{"another build in PATH", installed, installed, other, checkout, installed},
		{"a space in its path", spaced, spaced, data, checkout, "'" + spaced + "'"},
		{"go run, the first time", first, first, data, checkout, "go run ./cmd/vacancy"},
		{"go run, from the cache", cached, cached, data, checkout, "go run ./cmd/vacancy"},
		{"go run, another build in PATH", cached, cached, installed, checkout, "go run ./cmd/vacancy"},
		{"go run, from another directory", cached, cached, data, top, cached},
	} {
		t.Setenv("PATH", filepath.Dir(tc.path))
		if got := findStartCommand(tc.arg, tc.self, tc.dir); got != tc.want {
			t.Errorf("%s: startWords() = %q, want %q", tc.name, got, tc.want)
		}
	}
}

// failWithHint runs a program that a person starts as program. Its one command prints a note and fails with a hint.
func failWithHint(t *testing.T, program, hint string, args ...string) (stderr string) {
	t.Helper()
	var errs bytes.Buffer
	a := &App{Err: &errs, startCommand: program}
	root := &cobra.Command{Use: "vacancy", SilenceErrors: true, SilenceUsage: true, PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.PrepareCommand(cmd) }}
	call := &cobra.Command{Use: "call", RunE: func(*cobra.Command, []string) error {
		a.PrintNote("again: %s", a.CommandLine())
		return WithHint(problem.New(problem.NotFound, "it is gone"), "%s", hint)
	}}
	call.Flags().String("as", "", "")
	call.Flags().String("host", "", "")
	call.Flags().Bool("ask", false, "")
	root.AddCommand(call)
	a.Run(context.Background(), root, append([]string{"call"}, args...))
	return errs.String()
}

func TestHintsHaveTheProgramAndTheFlagsThatWereTyped(t *testing.T) {
	for hint, want := range map[string]string{
		"vacancy call demo":                                   "V call demo --host http://h --as 'a b'",
		"vacancy call demo --as=bob":                          "V call demo --as=bob --host http://h",
		"vacancy call http://x/v/demo, for it":                "V call http://x/v/demo --as 'a b', for it",
		"vacancy call --host aws --as bob":                    "V call --host aws --as bob",
		"vacancy call demo --data DIR; or not":                "V call demo --data DIR --as 'a b'; or not",
		"KEY=x vacancy call 'it'\\''s, a: b' < FILE":          "KEY=x V call 'it'\\''s, a: b' --host http://h --as 'a b' < FILE",
		`vacancy call "x, y"    # vacancy call z`:             `V call "x, y" --host http://h --as 'a b'    # V call z --host http://h --as 'a b'`,
		"(cd x && vacancy call a) | vacancy call b":           "(cd x && V call a) | V call b",
		"ask the operator, who runs vacancy call TENANT":      "ask the operator, who runs V call TENANT",
		"vacancy call --help, or vacancy --help; not vacancy": "V call --help, or V --help; not vacancy",
		"vacancy call [TARGET]":                               "V call [TARGET]",
		"vacancy things and /bin/vacancy call x":              "vacancy things and /bin/vacancy call x",
	} {
		for _, program := range []string{"vacancy", "'/my $1 100%/vacancy'", "go run ./cmd/vacancy"} {
			want := "again: V call --host http://h --as 'a b'\nvacancy call: it is gone\ntry: " + want + "\n"
			want = strings.ReplaceAll(want, "V ", program+" ")
			if got := failWithHint(t, program, hint, "--host", "http://h", "--as", "a b"); got != want {
				t.Errorf("the hint %q of %s is printed as\n%s\nwant\n%s", hint, program, got, want)
			}
		}
	}
}
