//go:build unix

package kit

import (
	"syscall"
)

func replaceProcess(path string, args, env []string) (int, error) {
	return 0, syscall.Exec(path, args, env)
}
