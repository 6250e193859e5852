//go:build unix

package procgroup

import (
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// Shell returns a command that runs a user's command line in a shell.
func Shell(command string) *exec.Cmd { return exec.Command("sh", "-c", command) }

// Own makes a program start in its own process group. The group also contains the processes that
// the program starts. Own must be called before the program starts.
func Own(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// IsAlive reports whether a process of the program's group runs.
func IsAlive(cmd *exec.Cmd) bool { return syscall.Kill(-cmd.Process.Pid, 0) == nil }

// End sends SIGTERM to the program's group, or SIGKILL if kill is true.
func End(cmd *exec.Cmd, kill bool) {
	signal := syscall.SIGTERM
	if kill {
		signal = syscall.SIGKILL
	}
	_ = syscall.Kill(-cmd.Process.Pid, signal) // fails if the group has ended
}

// Guard starts a guard process that ends the program's group if this process dies, for example by
// SIGKILL. The guard notices the death because its standard input ends. release ends the guard.
func Guard(cmd *exec.Cmd) (release func()) {
	guard := exec.Command("sh", "-c", fmt.Sprintf("read -r line; kill -s TERM -- -%[1]d; sleep %[2]d; kill -s KILL -- -%[1]d", cmd.Process.Pid, GracePeriod/time.Second))
	Own(guard)
	if _, err := guard.StdinPipe(); err != nil || guard.Start() != nil {
		return func() {}
	}
	return func() {
		_ = guard.Process.Kill()
		_ = guard.Wait()
	}
}

// Signal returns the name of the signal that ended a program, or "".
func Signal(cmd *exec.Cmd) string {
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal().String()
	}
	return ""
}
