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

// archived makes a hosted vacant that is archived.
func (s *shell) archived(name string) {
	s.t.Helper()
	s.must("create", name, "--capability", "writes")
	s.must("sink", name, "--yes")
	s.must("archive", name, "--yes")
}

func TestADeletedVacantIsShownAsWritten(t *testing.T) {
	s := newShell(t)
	s.archived("scribe")
	clitest.Golden(t, "delete", s.must("delete", "scribe", "--yes"))
	if out, want := s.must("delete", "scribe"), "scribe was deleted before, at 2026-05-06T00:00:00+00:00\n"; out != want {
		t.Errorf("delete, again = %q, want %q", out, want)
	}
	clitest.Golden(t, "delete.json", s.must("delete", "scribe", "--json"))
	clitest.Golden(t, "list-deleted", s.must("list", "--all"))
	if out := s.must("list"); out != "no vacants\n" {
		t.Errorf("list = %q, want no tombstone", out)
	}
	clitest.Golden(t, "show-deleted", s.must("show", "scribe", "--logbook"))
	for args, code := range map[string]int{
		"show scribe --card":         problem.ExitRefused,
		"export scribe --host local": problem.ExitRefused,
		"resume scribe":              problem.ExitConflict,
		"update scribe name=other":   problem.ExitRefused,
	} {
		if got, out, errs := s.run("", strings.Fields(args)...); got != code || out != "" {
			t.Errorf("vacancy %s = exit %d, %q, %q; want %d", args, got, out, errs, code)
		}
	}
	if out := s.must("verify"); !strings.Contains(out, "whole") {
		t.Errorf("verify after a deletion says %q", out)
	}
}

func TestDeleteAsksForTheNameAndNamesWhatComesFirst(t *testing.T) {
	s := newShell(t)
	s.must("create", "scribe", "--capability", "writes")
	for _, want := range []string{"try: vacancy sink scribe, then vacancy archive scribe", "try: vacancy archive scribe"} {
		if code, _, errs := s.run("", "delete", "scribe", "--yes"); code != problem.ExitConflict || !strings.Contains(errs, "only one that is ARCHIVED can be deleted") || !strings.Contains(errs, want) {
			t.Errorf("delete = exit %d, %q; want a conflict and %q", code, errs, want)
		}
		s.must("sink", "scribe", "--yes")
	}
	s.must("archive", "scribe", "--yes")
	for _, answer := range []string{"", "yes\n", "scribes\n"} {
		if code, _, errs := s.run(answer, "delete", "scribe"); code != problem.ExitUsage || !strings.Contains(errs, "nothing was done") {
			t.Errorf("delete answered %q = exit %d, %q; want nothing done", answer, code, errs)
		}
	}
	if code, out, errs := s.run("scribe\n", "delete", "scribe"); code != 0 || !strings.HasPrefix(out, "scribe is deleted\n") {
		t.Errorf("delete answered with the name = exit %d, %q, %q", code, out, errs)
	}
	if code, _, errs := s.run("", "delete", "nobody", "--yes"); code != problem.ExitNotFound {
		t.Errorf("delete of nobody = exit %d, %q", code, errs)
	}
}

func TestAHostedVacantIsExportedAsAnIdentityIs(t *testing.T) {
	s := newShell(t)
	s.must("create", "scribe", "--capability", "writes")
	file := filepath.Join(s.dataHome, "scribe.json")
	clitest.Golden(t, "export-hosted", s.must("export", "scribe", "--host", "local", "--out", file, "--yes"))
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v, want mode 0600", info.Mode(), err)
	}
	clitest.Golden(t, "verify-hosted-export", s.must("verify", file))
	if out := s.must("show", "scribe", "--logbook"); !strings.Contains(out, "KEY_EXPORTED") {
		t.Errorf("the logbook does not tell that the key left: %s", out)
	}

	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if code, _, errs := s.run("", "export", "scribe", "--host", "local", "--out", file, "--yes"); code != problem.ExitConflict || !strings.Contains(errs, "not overwritten") {
		t.Errorf("export over a file = exit %d, %q; want a conflict", code, errs)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("the file was changed, %v", err)
	}
	if out := s.must("show", "scribe", "--logbook"); strings.Count(out, "KEY_EXPORTED") != 1 {
		t.Errorf("a refused export is in the logbook: %s", out)
	}

	// Another host imports it, and so does the person.
	data := filepath.Join(s.dataHome, "other")
	s.must("create", "moved", "--capability", "writes", "--import", file, "--data", data)
	s.must("init", "me", "--import", file)
	if id(t, s.must("id", "me", "--json")) != hostedID(t, s.must("show", "scribe", "--json")) {
		t.Error("the imported identity has another id")
	}
}

func hostedID(t *testing.T, out string) string {
	t.Helper()
	var v struct {
		ID string `json:"vacant_id"`
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatal(err)
	}
	return v.ID
}

// A name can be an identity's and a vacant's; only the flags decide which is
// meant.
func TestExportTakesAnIdentityUnlessAHostIsNamed(t *testing.T) {
	s := newShell(t)
	s.must("init", "both")
	s.must("create", "both", "--capability", "writes")
	mine, theirs := id(t, s.must("id", "both", "--json")), hostedID(t, s.must("show", "both", "--json"))
	for name, tc := range map[string]struct {
		env  map[string]string
		args []string
		want string
	}{
		"no flag":                      {nil, nil, mine},
		"a host in the environment":    {map[string]string{"VACANCY_HOST": "https://x.example"}, nil, mine},
		"--host local":                 {nil, []string{"--host", "local"}, theirs},
		"--host local, over the other": {map[string]string{"VACANCY_HOST": "https://x.example"}, []string{"--host", "local"}, theirs},
		"--data":                       {nil, []string{"--data", filepath.Join(s.dataHome, "host")}, theirs},
	} {
		t.Run(name, func(t *testing.T) {
			old := s.env
			defer func() { s.env = old }()
			s.env = map[string]string{}
			for _, m := range []map[string]string{old, tc.env} {
				for k, v := range m {
					s.env[k] = v
				}
			}
			file := filepath.Join(t.TempDir(), "x.json")
			s.must(append([]string{"export", "both", "--out", file, "--yes"}, tc.args...)...)
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got struct{ ID string }
			if err := json.Unmarshal(b, &got); err != nil || got.ID != tc.want {
				t.Errorf("exported %s, %v, want %s", got.ID, err, tc.want)
			}
		})
	}
	s.must("create", "hosted", "--capability", "writes")
	if code, _, errs := s.run("", "export", "hosted", "--yes"); code != problem.ExitNotFound || !strings.Contains(errs, "try: vacancy export hosted --host local") {
		t.Errorf("export of what only a host has = exit %d, %q; want the flag named", code, errs)
	}
}

func TestExportOfAHostedVacantAsksTwice(t *testing.T) {
	s := newShell(t)
	s.must("create", "scribe", "--capability", "writes")
	out := filepath.Join(s.dataHome, "scribe.json")
	for _, answer := range []string{"", "yes\n", "scribe\n", "scribe\nno\n"} {
		if code, _, errs := s.run(answer, "export", "scribe", "--host", "local", "--out", out); code != problem.ExitUsage {
			t.Errorf("export answered %q = exit %d, %q; want nothing done", answer, code, errs)
		}
	}
	if got := s.must("show", "scribe", "--logbook"); strings.Contains(got, "KEY_EXPORTED") {
		t.Error("an export that was not confirmed is in the logbook")
	}
	if code, _, errs := s.run("scribe\nyes\n", "export", "scribe", "--host", "local", "--out", out); code != 0 || !strings.Contains(errs, "in two places now") {
		t.Errorf("export = exit %d, %q", code, errs)
	}
}

func TestRemoveTakesTheThreeStepsAfterOneQuestion(t *testing.T) {
	s := newShell(t)
	s.must("create", "scribe", "--capability", "writes")
	if code, _, errs := s.run("no\n", "remove", "scribe"); code != problem.ExitUsage || !strings.Contains(errs, "its key will be destroyed") || !strings.Contains(errs, "try: vacancy remove scribe --yes") {
		t.Errorf("remove answered no = exit %d, %q", code, errs)
	}
	if out := s.must("list"); !strings.Contains(out, "LOCAL") {
		t.Errorf("after a refusal list = %q, want the vacant as it was", out)
	}
	s.must("sink", "scribe", "--yes") // as if the command had been interrupted
	if code, out, errs := s.run("scribe\n", "remove", "scribe"); code != 0 || !strings.HasPrefix(out, "scribe is deleted\n") {
		t.Errorf("remove = exit %d, %q, %q", code, out, errs)
	}
	if out := s.must("remove", "scribe"); !strings.HasPrefix(out, "scribe was deleted before, at ") {
		t.Errorf("remove, again = %q", out)
	}
	s.must("create", "scribe", "--capability", "writes again")
	if out := s.must("list", "--all"); strings.Count(out, "\nscribe ") != 2 || strings.Count(out, "(deleted, ") != 1 {
		t.Errorf("list --all = %q, want the new one and the deleted one", out)
	}
}

func TestUpdateTakesSettings(t *testing.T) {
	s := newShell(t)
	s.must("create", "scribe", "--capability", "writes")
	clitest.Golden(t, "update", s.must("update", "scribe", "name=clerk", "capability=answers letters = and calls"))
	for args, want := range map[string]string{
		"update clerk name":              `expected name=NAME, capability=TEXT, substrate=SUBSTRATE, work=TIME or settings of its agent, got "name"`,
		"update clerk colour=red":        "expected name=NAME",
		"update clerk name=a name=b":     "name: expected once, got it twice",
		"update clerk":                   "expected one of: settings KEY=VALUE",
		"update clerk model":             `or settings of its agent, got "model"`,
		"update clerk substrate=nowhere": "substrate",
		"update clerk name=0123456789ab": "beginning of an id",
	} {
		if code, out, errs := s.run("", strings.Fields(args)...); code != problem.ExitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("vacancy %s = exit %d, %q, %q; want a usage error that says %q", args, code, out, errs, want)
		}
	}
	// One refusal for reserved names and for names of others, whoever asks.
	if code, _, errs := s.run("", "update", "clerk", "name=health"); code != problem.ExitConflict || !strings.Contains(errs, "the name health is in use or reserved on this host") {
		t.Errorf("vacancy update clerk name=health = exit %d, %q", code, errs)
	}
}
