//go:build unix

package server

import (
	"os/exec"
	"syscall"
)

// detach lets cmd survive the terminal, and interrupts of the process that started it.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
