package cli

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestVerifyOfAReadOnlyDiskHintsAtACopy(t *testing.T) {
	s := newShell(t)
	s.must("create", "demo", "--capability", "x")
	dir := filepath.Join(s.env["VACANCY_HOME"], "host")
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
	must(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""))
	code, _, errs := s.run("", "verify")
	if want := "try: cp -r $VACANCY_HOME/host COPY "; code == 0 || !strings.Contains(errs, "read-only") || !strings.Contains(errs, want) {
		t.Errorf("verify = exit %d, %q; want the disk and %q named", code, errs, want)
	}
	copied := filepath.Join(t.TempDir(), "copy")
	if out, err := exec.Command("cp", "-r", dir, copied).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v, %s", err, out)
	}
	if out := s.must("verify", "--data", copied); !strings.Contains(out, "all checks passed") {
		t.Errorf("verify of the copy = %q", out)
	}
	if code, _, errs := s.run("", "create", "other", "--capability", "x"); code == 0 || strings.Contains(errs, "COPY") {
		t.Errorf("create = exit %d, %q; want it refused without a copy, which it would change", code, errs)
	}
}
