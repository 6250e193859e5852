//go:build unix

package cdk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock waits until no other process installs. The kernel lets go of it when
// its holder dies.
func lock(path string) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) { // Go's own signals interrupt the wait
			break
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}
