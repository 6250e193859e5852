// Package lockfile locks an open file among all processes of a machine. The
// invariant: a lock ends with the process that holds it, however that ends.
package lockfile

import (
	"context"
	"errors"
	"os"
	"time"
)

// pollPause is how long a busy lock is left alone. The system's own queue of
// waiters cannot be left when ctx ends; polling can.
const pollPause = 50 * time.Millisecond

// Acquire waits until it holds the lock of the file at path, which it makes
// for the user alone if it is absent and which stays: to remove it would let
// two processes hold locks on two files of one name. It fails with ctx's error
// when ctx ends first.
func Acquire(ctx context.Context, path string) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		ok, err := Try(f)
		if ok {
			return func() { _ = f.Close() }, nil // nothing was written to it
		}
		if err == nil {
			select {
			case <-time.After(pollPause):
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
}
