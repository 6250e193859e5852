package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/clitest"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestHostedVacantsAreShownAsWritten(t *testing.T) {
	s := newShell(t)
	clitest.Golden(t, "create", s.must("create", "scribe", "--capability", "repeats what it hears"))
	clitest.Golden(t, "create.json", s.must("create", "clerk", "--capability", "answers", "--substrate", "http:http://127.0.0.1:9/answer", "--no-check", "--json"))
	clitest.Golden(t, "pause", s.must("pause", "scribe"))
	clitest.Golden(t, "resume.json", s.must("resume", "scribe", "--json"))
	clitest.Golden(t, "sink", s.must("sink", "scribe", "--yes"))
	clitest.Golden(t, "archive", s.must("archive", "scribe", "--yes"))
	clitest.Golden(t, "list", s.must("list"))
	clitest.Golden(t, "list.json", s.must("list", "--json"))
	clitest.Golden(t, "show-logbook", s.must("show", "scribe", "--logbook"))
	clitest.Golden(t, "show-logbook.json", s.must("show", "scribe", "--logbook", "--json"))
	clitest.Golden(t, "show-card", s.must("show", "clerk", "--card"))

	// What create takes as a flag, update takes as a flag or a setting; a program is shown by its URL.
	for _, args := range [][]string{
		{"--capability", "answers 1", "--substrate", "http://127.0.0.1:9/other"},
		{"--capability", "answers 1", "substrate=http:http://127.0.0.1:9/other"},
		{"capability=answers 1", "substrate=http://127.0.0.1:9/other"},
	} {
		out := s.must(append([]string{"update", "clerk", "--no-check"}, args...)...)
		if !strings.Contains(out, "  capability  answers 1\n  substrate   http://127.0.0.1:9/other\n") {
			t.Errorf("update %q = %q", args, out)
		}
	}
	if code, _, errs := s.run("", "update", "clerk", "--capability", "a", "capability=b"); code != problem.ExitUsage || !strings.Contains(errs, "capability: expected once") {
		t.Errorf("two capabilities: exit %d, %q", code, errs)
	}
}

func TestRefusalsOfTheAdminAPIExitByTheirKind(t *testing.T) {
	s := newShell(t)
	s.must("create", "scribe", "--capability", "writes")
	for _, tc := range []struct {
		args string
		code int
		want string
	}{
		{"show nobody", problem.ExitNotFound, "nobody"},
		{"pause nobody", problem.ExitNotFound, "nobody"},
		{"show ..", problem.ExitUsage, "name: expected"},
		{"create scribe --capability other", problem.ExitConflict, "scribe"},
		{"create a/b --capability x", problem.ExitUsage, "name"},
		{"create bad --capability x --substrate telepathy", problem.ExitUsage, "telepathy"},
		{"create bad", problem.ExitUsage, "--capability is missing"},
		{"archive scribe --yes", problem.ExitConflict, "cannot be archived"},
		{"show scribe --card --logbook", problem.ExitUsage, "do not go together"},
		{"create bad --capability x --import absent", problem.ExitNotFound, "absent"},
		{"list --data elsewhere", problem.ExitNotFound, `elsewhere; start one with "vacancy dev --data elsewhere"`},
	} {
		code, out, errs := s.run("", strings.Fields(tc.args)...)
		if code != tc.code || out != "" || !strings.Contains(errs, tc.want) {
			t.Errorf("vacancy %s = exit %d, %q, %q; want %d and %q", tc.args, code, out, errs, tc.code, tc.want)
		}
	}
}

func TestSinkAndArchiveAskForTheName(t *testing.T) {
	s := newShell(t)
	s.must("create", "scribe", "--capability", "writes")
	for _, answer := range []string{"", "yes\n", "scribes\n"} {
		if code, _, errs := s.run(answer, "sink", "scribe"); code != problem.ExitUsage || !strings.Contains(errs, "nothing was done") {
			t.Errorf("sink answered %q = exit %d, %q; want nothing done", answer, code, errs)
		}
	}
	if code, out, _ := s.run("scribe\n", "sink", "scribe"); code != 0 || out != "scribe is SUNK\n" {
		t.Errorf("sink answered with the name = exit %d, %q; want it sunk", code, out)
	}
}

func TestDevServesThisMachineOnly(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:8080", ":8080", "192.0.2.1:80", "[::]:8080", "example.com:80", "8080", ""} {
		code, out, errs := newShell(t).run("", "dev", "--listen", listen)
		if code != problem.ExitUsage || out != "" || !strings.Contains(errs, "--listen: expected") {
			t.Errorf("dev --listen %q = exit %d, %q; want it refused", listen, code, errs)
		}
	}
}

func TestDevEndsWellWhenItIsInterrupted(t *testing.T) {
	s := newShell(t)
	ctx, interrupt := context.WithCancel(context.Background())
	out := &watched{seen: "The log:", then: interrupt}
	errs := &watched{}
	a := &kit.App{Out: out, Err: errs, Env: s.env, Now: s.clock, Rand: s.rand}
	if code := a.Run(ctx, rootCommand(a), []string{"dev", "--listen", "127.0.0.1:0"}); code != 0 {
		t.Fatalf("dev = exit %d, want 0; it said: %s", code, errs.String())
	}
	for _, want := range []string{`demo answered "hello" with "echo from`, "signed and verified", "curl -w '\\n' -d hi http://127.0.0.1:"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("dev does not say %q:\n%s", want, out)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(s.dataHome, "host", "admin*")); len(left) > 0 {
		t.Errorf("dev left %v behind", left)
	}
	if code, list, _ := s.run("", "list"); code != 0 || !strings.Contains(list, "\ndemo  ACTIVE") {
		t.Errorf("list after dev = exit %d, %q; want the demo", code, list)
	}
}

// watched is a writer that calls then once, when the output contains seen.
type watched struct {
	mu   sync.Mutex
	text strings.Builder
	seen string
	then func()
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.text.Write(p)
	if w.then != nil && strings.Contains(w.text.String(), w.seen) {
		w.then()
		w.then = nil
	}
	return n, err
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func TestADataFileOfANewerFormatIsRefused(t *testing.T) {
	s := newShell(t)
	s.must("create", "scribe", "--capability", "writes")
	path := filepath.Join(s.dataHome, "host", standalone.DataFile)
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		meta := tx.Bucket([]byte("meta"))
		return meta.Put([]byte("format"), append(make([]byte, len(meta.Get([]byte("format")))-1), 99))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"list"}, {"dev", "--listen", "127.0.0.1:0"}} {
		code, out, errs := s.run("", args...)
		if code == 0 || out != "" || !strings.Contains(errs, "99") {
			t.Errorf("vacancy %v over a newer file = exit %d, %q, %q; want it refused by its format", args, code, out, errs)
		}
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the newer file was changed (%v)", err)
	}
}

func TestAMissingSealKeyIsNotMadeFresh(t *testing.T) {
	s := newShell(t)
	s.must("create", "scribe", "--capability", "writes")
	seal := filepath.Join(s.dataHome, "host", standalone.SealFile)
	if err := os.Remove(seal); err != nil {
		t.Fatal(err)
	}
	code, _, errs := s.run("", "list")
	if code != problem.ExitFailed || !strings.Contains(errs, "put it back") || standalone.IsThere(seal) {
		t.Errorf("list without the key = exit %d, %q, key there: %t; want it refused", code, errs, standalone.IsThere(seal))
	}
}
