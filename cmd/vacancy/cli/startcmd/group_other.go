//go:build !unix

package startcmd

import (
	"os/exec"
	"strconv"
)

// inShell is a command of a person for a shell.
func inShell(command string) *exec.Cmd { return exec.Command("cmd", "/c", command) }

// ownGroup does nothing: this system has no groups of processes.
func ownGroup(*exec.Cmd) {}

// groupLives is false: a program that has ended is all that is known here.
func groupLives(*exec.Cmd) bool { return false }

// endGroup ends a program and its descendants at once. The program itself is only a shell.
func endGroup(cmd *exec.Cmd, _ bool) {
	_ = exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(cmd.Process.Pid)).Run()
	_ = cmd.Process.Kill()
}

// guardGroup does nothing: see ownGroup.
func guardGroup(*exec.Cmd) (release func()) { return func() {} }
