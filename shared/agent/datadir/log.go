package datadir

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/vacancy-host/vacancy/shared/durable"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

const lockPause = 5 * time.Millisecond

// reviewsDir contains a file for each reviewed call, named by the hash of the request.
const reviewsDir = "reviews"

// AppendLog signs an entry and appends it to the logbook of i, unless the logbook has an entry with the
// same kind and payload. A command that is repeated after a crash thus logs once.
func (i *Identity) AppendLog(ctx context.Context, kind string, payload []byte, now time.Time) (err error) {
	path := filepath.Join(i.Dir, logbookFile)
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockPause); err != nil {
		return problem.Wrap(problem.Unavailable, err, "%s cannot be locked", path)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	lines, err := readFileLimited(path)
	if err != nil {
		return err
	}
	var b Bundle
	if b.Logbook, err = parseLogbook(lines); err != nil {
		return problem.Wrap(problem.Damaged, err, "%s", path)
	}
	var last *logbook.Entry
	for n := range b.Logbook {
		if last = &b.Logbook[n]; last.Kind == kind && bytes.Equal(last.Payload, payload) {
			return nil
		}
	}
	entry := logbook.Next(last, kind, now, payload)
	if _, err := entry.Sign(ctx, i.Key); err != nil {
		return err
	}
	b.Logbook = append(b.Logbook, entry)
	return replaceFile(path, b.appendLogbook(nil))
}

// StoreReview stores the signed review of a call and returns it. If a review is already stored,
// StoreReview returns the stored one, because it may have been sent.
func (i *Identity) StoreReview(call identity.Hash, signed []byte) (stored []byte, err error) {
	path := filepath.Join(i.Dir, reviewsDir, call.String()+".json")
	if stored, err = readFileLimited(path); !errors.Is(err, fs.ErrNotExist) {
		return stored, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return signed, errors.Join(replaceFile(path, signed), durable.SyncDir(i.Dir))
}

func replaceFile(path string, data []byte) error {
	tmpPath := path + ".next"
	if err := os.Remove(tmpPath); err != nil && !errors.Is(err, fs.ErrNotExist) { // a crash may have left this file
		return err
	}
	if err := WriteNew(tmpPath, data); err != nil {
		return err
	}
	if err := os.Rename(tmpPath, path); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}
