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

const maxFileBytes = 4 << 20

// backupSuffix marks the copy of a file before its last change.
const backupSuffix = ".before-vacancy"

type WriteResult struct {
	// Unchanged is true if the file already contained the entry. The file is then not written.
	Created   bool   `json:"made,omitempty"`
	Replaced  bool   `json:"replaced,omitempty"`
	Unchanged bool   `json:"same,omitempty"`
	Backup    string `json:"backup,omitempty"`
	// Content is the new content of the file, or nil if there is no file.
	Content []byte `json:"-"`
}

func (c *Client) Write(path string, e Entry) (WriteResult, error) {
	return c.writeWithSteps(path, e, func(string) {})
}

// writeWithSteps passes the name of each step to onStep, so that tests can simulate a crash.
func (c *Client) writeWithSteps(path string, e Entry, onStep func(string)) (w WriteResult, err error) {
	return rewriteFile(path, func(old []byte) ([]byte, bool, error) { return c.Merge(old, e) }, false, onStep)
}

// UpdateFile changes a file with merge. It removes the file if merge returns nil, and changes no
// file if dryRun is true.
func UpdateFile(path string, dryRun bool, merge func(old []byte) ([]byte, bool, error)) (WriteResult, error) {
	return rewriteFile(path, merge, dryRun, func(string) {})
}

func rewriteFile(path string, merge func([]byte) ([]byte, bool, error), dryRun bool, onStep func(string)) (w WriteResult, err error) {
	dir := filepath.Dir(path)
	if err := checkDir(dir); err != nil {
		return w, err
	}
	old, info, err := readRegularFile(path)
	if err != nil {
		return w, err
	}
	merged, replaced, err := merge(old)
	if err != nil {
		p := problem.AsError(err)
		return w, problem.Wrap(p.Kind, err, "%s was not changed: %s", path, p.Text())
	}
	w = WriteResult{Created: info == nil, Replaced: replaced, Unchanged: (info == nil) == (merged == nil) && bytes.Equal(old, merged), Content: merged}
	switch {
	case w.Unchanged || dryRun:
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
		if err := replaceFile(w.Backup, old, mode, onStep); err != nil {
			return w, err
		}
		onStep("backup")
	}
	// The client itself may have changed its file concurrently.
	if current, _, err := readRegularFile(path); err != nil || !bytes.Equal(current, old) {
		return w, errors.Join(problem.New(problem.Conflict, "%s was changed by another program in the meantime: run the command again", path), err)
	}
	return w, replaceFile(path, merged, mode, onStep)
}

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

func readRegularFile(path string) (b []byte, info fs.FileInfo, err error) {
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
	// Another program may have replaced the file by a link between Lstat and Open.
	openedInfo, err := f.Stat()
	if err != nil || !os.SameFile(info, openedInfo) {
		return nil, nil, errors.Join(problem.New(problem.Conflict, "%s was changed by another program in the meantime: run the command again", path), err)
	}
	if b, err = io.ReadAll(io.LimitReader(f, maxFileBytes+1)); err == nil && len(b) > maxFileBytes {
		err = problem.New(problem.Usage, "%s has more than %d bytes", path, maxFileBytes)
	}
	return b, info, err
}

// replaceFile replaces a file atomically: a crash leaves either the old or the new file.
func replaceFile(path string, b []byte, mode fs.FileMode, onStep func(string)) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	onStep("made")
	_, err = f.Write(b)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	onStep("written")
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	onStep("renamed")
	return durable.SyncDir(dir)
}
