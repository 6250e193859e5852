package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
)

// openTerminal opens a pseudo-terminal with a width; person is the side of its user.
func openTerminal(t *testing.T, columns uint16) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this machine has no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { person.Close() })
	must(t, unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	must(t, err)
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	must(t, unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: 24}))
	return person, program
}

// onTerminal runs a command line on a terminal and returns what its user sees.
func (s *shell) onTerminal(columns uint16, env map[string]string, args ...string) string {
	s.t.Helper()
	person, program := openTerminal(s.t, columns)
	seen := make(chan string)
	go func() {
		b, _ := io.ReadAll(person) // it ends with an error when the program's side is closed
		seen <- string(b)
	}()
	all := map[string]string{"TERM": "xterm"}
	for _, m := range []map[string]string{s.env, env} {
		for name, value := range m {
			all[name] = value
		}
	}
	a := &kit.App{Piped: true, In: bufio.NewReader(strings.NewReader("")), Out: program, Err: program, Env: all, Now: s.clock, Rand: s.rand, Seams: kit.Seams{OpenCloud: noCloud}}
	a.Run(context.Background(), rootCommand(a), args)
	program.Close()
	return strings.ReplaceAll(<-seen, "\r\n", "\n")
}

func TestColoursAreForTerminalsThatShowThem(t *testing.T) {
	s := newShell(t)
	s.must("create", "scribe", "--capability", "writes letters to all who ask for one, in good English")
	for _, args := range []string{"list", "show scribe", "--help", "show scirbe"} {
		args := strings.Fields(args)
		plain := s.onTerminal(200, map[string]string{"NO_COLOR": "1"}, args...)
		if strings.Contains(plain, "\x1b") {
			t.Errorf("vacancy %v with NO_COLOR = %q", args, plain)
		}
		if got := s.onTerminal(200, map[string]string{"TERM": "dumb"}, args...); got != plain {
			t.Errorf("vacancy %v on a dumb terminal = %q, want %q", args, got, plain)
		}
		if got := s.onTerminal(200, nil, append(args, "--json")...); strings.Contains(got, "\x1b") {
			t.Errorf("vacancy %v --json = %q", args, got)
		}
		_, out, errs := s.run("", args...)
		if out+errs != plain {
			t.Errorf("vacancy %v in a pipe = %q, want %q", args, out+errs, plain)
		}
		got := s.onTerminal(200, nil, args...)
		if without := strings.NewReplacer("\x1b[32m", "", "\x1b[31m", "", "\x1b[1m", "", "\x1b[0m", "").Replace(got); got == plain || without != plain {
			t.Errorf("vacancy %v on a terminal = %q, want %q in colours", args, got, plain)
		}
	}
	if got := s.onTerminal(200, nil, "list"); !strings.Contains(got, "NAME    STATE  PUB") || !strings.Contains(got, "\nscribe  \x1b[32mLOCAL\x1b[0m  no ") {
		t.Errorf("list = %q, want the state in green and the columns aligned", got)
	}
}

func TestTablesAndHelpFit40Columns(t *testing.T) {
	s := newShell(t)
	s.must("create", "scribe", "--capability", "writes letters to all who ask for one, in good English")
	none := map[string]string{"NO_COLOR": "1"}
	got := strings.SplitAfter(s.onTerminal(40, none, "list"), "\n")
	for at, begins := range []string{"NAME    STATE  ", "scribe  LOCAL  "} {
		if line := got[at]; utf8.RuneCountInString(line) != 41 || !strings.HasPrefix(line, begins) || !strings.HasSuffix(line, "…\n") {
			t.Errorf("line %d of list = %q, want 40 characters", at, line)
		}
	}
	for _, args := range []string{"--help", "help all", "help money", "call --help", "create --help", "help agent-files"} {
		for line := range strings.Lines(s.onTerminal(40, none, strings.Fields(args)...)) {
			line = strings.TrimSuffix(line, "\n")
			words := strings.Fields(line)
			command := strings.HasPrefix(strings.TrimSpace(line), "vacancy ")
			if utf8.RuneCountInString(line) > 40 && !command && len(words) > 1 && utf8.RuneCountInString(words[len(words)-1]) < 20 {
				t.Errorf("vacancy %s has a line of more than 40 characters: %q", args, line)
			}
		}
	}
}
