//go:build !unix

package procgroup

import (
	"os/exec"
	"strconv"
)

// Shell returns a shell that runs a command line of a person.
func Shell(command string) *exec.Cmd { return exec.Command("cmd", "/c", command) }

// Own does nothing, because this system has no process groups.
func Own(*exec.Cmd) {}

// IsAlive returns false, because only the program itself is known on this system.
func IsAlive(*exec.Cmd) bool { return false }

// End kills a program and its descendants. The program may be only a shell.
func End(cmd *exec.Cmd, _ bool) {
	_ = exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(cmd.Process.Pid)).Run()
	_ = cmd.Process.Kill()
}

// Guard does nothing, because this system has no process groups.
func Guard(*exec.Cmd) (release func()) { return func() {} }

// Signal returns "", because this system has no signals.
func Signal(*exec.Cmd) string { return "" }
