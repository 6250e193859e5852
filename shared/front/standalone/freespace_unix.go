//go:build linux || darwin

package standalone

import "syscall"

// Disk returns the free space and the size of dir's disk in bytes. Both are negative if they are
// unknown.
func Disk(dir string) (free, size int64) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return -1, -1
	}
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize)
}
