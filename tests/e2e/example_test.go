package e2e

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// example is the command: example NAME, which copies an example to its place in
// the repository and writes the commands of its README to commands.sh, so that
// the story runs exactly these.
func example(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: example NAME")
	}
	at := filepath.Join("cmd", "vacancy", "examples", args[0])
	from := filepath.Join("..", "..", at)
	files, err := os.ReadDir(from)
	ts.Check(err)
	ts.Check(os.MkdirAll(ts.MkAbs(at), 0o700))
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(from, f.Name()))
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(filepath.Join(at, f.Name())), b, 0o600))
	}
	script := "set -e\n"
	for line := range strings.Lines(ts.ReadFile(filepath.Join(at, "README.md"))) {
		if command, shown := strings.CutPrefix(line, "    "); shown {
			script += command
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs("commands.sh"), []byte(script), 0o600))
}
