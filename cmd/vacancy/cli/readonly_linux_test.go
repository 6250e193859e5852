package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestVerifyReadsADiskThatTakesNoWrites(t *testing.T) {
	s := newShell(t)
	s.must("create", "demo", "--capability", "x")
	dir := filepath.Join(s.env["VACANCY_HOME"], "host")
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	if err := syscall.Mount(dir, dir, "", syscall.MS_BIND, ""); errors.Is(err, syscall.EPERM) {
		t.Skip("needs the right to mount") // a user without it cannot make a disk read-only
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := s.run("", "verify"); code != 0 || !strings.Contains(out, "whole") && !strings.Contains(out, "ok") || !strings.Contains(errs, "a copy is read") {
		t.Errorf("verify = exit %d, %q, %q; want a whole host, by a copy", code, out, errs)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("%d files are left in the temporary directory, %v", len(left), err)
	}
	if code, _, errs := s.run("", "create", "other", "--capability", "x"); code == problem.ExitOK || strings.Contains(errs, "copy") {
		t.Errorf("create = exit %d, %q; want it refused, and nothing copied", code, errs)
	}
}
