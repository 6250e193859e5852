//go:build unix

package server

import (
	"os/exec"
	"syscall"
)

// detach lets cmd outlive the terminal and an interrupt meant for its starter.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
