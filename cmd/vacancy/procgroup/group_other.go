//go:build !unix

package procgroup

import (
	"os/exec"
	"strconv"
)

func Shell(command string) *exec.Cmd { return exec.Command("cmd", "/c", command) }

func Own(*exec.Cmd) {}

func IsAlive(*exec.Cmd) bool { return false }

// End also kills the descendants, because the program may be only a shell.
func End(cmd *exec.Cmd, _ bool) {
	_ = exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(cmd.Process.Pid)).Run()
	_ = cmd.Process.Kill()
}

func Guard(*exec.Cmd) (release func()) { return func() {} }

func Signal(*exec.Cmd) string { return "" }
