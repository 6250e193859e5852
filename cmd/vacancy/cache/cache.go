// Package cache is the one directory of everything that this project downloads
// or builds once for a machine: the CDK's command line, LocalStack, DynamoDB
// Local, tools of the tests.
//
// The invariant: an install is in the cache completely or not at all, however
// many processes want it at once and whichever is killed.
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

// Dir is the absolute path of the cache: $VACANCY_CACHE, or vacancy in the
// user's own cache. It creates nothing.
func Dir(getenv func(string) string) (string, error) {
	if dir := getenv("VACANCY_CACHE"); dir != "" {
		return filepath.Abs(dir) // its programs run in other directories
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", problem.Wrap(problem.Usage, err, "set VACANCY_CACHE to a folder for downloads: the user has none")
	}
	return filepath.Join(dir, "vacancy"), nil
}

// Install describes an install.
type Install struct {
	Name    string
	Version string // of the content or of its recipe: another version is another install
	Proof   string // a file in the directory that a complete install has; if empty, the directory itself
	// Build fills an empty directory, which is renamed afterwards.
	Build func(folder string) error
}

// lockPoll is the pause between two tries to lock.
const lockPoll = 50 * time.Millisecond

// In returns the install's directory in a cache, NAME-VERSION, and builds it if
// it is missing. Of two at once, in one process or in two, one waits for the
// other, as long as ctx lasts. Errors of Build are returned unchanged.
func (i Install) In(ctx context.Context, cache string) (folder string, err error) {
	folder = filepath.Join(cache, i.Name+"-"+i.Version)
	if i.whole(folder) {
		return folder, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	lock := flock.New(filepath.Join(cache, i.Name+".lock"), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		return "", err
	}
	defer func() { _ = lock.Unlock() }()
	if i.whole(folder) { // built by another while this one waited
		return folder, nil
	}
	return folder, i.build(cache, folder)
}

func (i Install) whole(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, i.Proof))
	return err == nil
}

// build fills a directory with a temporary name and renames it.
func (i Install) build(cache, folder string) error {
	building := i.Name + "-building-"
	// Under the lock nobody else builds: these were left by killed processes.
	left, err := filepath.Glob(filepath.Join(cache, building+"*"))
	if err != nil {
		return err
	}
	// A directory without its proof was left by hand or by a full disk.
	for _, dir := range append(left, folder) {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp(cache, building)
	if err != nil {
		return err
	}
	if err := i.Build(dir); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	if !i.whole(dir) {
		return errors.Join(problem.New(problem.Internal, "%s was installed without its %s", i.Name, i.Proof), os.RemoveAll(dir))
	}
	return os.Rename(dir, folder)
}
