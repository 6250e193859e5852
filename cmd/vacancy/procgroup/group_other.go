//go:build !unix

package procgroup

import (
	"os/exec"
	"strconv"
)

// Shell returns a command that runs a user's command line in a shell.
func Shell(command string) *exec.Cmd { return exec.Command("cmd", "/c", command) }

// Own does nothing, because this system has no process groups.
func Own(*exec.Cmd) {}

// IsAlive returns false, because only the program itself is known on this system.
func IsAlive(*exec.Cmd) bool { return false }

// End kills a program and its descendants, because the program may be only the shell that started
// them.
func End(cmd *exec.Cmd, _ bool) {
	_ = exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(cmd.Process.Pid)).Run()
	_ = cmd.Process.Kill()
}

// Guard does nothing, because this system has no process groups.
func Guard(*exec.Cmd) (release func()) { return func() {} }

// Signal returns "", because this system has no signals.
func Signal(*exec.Cmd) string { return "" }
