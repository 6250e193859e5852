//go:build unix

package startcmd

import (
	"os/exec"
	"syscall"
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
