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

// lockPause is the pause between tries to lock a logbook.
const lockPause = 5 * time.Millisecond

// reviewsDir has a file for each reviewed call, by the hash of the request.
const reviewsDir = "reviews"

// AppendLog signs an entry and appends it to the logbook of i. If the logbook has an entry of the same
// kind and payload, AppendLog changes nothing, so a command that is repeated after a crash logs once.
func (i *Identity) AppendLog(ctx context.Context, kind string, payload []byte, now time.Time) (err error) {
	path := filepath.Join(i.Dir, logbookFile)
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockPause); err != nil {
		return problem.Wrap(problem.Unavailable, err, "%s cannot be locked", path)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	lines, err := readSmall(path)
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
	next := logbook.Next(last, kind, now, payload)
	if _, err := next.Sign(ctx, i.Key); err != nil {
		return err
	}
	b.Logbook = append(b.Logbook, next)
	return replaceFile(path, b.appendLogbook(nil))
}

// KeepReview stores the signed review of a call before it is sent. It returns the review of the call that
// is stored already, if there is one: its host may have it.
func (i *Identity) KeepReview(call identity.Hash, signed []byte) (kept []byte, err error) {
	path := filepath.Join(i.Dir, reviewsDir, call.String()+".json")
	if kept, err = readSmall(path); !errors.Is(err, fs.ErrNotExist) {
		return kept, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return signed, errors.Join(replaceFile(path, signed), durable.Dir(i.Dir))
}

// replaceFile writes and syncs another file, which then takes the place of the file at path.
func replaceFile(path string, data []byte) error {
	next := path + ".next"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a crash
		return err
	}
	if err := WriteNew(next, data); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	return durable.Dir(filepath.Dir(path))
}
