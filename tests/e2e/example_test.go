package e2e

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// example is the command: example NAME, which copies an example, or all for NAME ".", to its
// place in the repository and writes the commands of its README to commands.sh, so that
// the story runs exactly these.
func example(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: example NAME")
	}
	at := filepath.Join("cmd", "vacancy", "examples", args[0])
	ts.Check(os.CopyFS(ts.MkAbs(at), os.DirFS(filepath.Join("..", "..", at))))
	script := "set -e\n"
	for line := range strings.Lines(ts.ReadFile(filepath.Join(at, "README.md"))) {
		if command, shown := strings.CutPrefix(line, "    "); shown {
			script += command
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs("commands.sh"), []byte(script), 0o600))
}
