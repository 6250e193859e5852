//go:build !unix

package kit

import (
	"errors"
	"os"
	"os/exec"
)

// replaceProcess runs a program and returns its exit code, because this system cannot replace a
// process.
func replaceProcess(path string, args, env []string) (int, error) {
	cmd := exec.Command(path, args[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	if ended := new(exec.ExitError); errors.As(err, &ended) {
		return ended.ExitCode(), nil
	}
	return 0, err
}
