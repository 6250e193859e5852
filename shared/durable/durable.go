// Package durable makes the names in a directory survive a crash. Syncing only
// the file does not.
package durable

import (
	"errors"
	"os"
	"runtime"
)

// Dir returns when the names in dir, new ones and renamed ones, are on disk.
// Windows has no such call; its file systems journal them.
func Dir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
