package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/clitest"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestInitAndIdShowTheIdentity(t *testing.T) {
	s := newShell(t)
	clitest.Golden(t, "init", s.must("init", "alice"))
	clitest.Golden(t, "id", s.must("id", "alice"))
	clitest.Golden(t, "id.json", s.must("id", "alice", "--json"))
	clitest.Golden(t, "init-card.json", s.must("init", "bob", "--capability", "translate ZH↔EN", "--json"))
}

func TestASecondInitOfANameIsAConflict(t *testing.T) {
	s := newShell(t)
	s.must("init", "alice")
	code, out, errs := s.run("", "init", "alice")
	if code != problem.ExitConflict || out != "" || !strings.Contains(errs, "never overwritten") {
		t.Errorf("a second init = exit %d, %q, %q; want a conflict", code, out, errs)
	}
}

func TestIdOfNobodyNamesWhoThereIs(t *testing.T) {
	s := newShell(t)
	s.must("init", "alice")
	s.must("init", "bob")
	code, _, errs := s.run("", "id", "carol")
	if code != problem.ExitNotFound || !strings.Contains(errs, "alice, bob") {
		t.Errorf("id carol = exit %d, %q; want not found, with the names there are", code, errs)
	}
}

func TestACapabilityWithControlCharactersIsRefusedAndLeavesNothing(t *testing.T) {
	s := newShell(t)
	code, _, errs := s.run("", "init", "alice", "--capability", "a\x1fb")
	if code != problem.ExitUsage || !strings.Contains(errs, "capability_text") {
		t.Errorf("init = exit %d, %q; want the field named", code, errs)
	}
	if code, _, _ := s.run("", "id", "alice"); code != problem.ExitNotFound {
		t.Errorf("id alice = exit %d, want that there is none", code)
	}
}

func TestExportAsksTwiceBeforeItWritesTheKey(t *testing.T) {
	for name, tc := range map[string]struct {
		stdin string
		code  int
	}{
		"both answered":        {"alice\nyes\n", 0},
		"wrong name":           {"bob\nyes\n", problem.ExitUsage},
		"no second yes":        {"alice\nno\n", problem.ExitUsage},
		"yes without the name": {"yes\nyes\n", problem.ExitUsage},
		"nothing":              {"", problem.ExitUsage},
		"input ends early":     {"alice\n", problem.ExitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShell(t)
			s.must("init", "alice")
			out := filepath.Join(s.dataHome, "out.json")
			code, _, errs := s.run(tc.stdin, "export", "alice", "--out", out)
			if code != tc.code {
				t.Fatalf("export = exit %d, %q; want %d", code, errs, tc.code)
			}
			if _, err := os.Stat(out); (err == nil) != (code == 0) {
				t.Errorf("after exit %d the file is: %v", code, err)
			}
		})
	}
}

func TestExportVerifyImportGoRound(t *testing.T) {
	s := newShell(t)
	s.must("init", "alice", "--capability", "translate")
	file := filepath.Join(s.dataHome, "alice.json")
	clitest.Golden(t, "export", s.must("export", "alice", "--out", file, "--yes"))
	clitest.Golden(t, "verify", s.must("verify", file))
	clitest.Golden(t, "verify.json", s.must("verify", file, "--json"))

	before := s.must("id", "alice", "--json")
	if code, _, errs := s.run("", "init", "again", "--import", file); code != problem.ExitConflict || !strings.Contains(errs, `"alice"`) {
		t.Errorf("init of a key that is here = exit %d, %q; want a conflict that names alice", code, errs)
	}
	if err := os.Rename(filepath.Join(s.dataHome, "identities", "alice"), filepath.Join(t.TempDir(), "alice")); err != nil {
		t.Fatal(err)
	}
	clitest.Golden(t, "init-import", s.must("init", "again", "--import", file))
	if id(t, before) != id(t, s.must("id", "again", "--json")) {
		t.Error("the imported identity has another id")
	}
	code, _, errs := s.run("", "export", "again", "--out", file, "--yes")
	if code != problem.ExitConflict {
		t.Errorf("export over a file = exit %d, %q; want a conflict", code, errs)
	}
}

func id(t *testing.T, out string) string {
	t.Helper()
	var r struct {
		ID string `json:"vacant_id"`
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.ID) != 64 {
		t.Fatalf("no id in %s: %v", out, err)
	}
	return r.ID
}

func TestVerifyReportsDamageAndExitsWith1(t *testing.T) {
	s := newShell(t)
	s.must("init", "alice", "--capability", "translate")
	file := filepath.Join(s.dataHome, "alice.json")
	s.must("export", "alice", "--out", file, "--yes")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(s.dataHome, "broken.json")
	damaged := strings.Replace(strings.Replace(string(b), "translate", "Translate", 1), `"name": "alice", "v`, `"name": "mallo", "v`, 1)
	if err := os.WriteFile(broken, []byte(damaged), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := s.run("", "verify", broken)
	if code != problem.ExitFailed || errs != "" {
		t.Errorf("verify = exit %d, %q; want 1, and the report on standard output", code, errs)
	}
	clitest.Golden(t, "verify-broken", out)
	code, out, _ = s.run("", "verify", broken, "--json")
	if code != problem.ExitFailed || !strings.Contains(out, `"ok":false`) {
		t.Errorf("verify --json = exit %d, %q; want 1 and ok false", code, out)
	}
	if code, _, _ := s.run("", "verify", filepath.Join(s.dataHome, "absent")); code != problem.ExitNotFound {
		t.Errorf("verify of no file = exit %d, want %d", code, problem.ExitNotFound)
	}
}

func TestASeedComesFromStandardInput(t *testing.T) {
	s := newShell(t)
	seed := "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
	code, out, errs := s.run(seed, "init", "alice", "--import", "-", "--json")
	if code != 0 || id(t, out) != "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8" {
		t.Errorf("init --import - = exit %d, %q, %q; want the seed's key", code, out, errs)
	}
}

func TestNoOutputShowsASeed(t *testing.T) {
	s := newShell(t)
	seed := "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	s.run(seed, "init", "alice", "--import", "-")
	file := filepath.Join(s.dataHome, "alice.json")
	for _, args := range [][]string{{"id", "alice"}, {"export", "alice", "--out", file, "--yes"}, {"verify", file}, {"verify", file, "--json"}} {
		code, out, errs := s.run("", args...)
		if code != 0 || strings.Contains(out+errs, seed[:16]) {
			t.Errorf("vacancy %v = exit %d and shows the seed or failed: %s%s", args, code, out, errs)
		}
	}
}
