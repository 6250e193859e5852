//go:build !linux && !darwin

package standalone

func Disk(string) (free, size int64) { return -1, -1 }
