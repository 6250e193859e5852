//go:build unix

package serve

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// intruder, if it names a data directory, makes the test binary try to read it
// and report, instead of running tests.
const intruder = "VACANCY_TEST_INTRUDER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(intruder); dir != "" {
		intrude(os.Stdout, dir)
		return
	}
	os.Exit(m.Run())
}

// intrude writes one line for each access that succeeds.
func intrude(w io.Writer, dir string) {
	if b, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "open")); err == nil {
		fmt.Fprintf(w, "the file beside: %s\n", b)
	}
	if names, err := os.ReadDir(dir); err == nil {
		fmt.Fprintf(w, "the folder's list: %v\n", names)
	}
	if c, err := net.Dial("unix", filepath.Join(dir, socketName)); err == nil {
		fmt.Fprintln(w, "a connection")
		c.Close()
	} else if !errors.Is(err, fs.ErrPermission) {
		fmt.Fprintf(w, "another error: %v\n", err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, tokenName)); err == nil {
		fmt.Fprintf(w, "the token: %s\n", b)
	}
	if _, _, err := DialAdmin(dir); !problem.Is(err, problem.Forbidden) {
		fmt.Fprintf(w, "from DialControl: %v\n", err)
	}
}

// Another user of the machine gets no access: the directory's mode denies it,
// and if that is opened the files' modes do.
func TestAnotherUserGetsNothing(t *testing.T) {
	if os.Getuid() != 0 {
		// Only root can become another user. TestOnlyTheOwnerMayEnter checks
		// the modes.
		t.Log("not root: no other user to try as")
		return
	}
	dir := folder(t)
	open(t, dir, false)
	open(t, dir, true)
	parent := filepath.Dir(dir)
	must(t, errors.Join(os.Chmod(parent, 0o755), os.WriteFile(filepath.Join(parent, "open"), []byte("yes"), 0o644)))
	self, err := os.Executable()
	must(t, err)
	b, err := os.ReadFile(self)
	must(t, err)
	program := filepath.Join(parent, "intruder")
	must(t, os.WriteFile(program, b, 0o755))
	try := func() string {
		c := exec.Command(program)
		c.Dir, c.Env = parent, []string{intruder + "=" + dir}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	const beside = "the file beside: yes\n" // so the intruder runs, and gets that far
	if got := try(); got != beside {
		t.Errorf("another user gets:\n%swant the file beside the folder alone", got)
	}
	must(t, os.Chmod(dir, 0o755))
	if got := try(); !strings.HasPrefix(got, beside+"the folder's list: ") || strings.Count(got, "\n") != 2 {
		t.Errorf("with the folder open another user gets:\n%swant its list and nothing in it", got)
	}
}
