package kit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/standalone"
)

const programName = "vacancy"

// programEnv names the variable that tells awsProgram the start command of the program that it
// replaces.
const programEnv = "VACANCY_PROGRAM"

// findStartCommand returns a command that starts the program file self again. arg0 is os.Args[0],
// and dir is the working directory.
func findStartCommand(arg0, self, dir string) string {
	name := strings.TrimSuffix(filepath.Base(arg0), ".exe")
	foundPath, err := exec.LookPath(name)
	switch {
	case err == nil && isSameFile(foundPath, self) && ShellWord(name) == name:
		return name
	case isGoRunBuild(self) && standalone.FileExists(filepath.Join(dir, "cmd", name, "main.go")):
		return "go run ./cmd/" + name
	case arg0 == filepath.Base(arg0):
		return ShellWord(self)
	}
	return ShellWord(arg0)
}

func isSameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(first, other)
}

// goRunDir matches a directory in which "go run" builds or caches a program.
var goRunDir = regexp.MustCompile(`^exe$|^[0-9a-f]{64}-d$`)

func isGoRunBuild(self string) bool {
	dir := filepath.Dir(self)
	return goRunDir.MatchString(filepath.Base(dir)) && (filepath.Base(dir) != "exe" || strings.Contains(dir, "go-build"))
}

// FormatCommand returns a command line of this program. format must begin with the name of a
// subcommand.
func (a *App) FormatCommand(format string, args ...any) string {
	return a.startCommand + " " + fmt.Sprintf(format, args...)
}

// CommandLine returns the command line of this run, with TEXT in place of long words.
func (a *App) CommandLine() string {
	words := slices.Clone(a.args)
	for i := range words {
		if len(words[i]) > 200 {
			words[i] = "TEXT"
		}
		words[i] = ShellWord(words[i])
	}
	return a.FormatCommand("%s", strings.Join(words, " "))
}

// CommandLineReplacing returns the command line of this run with other in place of word. If the
// line does not contain word exactly once, it returns only other.
func (a *App) CommandLineReplacing(word, other string) string {
	i := slices.Index(a.args, word)
	if i < 0 || slices.Contains(a.args[i+1:], word) {
		return other
	}
	changed := *a
	changed.args = slices.Clone(a.args)
	changed.args[i] = other
	return changed.CommandLine()
}

func (a *App) CommandLineWithFlag(flag, value string) string {
	changed := *a
	changed.args = nil
	for i := 0; i < len(a.args); i++ {
		switch {
		case a.args[i] == flag:
			i++ // skip the old value
		case !strings.HasPrefix(a.args[i], flag+"="):
			changed.args = append(changed.args, a.args[i])
		}
	}
	changed.args = append(changed.args, flag, value)
	return changed.CommandLine()
}

// Executable returns the file of this program, for other programs that start it. If this program
// was not installed, Executable returns its bare name.
func (a *App) Executable() (file string, isInstalled bool) {
	self, err := os.Executable()
	if err != nil || a.Seams.Program == "" || isGoRunBuild(self) {
		return programName, false
	}
	return self, true
}
