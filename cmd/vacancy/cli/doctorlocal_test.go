package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDoctorNamesFilesThatOthersCanRead(t *testing.T) {
	s := newShell(t)
	s.must("create", "demo", "--capability", "x")
	if code, out, errs := s.run("", "doctor"); code != 0 || !strings.Contains(out, "only you can read") || !strings.Contains(out, "no host is running") {
		t.Errorf("doctor = exit %d, %q, %q; want a private directory without a host", code, out, errs)
	}
	if err := os.Chmod(filepath.Join(s.env["VACANCY_HOME"], "host", "seal.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := s.run("", "doctor", "--host", "local"); code != 1 || !strings.Contains(out, "others can read seal.key") || !strings.Contains(out, "fix: chmod -R go= ") {
		t.Errorf("doctor = exit %d, %q; want seal.key named, with its fix", code, out)
	}
	for _, args := range [][]string{{"--host", "https://vacancy.example"}, {"--stage", "dev"}, {"--host", "local", "--stage", "dev"}} {
		if code, _, errs := s.run("", append([]string{"doctor"}, args...)...); code != 2 {
			t.Errorf("doctor %v = exit %d, %q; want it refused", args, code, errs)
		}
	}
}
