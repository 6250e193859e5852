//go:build unix

package startcmd

import (
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// inShell is a command of a person for a shell.
func inShell(command string) *exec.Cmd { return exec.Command("sh", "-c", command) }

// ownGroup lets a program and what it starts be ended together.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// groupLives reports whether a program runs, or anything that it started.
func groupLives(cmd *exec.Cmd) bool { return syscall.Kill(-cmd.Process.Pid, 0) == nil }

// endGroup ends a program with all that it started: at once if it is told so.
func endGroup(cmd *exec.Cmd, now bool) {
	signal := syscall.SIGTERM
	if now {
		signal = syscall.SIGKILL
	}
	_ = syscall.Kill(-cmd.Process.Pid, signal) // it may have ended
}

// guardGroup starts a process that ends the program's group when this process has died, for example by SIGKILL:
// then the guard's standard input ends. release ends the guard.
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
