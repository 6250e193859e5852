//go:build linux || darwin

package cli

import "syscall"

// freeSpace is the space on dir's disk that this user may use, in bytes;
// negative if it is unknown.
func freeSpace(dir string) int64 {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return -1
	}
	return int64(s.Bavail) * int64(s.Bsize)
}
