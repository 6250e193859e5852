// Package files stores blobs as files of one directory, which several processes of a machine may
// share.
package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/vacancy-host/vacancy/shared/durable"
	"github.com/vacancy-host/vacancy/shared/store/blob"
)

const (
	objectsDir  = "objects"
	incomingDir = "incoming"
	lockFile    = "lock"
	// dirSuffix ends each directory name, so that the keys "a" and "a/b" can both exist.
	dirSuffix = "%"
	// abandonedAge is the age at which a temporary file is considered abandoned by its writer.
	abandonedAge = 24 * time.Hour
)

type Files struct {
	dir string
	// writerSlot is a semaphore of size one. The lock file excludes other processes.
	writerSlot chan struct{}
}

// Open creates the directory if it is absent, and removes temporary files that are abandoned at
// now.
func Open(dir string, now time.Time) (*Files, error) {
	for _, name := range []string{objectsDir, incomingDir} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return nil, fmt.Errorf("opening the blobs: %w", err)
		}
	}
	f := &Files{dir: dir, writerSlot: make(chan struct{}, 1)}
	entries, err := os.ReadDir(filepath.Join(dir, incomingDir))
	if err != nil {
		return nil, fmt.Errorf("opening the blobs: %w", err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && now.Sub(info.ModTime()) > abandonedAge {
			// The next Open tries again.
			_ = os.Remove(filepath.Join(dir, incomingDir, entry.Name()))
		}
	}
	return f, nil
}

func (f *Files) path(key string) string {
	return filepath.Join(f.dir, objectsDir, filepath.FromSlash(strings.ReplaceAll(key, "/", dirSuffix+"/")))
}

func (f *Files) Get(ctx context.Context, key string) (blob.Object, error) {
	if err := blob.CheckKey(key); err != nil {
		return blob.Object{}, err
	}
	file, err := f.open(ctx, key)
	if err != nil {
		return blob.Object{}, err
	}
	info, err := readInfo(ctx, key, file)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return blob.Object{}, errors.Join(unavailableError("reading", key, err), file.Close())
	}
	return blob.Object{Info: info, Body: body{contextReader{ctx, file}, file}}, nil
}

func (f *Files) Head(ctx context.Context, key string) (blob.Info, error) {
	if err := blob.CheckKey(key); err != nil {
		return blob.Info{}, err
	}
	file, err := f.open(ctx, key)
	if err != nil {
		return blob.Info{}, err
	}
	info, err := readInfo(ctx, key, file)
	if err = errors.Join(err, file.Close()); err != nil {
		return blob.Info{}, unavailableError("reading", key, err)
	}
	return info, nil
}

func (f *Files) open(ctx context.Context, key string) (*os.File, error) {
	if err := ctx.Err(); err != nil {
		return nil, unavailableError("reading", key, err)
	}
	file, err := os.Open(f.path(key))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: %w", key, blob.ErrAbsent)
	case err != nil:
		return nil, unavailableError("reading", key, err)
	}
	return file, nil
}

// readInfo reads the complete file, because the tag is the SHA-256 of its bytes. A modification
// time could be equal for two versions.
func readInfo(ctx context.Context, key string, file *os.File) (blob.Info, error) {
	sum := sha256.New()
	size, err := io.Copy(sum, contextReader{ctx, file})
	if err != nil {
		return blob.Info{}, err
	}
	stat, err := file.Stat()
	if err != nil {
		return blob.Info{}, err
	}
	return blob.Info{Key: key, Size: size, Tag: hex.EncodeToString(sum.Sum(nil)), Modified: stat.ModTime()}, nil
}

func (f *Files) Put(ctx context.Context, key string, content io.ReadSeeker, size int64, cond blob.Condition) (string, error) {
	if err := blob.CheckPut(key, content, size, cond); err != nil {
		return "", err
	}
	tempPath, tag, err := f.writeTemp(ctx, content)
	if err != nil {
		return "", unavailableError("writing", key, err)
	}
	// After the rename, the removal has no effect.
	defer func() { _ = os.Remove(tempPath) }()
	release, err := f.acquireLock(ctx)
	if err != nil {
		return "", unavailableError("writing", key, err)
	}
	defer release()
	if err := f.checkCondition(ctx, key, cond); err != nil {
		return "", err
	}
	if err := f.installFile(tempPath, f.path(key)); err != nil {
		return "", unavailableError("writing", key, err)
	}
	return tag, nil
}

const lockPollInterval = 50 * time.Millisecond

func (f *Files) acquireLock(ctx context.Context) (release func(), err error) {
	// select may choose the free writerSlot even if ctx has ended.
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case f.writerSlot <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	fileLock := flock.New(filepath.Join(f.dir, lockFile), flock.SetPermissions(0o600))
	if _, err := fileLock.TryLockContext(ctx, lockPollInterval); err != nil {
		<-f.writerSlot
		return nil, err
	}
	return func() { _ = fileLock.Unlock(); <-f.writerSlot }, nil
}

func (f *Files) writeTemp(ctx context.Context, content io.Reader) (path, tag string, err error) {
	file, err := os.CreateTemp(filepath.Join(f.dir, incomingDir), "put-*")
	if err != nil {
		return "", "", err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(file, sum), contextReader{ctx, content})
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return "", "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), hex.EncodeToString(sum.Sum(nil)), nil
}

func (f *Files) checkCondition(ctx context.Context, key string, cond blob.Condition) error {
	if cond == (blob.Condition{}) {
		return nil
	}
	info, err := f.Head(ctx, key)
	isAbsent := errors.Is(err, blob.ErrAbsent)
	switch {
	case err != nil && !isAbsent:
		return err
	case cond.Absent && !isAbsent:
		return fmt.Errorf("%s exists: %w", key, blob.ErrConflict)
	case cond.Tag != "" && info.Tag != cond.Tag:
		return fmt.Errorf("%s: %w", key, blob.ErrConflict)
	}
	return nil
}

// installFile renames a temporary file to the file of its key and syncs the directories. After a
// crash, the key has its old version or the new one.
func (f *Files) installFile(tempPath, path string) error {
	parents, err := makeDirs(filepath.Join(f.dir, objectsDir), filepath.Dir(path))
	if err != nil {
		return err
	}
	if err := os.Rename(tempPath, path); err != nil {
		return err
	}
	errs := []error{durable.SyncDir(filepath.Dir(path))}
	for _, dir := range parents {
		errs = append(errs, durable.SyncDir(dir))
	}
	return errors.Join(errs...)
}

// makeDirs returns the parent of each new directory. The caller must sync these parents.
func makeDirs(root, dir string) (parents []string, err error) {
	for path := dir; path != root; path = filepath.Dir(path) {
		if _, err := os.Stat(path); err == nil {
			break
		}
		parents = append(parents, filepath.Dir(path))
	}
	return parents, os.MkdirAll(dir, 0o700)
}

// Delete does not remove empty directories, because another process may be about to write to them.
func (f *Files) Delete(ctx context.Context, key string) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	release, err := f.acquireLock(ctx)
	if err != nil {
		return unavailableError("removing", key, err)
	}
	defer release()
	err = os.Remove(f.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = durable.SyncDir(filepath.Dir(f.path(key)))
	}
	if err != nil {
		return unavailableError("removing", key, err)
	}
	return nil
}

func unavailableError(operation, key string, err error) error {
	return fmt.Errorf("%s %s: %w: %w", operation, key, blob.ErrUnavailable, err)
}
