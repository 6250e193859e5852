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

// maxFile limits a file, in bytes.
const maxFile = 4 << 20

// backupSuffix is the suffix of the copy of a file before its last change.
const backupSuffix = ".before-vacancy"

type Written struct {
	// Created is true if the file did not exist. Replaced is true if it contained an entry with the
	// same name. Unchanged is true if it already contained the entry, and therefore was not written.
	Made     bool `json:"made,omitempty"`
	Replaced bool `json:"replaced,omitempty"`
	Same     bool `json:"same,omitempty"`
	// Backup is the path of the copy of the previous file, or "".
	Backup string `json:"backup,omitempty"`
	// Content is the content of the file after the change, or nil if there is no file.
	Content []byte `json:"-"`
}

func (c *Client) Write(path string, e Entry) (Written, error) {
	return c.write(path, e, func(string) {})
}

// write implements Write. Tests that simulate a crash receive the name of each step by onStep.
func (c *Client) write(path string, e Entry, step func(string)) (w Written, err error) {
	return update(path, func(old []byte) ([]byte, bool, error) { return c.Merge(old, e) }, false, step)
}

// Update changes a file with merge, which returns the new content and whether it replaced an entry.
// If the new content is nil, Update removes the file. If dryRun is true, Update only returns what
// it would write.
func Update(path string, dry bool, merge func(old []byte) ([]byte, bool, error)) (Written, error) {
	return update(path, merge, dry, func(string) {})
}

func update(path string, merge func([]byte) ([]byte, bool, error), dry bool, step func(string)) (w Written, err error) {
	dir := filepath.Dir(path)
	if err := checkDir(dir); err != nil {
		return w, err
	}
	old, info, err := read(path)
	if err != nil {
		return w, err
	}
	merged, replaced, err := merge(old)
	if err != nil {
		p := problem.AsError(err)
		return w, problem.Wrap(p.Kind, err, "%s is left as it is: %s", path, p.Text())
	}
	w = Written{Made: info == nil, Replaced: replaced, Same: (info == nil) == (merged == nil) && bytes.Equal(old, merged), Content: merged}
	switch {
	case w.Same || dry:
		return w, nil
	case merged == nil:
		return w, errors.Join(os.Remove(path), durable.SyncDir(dir))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return w, err
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
	// The client itself may have changed its file concurrently.
	if now, _, err := read(path); err != nil || !bytes.Equal(now, old) {
		return w, errors.Join(problem.New(problem.Conflict, "%s was changed by another program in the meantime: run the command again", path), err)
	}
	return w, put(path, merged, mode, step)
}

// checkDir returns an error if the directory of a file is a symbolic link.
func checkDir(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return problem.New(problem.Usage, "%s is a symbolic link, which is not followed: add the entry by hand", dir)
	}
	return nil
}

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
	// The opened file must be the file that was checked.
	opened, err := f.Stat()
	if err != nil || !os.SameFile(info, opened) {
		return nil, nil, errors.Join(problem.New(problem.Conflict, "%s was changed by another program in the meantime: run the command again", path), err)
	}
	if b, err = io.ReadAll(io.LimitReader(f, maxFile+1)); err == nil && len(b) > maxFile {
		err = problem.New(problem.Usage, "%s has more than %d bytes", path, maxFile)
	}
	return b, info, err
}

// put replaces a file atomically: a crash leaves either the old or the new file.
func put(path string, b []byte, mode fs.FileMode, step func(string)) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // has no effect after the rename
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
	return durable.SyncDir(dir)
}
