//go:build unix

package procgroup

import (
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

func Shell(command string) *exec.Cmd { return exec.Command("sh", "-c", command) }

// Own makes a program start in its own process group. It must be called before the program starts.
func Own(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func IsAlive(cmd *exec.Cmd) bool { return syscall.Kill(-cmd.Process.Pid, 0) == nil }

func End(cmd *exec.Cmd, kill bool) {
	signal := syscall.SIGTERM
	if kill {
		signal = syscall.SIGKILL
	}
	_ = syscall.Kill(-cmd.Process.Pid, signal) // fails if the group has ended
}

// Guard starts a process that ends the program's group if this process dies, for example by
// SIGKILL. The guard notices the death because its standard input ends.
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

func Signal(cmd *exec.Cmd) string {
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal().String()
	}
	return ""
}
