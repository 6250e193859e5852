package kit

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestCommandsArePrintedAsThisProgramIsStarted(t *testing.T) {
	top := t.TempDir()
	write := func(mode os.FileMode, parts ...string) string {
		path := filepath.Join(append([]string{top}, parts...)...)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
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
	if err := os.Mkdir(filepath.Dir(link), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(installed, link); err != nil {
		t.Fatal(err)
	}
	path := func(files ...string) (list string) {
		for i, f := range files {
			if i > 0 {
				list += string(os.PathListSeparator)
			}
			list += filepath.Dir(f)
		}
		return list
	}
	for _, tc := range []struct {
		name string
		p    process
		want string
	}{
		{"in PATH", process{"vacancy", installed, path(installed), checkout}, "vacancy"},
		{"in PATH by a link", process{"vacancy", installed, path(link), checkout}, "vacancy"},
		{"in PATH, started by its path", process{installed, installed, path(installed), checkout}, "vacancy"},
		{"in PATH, after a file that cannot run", process{"vacancy", installed, path(data, installed), checkout}, "vacancy"},
		{"in PATH under another name", process{"vac", renamed, path(renamed), checkout}, "vac"},
		{"not in PATH", process{installed, installed, "", checkout}, installed},
		{"not in PATH, from its directory", process{"./vacancy", installed, "", filepath.Dir(installed)}, "./vacancy"},
		{"not in PATH, from the directory above", process{"bin/vacancy", installed, "", top}, "bin/vacancy"},
		{"not in PATH, by a link", process{link, installed, "", top}, link},
		{"another build in PATH", process{installed, installed, path(other), checkout}, installed},
		{"another build before it in PATH", process{installed, installed, path(other, installed), checkout}, installed},
		{"a space in its path", process{spaced, spaced, "", checkout}, "'" + spaced + "'"},
		{"go run, the first time", process{first, first, "", checkout}, "go run ./cmd/vacancy"},
		{"go run, from the cache", process{cached, cached, "", checkout}, "go run ./cmd/vacancy"},
		{"go run, another build in PATH", process{cached, cached, path(installed), checkout}, "go run ./cmd/vacancy"},
		{"go run, from another directory", process{cached, cached, "", top}, cached},
	} {
		if got := tc.p.typed(); got != tc.want {
			t.Errorf("%s: typed() = %q, want %q", tc.name, got, tc.want)
		}
	}
}

// runElsewhere runs a program that a person starts as program. Its one command prints notes
// and fails.
func runElsewhere(t *testing.T, program string, args ...string) (stderr string) {
	t.Helper()
	var errs bytes.Buffer
	a := &App{Err: &errs, program: program}
	root := &cobra.Command{Use: "vacancy", SilenceErrors: true, SilenceUsage: true}
	root.PersistentFlags().BoolVar(&a.JSON, "json", false, "")
	call := &cobra.Command{Use: "call", Args: cobra.ArbitraryArgs, FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true}, RunE: func(*cobra.Command, []string) error {
		a.Note("%s: vacancy call %s", "say vacancy call", "demo")
		a.Note("again: %s", a.Again())
		err := problem.New(problem.NotFound, "the file is held by another vacancy process; run `vacancy call demo --reset`")
		return WithHint(err, "vacancy call demo, or vacancy --help; not vacancy things")
	}}
	root.AddCommand(call)
	a.Run(context.Background(), root, append([]string{"call"}, args...))
	return errs.String()
}

func TestNotesAndHintsHaveTheProgramAsItIsStarted(t *testing.T) {
	for _, tc := range []struct{ program, want string }{
		{"", `say vacancy call: vacancy call demo
again: vacancy call 'a b' --data=x
vacancy call: the file is held by another vacancy process; run ` + "`vacancy call demo --reset`" + `
try: vacancy call demo, or vacancy --help; not vacancy things
`},
		{"'/my $1 100%/vacancy'", `say vacancy call: '/my $1 100%/vacancy' call demo
again: '/my $1 100%/vacancy' call 'a b' --data=x
vacancy call: the file is held by another vacancy process; run ` + "`'/my $1 100%/vacancy' call demo --reset`" + `
try: '/my $1 100%/vacancy' call demo, or '/my $1 100%/vacancy' --help; not vacancy things
`},
	} {
		if got := runElsewhere(t, tc.program, "a b", "--data=x"); got != tc.want {
			t.Errorf("with program %q, standard error is\n%s\nwant\n%s", tc.program, got, tc.want)
		}
	}
}
