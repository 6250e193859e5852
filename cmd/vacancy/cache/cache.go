// Package cache manages the directory for programs that are downloaded once per machine. An install
// is complete or absent, even if its process is killed.
package cache

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/vacancy-host/vacancy/shared/problem"
)

func Dir(getenv func(string) string) (string, error) {
	if dir := getenv("VACANCY_CACHE"); dir != "" {
		return filepath.Abs(dir) // programs in the cache run in other directories
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", problem.Wrap(problem.Usage, err, "set VACANCY_CACHE to a folder for downloads: this user has no cache folder")
	}
	return filepath.Join(dir, "vacancy"), nil
}

type Install struct {
	Name    string
	Version string
	// MarkerFile is a file that exists only in a complete install. It may be "" if the directory
	// itself is the marker.
	MarkerFile string
	// Build fills an empty directory, which is renamed afterwards.
	Build func(folder string) error
}

const lockPollInterval = 50 * time.Millisecond

// EnsureIn returns the install's directory, and builds it if it does not exist. If another process
// is building it, EnsureIn waits.
func (i Install) EnsureIn(ctx context.Context, cache string) (folder string, err error) {
	folder = filepath.Join(cache, i.Name+"-"+i.Version)
	if i.isComplete(folder) {
		return folder, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	lock := flock.New(filepath.Join(cache, i.Name+".lock"), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockPollInterval); err != nil {
		return "", err
	}
	defer func() { _ = lock.Unlock() }()
	if i.isComplete(folder) { // another process built it while this one waited
		return folder, nil
	}
	return folder, i.build(cache, folder)
}

func (i Install) isComplete(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, i.MarkerFile))
	return err == nil
}

func (i Install) build(cache, folder string) error {
	tempPrefix := i.Name + "-building-"
	// The lock is held, so these directories were left by killed processes.
	leftovers, err := filepath.Glob(filepath.Join(cache, tempPrefix+"*"))
	if err != nil {
		return err
	}
	// A full disk may leave a directory without its marker file.
	for _, dir := range append(leftovers, folder) {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp(cache, tempPrefix)
	if err != nil {
		return err
	}
	if err := i.Build(dir); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	if !i.isComplete(dir) {
		return errors.Join(problem.New(problem.Internal, "%s was installed without its %s", i.Name, i.MarkerFile), os.RemoveAll(dir))
	}
	return os.Rename(dir, folder)
}
