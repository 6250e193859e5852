//go:build !unix

package startcmd

import (
	"os/exec"
	"strconv"
)

func inShell(command string) *exec.Cmd { return exec.Command("cmd", "/c", command) }

func ownGroup(*exec.Cmd) {} // this system has no process groups

func groupLives(*exec.Cmd) bool { return false } // only the end of the program itself is known

func endGroup(cmd *exec.Cmd, _ bool) {
	// taskkill also ends the descendants. The program itself is only a shell.
	_ = exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(cmd.Process.Pid)).Run()
	_ = cmd.Process.Kill()
}

func guardGroup(*exec.Cmd) (release func()) { return func() {} } // see ownGroup
