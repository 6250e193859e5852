//go:build unix

package lockfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Try takes the exclusive lock of f; false if another open file has it, in
// this process or another.
func Try(f *os.File) (bool, error) {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR): // Go's own signals interrupt the call
			return false, err
		}
	}
}

// Release gives up the lock of f, which stays open.
func Release(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }
