package kit

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// readable returns a local host's data directory for reports: a temporary copy
// if the disk takes no writes, because opening the data file after a crash
// writes. remove deletes the copy.
func (a *App) readable(w Where) (there Where, remove func() error, err error) {
	remove = func() error { return nil }
	dir, err := a.DataDir(w.Data)
	if err != nil {
		return w, remove, err
	}
	f, err := os.OpenFile(filepath.Join(dir, standalone.DataFile), os.O_RDWR, 0)
	if err == nil {
		return w, remove, f.Close()
	}
	if !errors.Is(err, syscall.EROFS) {
		return w, remove, nil // opening it reports what is wrong
	}
	copied, err := os.MkdirTemp("", "vacancy-read-")
	if err != nil {
		return w, remove, problem.Wrap(problem.Unavailable, err, "%s is on a read-only disk, and no copy can be made", dir)
	}
	remove = func() error { return os.RemoveAll(copied) }
	for _, name := range standalone.Essential() {
		if err := copyFile(filepath.Join(copied, name), filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return w, remove, errors.Join(problem.Wrap(problem.Unavailable, err, "%s is on a read-only disk, and was not copied", dir), remove())
		}
	}
	a.Note("%s is on a read-only disk: a copy is read", dir)
	w.Data = copied
	return w, remove, nil
}

// copyFile copies a file for its owner.
func copyFile(to, from string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}
