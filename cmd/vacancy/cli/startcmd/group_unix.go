//go:build unix

package startcmd

import (
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

func inShell(command string) *exec.Cmd { return exec.Command("sh", "-c", command) }

// ownGroup puts a program in a process group of its own, so that it can be ended with its
// descendants.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func groupLives(cmd *exec.Cmd) bool { return syscall.Kill(-cmd.Process.Pid, 0) == nil }

func endGroup(cmd *exec.Cmd, now bool) {
	signal := syscall.SIGTERM
	if now {
		signal = syscall.SIGKILL
	}
	_ = syscall.Kill(-cmd.Process.Pid, signal) // the group may have ended
}

// guardGroup starts a guard process that ends the program's group when this process dies, for
// example by SIGKILL. The guard detects this by the end of its standard input. release ends the
// guard.
func guardGroup(cmd *exec.Cmd) (release func()) {
	guard := exec.Command("sh", "-c", fmt.Sprintf("read -r line; kill -s TERM -- -%[1]d; sleep %[2]d; kill -s KILL -- -%[1]d", cmd.Process.Pid, stopTime/time.Second))
	ownGroup(guard)
	if _, err := guard.StdinPipe(); err != nil || guard.Start() != nil {
		return func() {}
	}
	return func() {
		_ = guard.Process.Kill()
		_ = guard.Wait()
	}
}
