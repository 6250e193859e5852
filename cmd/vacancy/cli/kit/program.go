package kit

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/shared/front/standalone"
)

// programName is the program in texts: help, errors, hints and notes.
const programName = "vacancy"

// programEnv tells awsProgram how a person starts the program that it replaces.
const programEnv = "VACANCY_PROGRAM"

// process describes how a program was started.
type process struct {
	arg, self string // os.Args[0] and os.Executable
	path      string // $PATH
	dir       string // the working directory
}

// thisProcess describes this process, which was started as arg.
func (a *App) thisProcess(arg string) process {
	self, _ := os.Executable()
	dir, _ := os.Getwd()
	return process{arg: arg, self: self, path: a.Env["PATH"], dir: dir}
}

// typed returns the words with which a person starts this program again in the working
// directory: its name if PATH leads to this very file, "go run" if that built it from
// here, otherwise its path.
func (p process) typed() string {
	name := filepath.Base(p.arg)
	plain := strings.TrimSuffix(name, ".exe")
	if found := lookPath(name, p.path); found != "" && sameFile(found, p.self) && ShellWord(plain) == plain {
		return plain
	}
	if builtByGoRun(p.self) && standalone.IsThere(filepath.Join(p.dir, "cmd", plain, "main.go")) {
		return "go run ./cmd/" + plain
	}
	if at := p.arg; at != name {
		if !filepath.IsAbs(at) {
			at = filepath.Join(p.dir, at)
		}
		if sameFile(at, p.self) {
			return ShellWord(p.arg)
		}
	}
	return ShellWord(p.self)
}

// lookPath returns the first program with a name in the directories of PATH, or "".
// exec.LookPath reads the PATH of this process, which is not always the app's.
func lookPath(name, path string) string {
	for _, dir := range filepath.SplitList(path) {
		found := filepath.Join(dir, name)
		info, err := os.Stat(found)
		if err == nil && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode()&0o111 != 0) {
			return found
		}
	}
	return ""
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// goRun matches the directories of programs that "go run" builds: the first build's, and
// the build cache's.
var goRun = regexp.MustCompile(`^exe$|^[0-9a-f]{64}-d$`)

func builtByGoRun(self string) bool {
	dir := filepath.Dir(self)
	return goRun.MatchString(filepath.Base(dir)) && (filepath.Base(dir) != "exe" || strings.Contains(dir, "go-build"))
}

// commands matches the beginning of a command of the program in a text.
func commands(root *cobra.Command) *regexp.Regexp {
	names := []string{"--?[a-z]", "help"}
	for _, c := range root.Commands() {
		if c.Hidden {
			continue // a topic of the help, after "vacancy help"
		}
		names = append(names, regexp.QuoteMeta(c.Name())+`\b`)
	}
	return regexp.MustCompile("(^|[\\s\"'`(])" + programName + " (" + strings.Join(names, "|") + ")")
}

// AsTyped replaces "vacancy" at the beginning of each command in a text of this project,
// so that the command works as a person types it.
func (a *App) AsTyped(text string) string {
	return a.replaceProgram(text, a.program)
}

// formatAsTyped is AsTyped for a format. What fills it is left as it is.
func (a *App) formatAsTyped(format string) string {
	return a.replaceProgram(format, strings.ReplaceAll(a.program, "%", "%%"))
}

func (a *App) replaceProgram(text, program string) string {
	if a.commands == nil || program == programName {
		return text
	}
	return a.commands.ReplaceAllString(text, "${1}"+strings.ReplaceAll(program, "$", "$$")+" ${2}")
}

// Command returns a command of this program as a person types it. It begins with the
// command's name.
func (a *App) Command(format string, args ...any) string {
	return a.program + " " + fmt.Sprintf(format, args...)
}

// Again returns the command line of this run as a person types it. A long word becomes TEXT.
func (a *App) Again() string {
	words := slices.Clone(a.args)
	for i := range words {
		if len(words[i]) > 200 {
			words[i] = "TEXT"
		}
		words[i] = ShellWord(words[i])
	}
	return a.Command("%s", strings.Join(words, " "))
}

// AgainFor returns the command line of this run with another word in place of one, or only the
// other word if the line does not have the one.
func (a *App) AgainFor(word, other string) string {
	i := slices.Index(a.args, word)
	if i < 0 {
		return other
	}
	again := *a
	again.args = slices.Clone(a.args)
	again.args[i] = other
	return again.Again()
}

// AgainWith returns the command line of this run with another value of a flag.
func (a *App) AgainWith(flag, value string) string {
	other := *a
	other.args = nil
	for i := 0; i < len(a.args); i++ {
		switch {
		case a.args[i] == flag:
			i++ // its value
		case !strings.HasPrefix(a.args[i], flag+"="):
			other.args = append(other.args, a.args[i])
		}
	}
	other.args = append(other.args, flag, value)
	return other.Again()
}

// Executable returns the file of this program, by which other programs start it. It is the bare name
// for a program that nobody installed: a test, or what "go run" built.
func (a *App) Executable() (file string, installed bool) {
	self, err := os.Executable()
	if err != nil || a.Seams.Program == "" || builtByGoRun(self) {
		return programName, false
	}
	return self, true
}
