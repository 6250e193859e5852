// Package durable syncs directories, so that the names in them survive a crash. Syncing a file does
// not sync its name.
package durable

import (
	"errors"
	"os"
	"runtime"
)

// SyncDir syncs the names in dir. On Windows it has no effect, because the file systems journal
// names.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
