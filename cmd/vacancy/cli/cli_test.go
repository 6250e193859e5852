package cli

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/clitest"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/awscloud"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// shell runs command lines in process, with one home directory, a fixed clock,
// and the same keys in every run.
type shell struct {
	t        *testing.T
	dataHome string
	env      map[string]string
	rand     io.Reader
}

func newShell(t *testing.T) *shell {
	t.Helper()
	dir := t.TempDir()
	return &shell{t: t, dataHome: dir, env: map[string]string{"VACANCY_HOME": dir}, rand: &randomness{src: rand.NewChaCha8([32]byte{1})}}
}

// randomness is the same in every run, and safe for concurrent use.
type randomness struct {
	mu  sync.Mutex
	src *rand.ChaCha8
}

func (r *randomness) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.src.Read(p)
}

// clock stands still.
func (s *shell) clock() time.Time { return time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC) }

// run returns exit code, standard output and standard error, with the home
// directory written as $VACANCY_HOME.
func (s *shell) run(stdin string, args ...string) (int, string, string) {
	s.t.Helper()
	return s.runContext(context.Background(), stdin, args...)
}

func (s *shell) runContext(ctx context.Context, stdin string, args ...string) (int, string, string) {
	s.t.Helper()
	var out, errs bytes.Buffer
	a := &kit.App{
		Piped: true, In: bufio.NewReader(strings.NewReader(stdin)), Out: &out, Err: &errs, Env: s.env,
		Now: s.clock, Rand: s.rand, Seams: kit.Seams{OpenCloud: awscloud.Open},
	}
	code := a.Run(ctx, rootCommand(a), args)
	clean := strings.NewReplacer(s.dataHome, "$VACANCY_HOME").Replace
	return code, clean(out.String()), clean(errs.String())
}

// must runs a command line that should succeed.
func (s *shell) must(args ...string) string {
	s.t.Helper()
	code, out, errs := s.run("", args...)
	if code != 0 {
		s.t.Fatalf("vacancy %s = exit %d, want 0; it said: %s", strings.Join(args, " "), code, errs)
	}
	return out
}

// fails runs a command line that should exit with code, print an error that contains want, and print nothing else.
func (s *shell) fails(code int, want string, args ...string) {
	s.t.Helper()
	if got, out, errs := s.run("", args...); got != code || out != "" || !strings.Contains(errs, want) {
		s.t.Errorf("vacancy %s = exit %d, %q, %q; want %d and %q", strings.Join(args, " "), got, out, errs, code, want)
	}
}

// commands lists the paths of all commands and help topics, without the root.
func commands() [][]string {
	var paths [][]string
	var walk func(c *cobra.Command, path []string)
	walk = func(c *cobra.Command, path []string) {
		for _, sub := range c.Commands() {
			p := append(append([]string{}, path...), sub.Name())
			paths = append(paths, p)
			walk(sub, p)
		}
	}
	root := rootCommand(&kit.App{})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	walk(root, nil)
	return paths
}

func TestHelpOfEveryCommandIsAsWritten(t *testing.T) {
	s := newShell(t)
	clitest.CompareGolden(t, "help/vacancy", s.must("--help"))
	for _, path := range commands() {
		help := s.must(append([]string{"help"}, path...)...)
		if path[0] == "reference" {
			clitest.CompareFile(t, "../REFERENCE.md", help)
			continue
		}
		clitest.CompareGolden(t, "help/"+strings.Join(path, "-"), help)
	}
}

// topics are not commands: help shows them.
var topics = []string{"agent-contract", "agent-files", "exit-codes", "reference", "all", "vacants", "composites", "money", "venues", "host", "calls", "aws"}

func TestHelpShowsTheFirstHourAndTheRestByGroup(t *testing.T) {
	s := newShell(t)
	short, all := s.must("--help"), s.must("help", "all")
	if len(starterCommands) != 15 {
		t.Errorf("the help shows %d commands, want 15", len(starterCommands))
	}
	grouped := ""
	for _, g := range groups {
		if g.Topic != "" {
			grouped += s.must("help", g.Topic)
		}
	}
	for _, path := range commands() {
		name := "\n  " + path[0] + " "
		if len(path) > 1 || path[0] == "help" || slices.Contains(topics, path[0]) {
			continue
		}
		if strings.Contains(short, name) != slices.Contains(starterCommands, path[0]) {
			t.Errorf("vacancy --help and the list of first commands differ about %s", path[0])
		}
		if !strings.Contains(all, name) {
			t.Errorf("vacancy help all does not show %s", path[0])
		}
		other := slices.Contains([]string{"completion", "openapi", "version"}, path[0])
		if !strings.Contains(short, name) && !strings.Contains(grouped, name) && !other {
			t.Errorf("%s is in no group of the help", path[0])
		}
	}
}

func TestHelpIsTheSameByFlagAndHasAnExampleAndJSON(t *testing.T) {
	s := newShell(t)
	for _, path := range commands() {
		if path[0] == "help" || slices.Contains(topics, path[0]) {
			continue
		}
		help := s.must(append(path, "--help")...)
		if diff := gocmp.Diff(s.must(append([]string{"help"}, path...)...), help); diff != "" {
			t.Errorf("vacancy %v --help differs from help (-help +--help):\n%s", path, diff)
		}
		if path[0] != "completion" && (!strings.Contains(help, "Examples:\n") || !strings.Contains(help, "--json")) { // completion is cobra's
			t.Errorf("vacancy %v --help shows no example, or has no --json", path)
		}
	}
}

func TestExitCodesTopicNamesEveryKind(t *testing.T) {
	out := newShell(t).must("help", "exit-codes")
	for _, k := range problem.Kinds() {
		if !strings.Contains(out, k.String()) {
			t.Errorf("help exit-codes does not name %q", k)
		}
	}
}

func TestVersionNamesTheBuild(t *testing.T) {
	s := newShell(t)
	out := s.must("--version")
	if !strings.HasPrefix(out, "vacancy ") || !strings.Contains(out, "go1.") || strings.Count(out, "\n") != 1 || s.must("version") != out {
		t.Errorf("--version = %q, want one line with the version and that of Go, which version prints too", out)
	}
	if out := s.must("version", "--json"); !strings.Contains(out, `"version":"`) || !strings.Contains(out, `"go":"go1`) {
		t.Errorf("version --json = %q", out)
	}
}

func TestCompletionIsOffered(t *testing.T) {
	s := newShell(t)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := s.must("completion", shell); !strings.Contains(out, "vacancy") {
			t.Errorf("completion %s = %d bytes without the command's name", shell, len(out))
		}
	}
}

func TestWrongUsageExitsWith2AndAHint(t *testing.T) {
	for _, tc := range []struct {
		args string
		want string // in standard error
	}{
		{"nonsense", `unknown command "nonsense"`},
		{"login", "try: vacancy init NAME, which creates an identity for your calls; the key of an account goes into $VACANCY_KEY\n"},
		{"help cal", "unknown command or topic \"cal\"\ntry: vacancy help call\n"},
		{"help agent-fils", "try: vacancy help agent-files\n"},
		{"help nonsense", "try: vacancy help all\n"},
		{"help keys crate", "try: vacancy help keys create\n"},
		{"dev --port 8080", "try: --listen 127.0.0.1:PORT\n"},
		{"a2a serve --listen :1", "try: --port PORT\n"},
		{"show https://x.example/v/fox/", "try: vacancy card https://x.example/v/fox/, or another command for callers"},
		{"account unlink", "try: vacancy account unlink --as NAME\n"},
		{"lst", "try: vacancy "},
		{"init", "an argument is missing"},
		{"init a b", "too many arguments"},
		{"init alice --nonsense", "unknown flag: --nonsense"},
		{"init alice --nonsense", "try: vacancy init --help"},
		{"init a/b", `name: expected 1 to 64 letters`},
		{"init .hidden", `got ".hidden"`},
		{"init " + strings.Repeat("x", 65), "name: expected"},
		{"init alice --seed f", "--seed: not supported without --import"},
		{"search --limit 0", "--limit: expected 1 to 100, got 0"},
		{"route x --among 0", "--among: expected 1 to 2000, got 0"},
		{"route x --show 0", "--show: expected at least 1, got 0"},
		{"call demo --print", "TEXT: expected a message, for example hello, got none"},
		{"call demo text --ask", "--ask: not supported together with TEXT"},
		{"call demo text --reset", "--reset: not supported together with TEXT"},
		{"call demo text --accept f", "--accept: not supported together with TEXT"},
		{"call demo --ask --reset", "not supported together"},
		{"call demo text --print --ask", "not supported together"},
		{"call demo text --timeout 0s", "--timeout"},
		{"call demo text --timeout soon", "invalid argument"},
		{"call http://user:secret@127.0.0.1 text", "user and password"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			code, out, errs := newShell(t).run("", strings.Fields(tc.args)...)
			if code != problem.ExitUsage || out != "" || !strings.Contains(errs, tc.want) || strings.Contains(errs, "secret@") {
				t.Errorf("vacancy %s = exit %d, out %q, err %q; want exit 2, no output, an error with %q", tc.args, code, out, errs, tc.want)
			}
		})
	}
}

func TestAnErrorIsOneObjectForWhoAsksForJSON(t *testing.T) {
	for name, args := range map[string][]string{
		"error-unknown-identity": {"id", "alice", "--json"},
		"error-unknown-flag":     {"id", "--nonsense", "--json"},
		"error-bad-name":         {"--json", "init", "a/b"},
	} {
		code, out, errs := newShell(t).run("", args...)
		if code == 0 || out != "" {
			t.Errorf("vacancy %v = exit %d, out %q; want an error and no output", args, code, out)
		}
		clitest.CompareGolden(t, name, errs)
	}
}

func TestATextThatLooksLikeAFlagHintsAtItsSeparator(t *testing.T) {
	s := newShell(t)
	for text, want := range map[string]string{"-1 + 2": "vacancy call TARGET -- '-1 + 2'", "--help me": "vacancy call TARGET -- '--help me'", "--thread-nonsense": "vacancy call --help"} {
		s.fails(problem.ExitUsage, "try: "+want, "call", "demo", text)
	}
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The stories test the texts of these refusals, but accept every exit code except 0.
func TestRefusalsExitByTheirKind(t *testing.T) {
	s := newShell(t)
	for _, line := range []string{
		"init alice", "init bob --capability translate", "create scribe --capability writes", "create firm --capability answers", "spawn firm --path D2 --name kid",
		"create sunk --capability x", "sink sunk --yes", "create gone --capability x", "sink gone --yes", "archive gone --yes", "delete gone --yes",
	} {
		s.must(strings.Fields(line)...)
	}
	bob := filepath.Join(s.dataHome, "identities", "bob", "card.json")
	b, err := os.ReadFile(bob)
	must(t, err)
	forged := filepath.Join(t.TempDir(), "card.json")
	must(t, os.WriteFile(forged, []byte(strings.Replace(strings.Replace(string(b), "translate", "Translate", 1), "null", `"http://127.0.0.1:9/"`, 1)), 0o600))
	for _, tc := range []struct {
		code       int
		args, want string
	}{
		{problem.ExitNotFound, "show nobody", "nobody"},
		{problem.ExitNotFound, "list --data elsewhere", "start one with"},
		{problem.ExitNotFound, "id carol", "alice, bob"},
		{problem.ExitNotFound, "publish alice", "vacancy publish alice --registry URL"},
		{problem.ExitNotFound, "manifest firm", "not a known child"},
		{problem.ExitNotFound, "call " + bob + " hi --as bob", "no endpoint"},
		{problem.ExitConflict, "init alice", "never overwritten"},
		{problem.ExitConflict, "create scribe --capability other", "scribe"},
		{problem.ExitConflict, "archive scribe --yes", "cannot be archived"},
		{problem.ExitConflict, "delete scribe --yes", "only a vacant that is ARCHIVED can be deleted"},
		{problem.ExitConflict, "resume gone", "gone"},
		{problem.ExitConflict, "unpublish scribe", "never published"},
		{problem.ExitConflict, "update scribe name=health", "in use or reserved"},
		{problem.ExitRefused, "show gone --card", "was deleted"},
		{problem.ExitRefused, "export gone --host local", "was deleted"},
		{problem.ExitRefused, "update gone name=other", "was deleted"},
		{problem.ExitRefused, "snippet sunk", "sunk is SUNK, so it answers no calls\n"},
		{problem.ExitRefused, "publish kid", `try: vacancy graduate kid --capability "TEXT"`},
		{problem.ExitUsage, "sink scribe", "nothing was done"},
		{problem.ExitUsage, "export alice", "nothing was done"},
		{problem.ExitUsage, "export scribe --host local", "nothing was done"},
		{problem.ExitUsage, "gate set --limit 0", "limit: expected 1 to 1000, got 0"},
		{problem.ExitUsage, "doctor --stage dev", "--stage: not supported without --host aws"},
		{problem.ExitUntrusted, "call " + forged + " hi --as bob", "does not verify"},
		{problem.ExitUnavailable, "publish alice --registry http://127.0.0.1:1", "127.0.0.1:1"},
	} {
		s.fails(tc.code, tc.want, strings.Fields(tc.args)...)
	}
}
