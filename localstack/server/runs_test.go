package server

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// stray starts a process that does not end by itself, from a path inside a
// run's directory or not, with a file open. It is ended with the test.
func stray(t *testing.T, path string, file ...string) *exec.Cmd {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("LocalStack, and so the server, runs on Unix only")
	}
	tail, err := exec.LookPath("tail")
	must(t, err)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.Symlink(tail, path))
	cmd := exec.Command(path, append([]string{"-f", os.DevNull}, file...)...)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // most have ended
		_ = cmd.Wait()
	})
	awaitListed(t, cmd.Process.Pid, path)
	return cmd
}

// awaitListed waits until the process list shows the program's path. Start
// returns before the kernel has set the new program's arguments.
func awaitListed(t *testing.T, pid int, path string) {
	t.Helper()
	await.Until(t, fmt.Sprintf("process %d is listed as %s", pid, path), func() bool {
		all, err := listProcesses()
		must(t, err)
		return slices.ContainsFunc(all, func(p process) bool { return p.pid == pid && len(p.args) > 0 && p.args[0] == path })
	})
}

// ended reports whether cmd ends by itself, and waits for it.
func ended(cmd *exec.Cmd) bool {
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(10 * time.Second):
		return false
	}
}

func TestCleanEndsWhatAKilledRunLeftAlsoStopped(t *testing.T) {
	cache := t.TempDir()
	dir := filepath.Join(runsDir(cache), "killed")
	function := stray(t, filepath.Join(dir, "tmp", "lambda", "code", "bootstrap"))
	must(t, function.Process.Signal(syscall.SIGSTOP))
	must(t, Clean(cache))
	if !ended(function) {
		t.Error("the stopped process lives")
	}
	if fileExists(dir) {
		t.Error("the folder is there")
	}
}

func TestCleanLeavesARunThatLives(t *testing.T) {
	cache := t.TempDir()
	dir := filepath.Join(runsDir(cache), "alive")
	server := stray(t, filepath.Join(dir, "python"))
	content := fmt.Sprintf(`{"pid":%d,"port":4566}`, server.Process.Pid)
	must(t, os.WriteFile(filepath.Join(dir, "run.json"), []byte(content), 0o644))
	must(t, Clean(cache))
	if all, err := listProcesses(); err != nil || !hasPID(all, server.Process.Pid) || !fileExists(dir) {
		t.Errorf("the live run was taken for a dead one: %v", err)
	}
	s, err := Find(cache, "alive")
	if err != nil || s.PID != server.Process.Pid || s.URL != "http://127.0.0.1:4566" {
		t.Errorf("Find() = %+v, %v, want the run", s, err)
	}
}

func TestProcessOfAForeignPidFileIsNeverEnded(t *testing.T) {
	cache := t.TempDir()
	dir := filepath.Join(runsDir(cache), "stale")
	must(t, os.MkdirAll(dir, 0o755))
	// The kernel has reused the process id, or the process only has a file of
	// the run open.
	foreign := stray(t, filepath.Join(t.TempDir(), "editor"))
	must(t, os.WriteFile(filepath.Join(dir, "server.log"), nil, 0o644))
	reader := stray(t, filepath.Join(t.TempDir(), "pager"), filepath.Join(dir, "server.log"))
	content := fmt.Sprintf(`{"pid":%d,"port":4566}`, foreign.Process.Pid)
	must(t, os.WriteFile(filepath.Join(dir, "run.json"), []byte(content), 0o644))
	if _, err := Find(cache, "stale"); !problem.Is(err, problem.NotFound) {
		t.Errorf("Find() = %v, want NotFound", err)
	}
	must(t, Clean(cache))
	if fileExists(dir) {
		t.Error("the folder is there")
	}
	all, err := listProcesses()
	must(t, err)
	for _, cmd := range []*exec.Cmd{foreign, reader} {
		if !hasPID(all, cmd.Process.Pid) {
			t.Errorf("%s was ended", cmd.Path)
		}
	}
}

func TestProcessBelongsToARunByItsMarksOnly(t *testing.T) {
	const dir = "/cache/localstack-runs/laptop"
	for _, test := range []struct {
		args []string
		want bool
	}{
		{[]string{"/venv/bin/python", "-X", "vacancy=" + dir, "-m", "localstack.runtime.main"}, true},
		{[]string{"java", "-Xmx256m", "-Dvacancy.run=" + dir, "LoopbackDynamo"}, true},
		{[]string{dir + "/tmp/lambda/f/code/bootstrap"}, true},
		{[]string{"/venv/bin/python", "-X", "vacancy=" + dir + "-2"}, false},
		{[]string{dir + "-2/tmp/lambda/f/code/bootstrap"}, false},
		{[]string{"tail", "-f", dir + "/server.log"}, false},
		{[]string{"vim", dir}, false},
		{nil, false},
	} {
		if got := (process{1, test.args}).belongsTo(dir); got != test.want {
			t.Errorf("of(%q) = %v, want %v", test.args, got, test.want)
		}
	}
}

func TestThisProcessIsAmongTheListedOnes(t *testing.T) {
	for name, list := range map[string]func() ([]process, error){"processes": listProcesses, "fromPS": listProcessesByPS} {
		if _, err := exec.LookPath("ps"); err != nil && name == "fromPS" {
			continue // a minimal system has /proc instead
		}
		all, err := list()
		if err != nil || !hasPID(all, os.Getpid()) {
			t.Errorf("%s() = %d processes, %v, want this one among them", name, len(all), err)
		}
	}
}

func TestPortIsFreeOrTheWishIsRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	if _, err := pickPort(taken); !problem.Is(err, problem.Conflict) {
		t.Errorf("pickPort(%d) = %v, want Conflict", taken, err)
	}
	free, err := pickPort(0)
	if err != nil || free == 0 || free == taken {
		t.Errorf("pickPort(0) = %d, %v, want a free one", free, err)
	}
}

func TestTwoRunsOfANameAreAConflict(t *testing.T) {
	cache := t.TempDir()
	if _, err := makeRunDir(cache, "laptop"); err != nil {
		t.Fatal(err)
	}
	if _, err := makeRunDir(cache, "laptop"); !problem.Is(err, problem.Conflict) {
		t.Errorf("makeRun() = %v, want Conflict", err)
	}
	a, err := makeRunDir(cache, "")
	b, err2 := makeRunDir(cache, "")
	if a == b || err != nil || err2 != nil {
		t.Errorf("makeRun() = %q, %q, want two folders", a, b)
	}
}

// Whatever ps prints, no process id below one is returned: to kill it would
// mean a group.
func FuzzParsePS(f *testing.F) {
	f.Add("    1 /sbin/init\n  42 python -X vacancy=/tmp/a\n\n")
	f.Add("-1 x\n0 y\n")
	f.Fuzz(func(t *testing.T, out string) {
		for _, p := range parsePS(out) {
			if p.pid <= 0 || len(p.args) == 0 {
				t.Errorf("parsePS(%q) has %+v", out, p)
			}
		}
	})
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
