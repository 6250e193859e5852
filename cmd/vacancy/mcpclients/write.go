package mcpclients

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/vacancy-host/vacancy/shared/durable"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// maxFile bounds a file in bytes.
const maxFile = 4 << 20

// backupSuffix ends the name of the copy of a file before its last change.
const backupSuffix = ".before-vacancy"

// Written is the result of a change.
type Written struct {
	// Made says that there was no file, Replaced that there was an entry of the name, Same that the file
	// has the entry already and was not written.
	Made     bool `json:"made,omitempty"`
	Replaced bool `json:"replaced,omitempty"`
	Same     bool `json:"same,omitempty"`
	// Backup is the copy of the file before, or "".
	Backup string `json:"backup,omitempty"`
}

// Write merges the entry into the client's file.
func (c *Client) Write(path string, e Entry) (Written, error) {
	return c.write(path, e, func(string) {})
}

// write is Write, which tells its steps to a test.
func (c *Client) write(path string, e Entry, step func(string)) (w Written, err error) {
	dir := filepath.Dir(path)
	if err := checkDir(dir); err != nil {
		return w, err
	}
	old, info, err := read(path)
	if err != nil {
		return w, err
	}
	merged, replaced, err := c.Merge(old, e)
	if err != nil {
		p := problem.Of(err)
		return w, problem.Wrap(p.Kind, err, "%s is left as it is: %s", path, p.Text())
	}
	w = Written{Made: info == nil, Replaced: replaced, Same: info != nil && bytes.Equal(old, merged)}
	if w.Same {
		return w, nil
	}
	mode := fs.FileMode(0o644)
	if info != nil {
		mode = info.Mode().Perm()
		w.Backup = path + backupSuffix
		if err := put(w.Backup, old, mode, step); err != nil {
			return w, err
		}
		step("backup")
	}
	// The client itself may have changed its file.
	if now, _, err := read(path); err != nil || !bytes.Equal(now, old) {
		return w, errors.Join(problem.New(problem.Conflict, "%s was changed by another program in the meantime: run the command again", path), err)
	}
	return w, put(path, merged, mode, step)
}

// checkDir makes the folder of a file, and refuses a link in its place.
func checkDir(dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return problem.New(problem.Usage, "%s is a symbolic link, which is not followed: add the entry by hand", dir)
	}
	return nil
}

// read returns the content of a file; info is nil if there is none.
func read(path string) (b []byte, info fs.FileInfo, err error) {
	info, err = os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, nil, problem.New(problem.Usage, "%s is a symbolic link, which is not followed: add the entry by hand", path)
	case !info.Mode().IsRegular():
		return nil, nil, problem.New(problem.Usage, "%s is not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	// The file that was opened must be the one that was looked at.
	opened, err := f.Stat()
	if err != nil || !os.SameFile(info, opened) {
		return nil, nil, errors.Join(problem.New(problem.Conflict, "%s was changed by another program in the meantime: run the command again", path), err)
	}
	if b, err = io.ReadAll(io.LimitReader(f, maxFile+1)); err == nil && len(b) > maxFile {
		err = problem.New(problem.Usage, "%s has more than %d bytes", path, maxFile)
	}
	return b, info, err
}

// put replaces a file, so that a crash leaves the old one or the new one.
func put(path string, b []byte, mode fs.FileMode, step func(string)) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // after the rename there is none
	step("made")
	_, err = f.Write(b)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	step("written")
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	step("renamed")
	return durable.Dir(dir)
}
