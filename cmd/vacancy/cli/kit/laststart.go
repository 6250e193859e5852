package kit

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// startFile has the command line that started the last host over a data directory.
const startFile = "start.json"

// start is the command line of a host.
type start struct {
	Dir  string   `json:"dir"`  // the working directory, because flags may name files in it
	Args []string `json:"args"` // without the program
	// Served: serve has run over the data directory.
	Served bool `json:"served,omitempty"`
}

// lastStart reads the command line of the last host over a data directory.
func lastStart(dir string) (last start, err error) {
	b, err := os.ReadFile(filepath.Join(dir, startFile))
	if err == nil {
		err = json.Unmarshal(b, &last)
	}
	return last, err
}

// HasServed reports whether serve has run over a data directory, as far as its last start tells.
func (a *App) HasServed(dir string) bool {
	last, _ := lastStart(dir)
	return last.Served
}

// KeepStart keeps the command line of this run for StartAgain. It is a convenience, so a failure
// is not told.
func (a *App) KeepStart(dir string) {
	at, err := os.Getwd()
	if err != nil {
		return
	}
	served := a.HasServed(dir) || len(a.args) > 0 && a.args[0] == "serve"
	if b, err := json.Marshal(start{at, a.args, served}); err == nil {
		_ = os.WriteFile(filepath.Join(dir, startFile), append(b, '\n'), 0o600)
	}
}

// StartAgain returns the command that starts a host over the data directory of --data as the last
// one was started: "dev" instead of "serve" would give cards another address. If no host was
// started there, it is "dev".
func (a *App) StartAgain(data string) string {
	dir, err := a.DataDir(data)
	var last start
	if err == nil {
		last, err = lastStart(dir)
	}
	if err != nil || len(last.Args) == 0 || strings.HasPrefix(last.Args[0], "-") {
		return a.Command("dev%s", DataArg(data))
	}
	again := *a
	again.args = last.Args
	if at, err := os.Getwd(); err == nil && at == last.Dir {
		return again.Again()
	}
	return "(cd " + ShellWord(last.Dir) + " && " + again.Again() + ")"
}
