//go:build unix

package server

import (
	"os"
	"os/exec"
	"syscall"
)

// lock waits until no other process holds the file at path. The kernel lets go
// of it when its holder dies.
func lock(path string) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

// detach lets cmd outlive the terminal and an interrupt meant for its starter.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
