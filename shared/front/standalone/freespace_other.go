//go:build !linux && !darwin

package standalone

// Disk is unknown on this system.
func Disk(string) (free, size int64) { return -1, -1 }
