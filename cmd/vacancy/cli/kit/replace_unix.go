//go:build unix

package kit

import (
	"syscall"
)

// replaceProcess runs a program in this process. It returns only if it fails.
func replaceProcess(path string, args, env []string) (int, error) {
	return 0, syscall.Exec(path, args, env)
}
