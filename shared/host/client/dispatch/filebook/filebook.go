// Package filebook stores the state of calls in files, one per target, in the directory of the
// calling identity (PROTOCOL §23 C7).
//
// A lock file allows one session per target at a time across all processes. An unreadable state
// file is never overwritten.
package filebook

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/vacancy-host/vacancy/shared/durable"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/retry"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const maxStateBytes = 64 << 20

// lockPollInterval is the pause between attempts to lock. A blocking lock would ignore ctx.
const lockPollInterval = 5 * time.Millisecond

// Book is a dispatch.Book in the directory Dir. It is safe for concurrent use.
type Book struct {
	Dir  string
	Wait func(ctx context.Context, d time.Duration) error
	// OnWait, if not nil, is called once with the saved state if Open waits for another session.
	OnWait func(st *dispatch.State)
}

const triesBeforeOnWait = 50

func (b *Book) Open(ctx context.Context, self, target identity.ID) (dispatch.Session, error) {
	if err := os.MkdirAll(b.Dir, 0o700); err != nil {
		return nil, unavailableError(err)
	}
	s := &session{dir: b.Dir, path: filepath.Join(b.Dir, target.String()+".json"), self: self, target: target}
	var err error
	s.lock, err = b.lock(ctx, target.String(), func() {
		if b.OnWait != nil {
			if st, err := s.Load(); err == nil { // safe without the lock, because files are replaced atomically
				b.OnWait(&st)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// lock uses a separate file, because each Save replaces the state file. It never removes the lock
// file, because two processes could then lock two files of the same name.
func (b *Book) lock(ctx context.Context, name string, notifyWait func()) (*flock.Flock, error) {
	lock := flock.New(filepath.Join(b.Dir, name+".lock"), flock.SetPermissions(0o600))
	for n := 1; ; n++ {
		switch ok, err := lock.TryLock(); {
		case err != nil:
			return nil, unavailableError(err)
		case ok:
			return lock, nil
		}
		if n == triesBeforeOnWait {
			notifyWait()
		}
		wait := b.Wait
		if wait == nil {
			wait = retry.Sleep
		}
		if err := wait(ctx, lockPollInterval); err != nil {
			return nil, errors.Join(err, lock.Close())
		}
	}
}

func (b *Book) Targets() ([]identity.ID, error) {
	files, err := os.ReadDir(b.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, unavailableError(err)
	}
	var ids []identity.ID
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".json")
		if id, err := identity.ParseID(name); ok && err == nil && id.String() == name {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

type session struct {
	dir, path    string
	self, target identity.ID
	lock         *flock.Flock
}

func (s *session) Load() (dispatch.State, error) {
	f, err := os.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return dispatch.State{Self: s.self, Target: s.target}, nil
	}
	if err != nil {
		return dispatch.State{}, unavailableError(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxStateBytes+1))
	if err != nil {
		return dispatch.State{}, unavailableError(err)
	}
	st, err := dispatch.DecodeState(data)
	if err != nil {
		return dispatch.State{}, problem.Wrap(problem.Damaged, err, "%s: %s; the file was not changed: repair it, or move it away and reset the chain", s.path, problem.AsError(err).Text())
	}
	if st.Self != s.self || st.Target != s.target {
		return dispatch.State{}, problem.New(problem.Damaged, "%s belongs to the calls from %s to %s, not to the calls from %s to %s", s.path,
			st.Self.Short(), st.Target.Short(), s.self.Short(), s.target.Short())
	}
	return st, nil
}

func (s *session) Save(st dispatch.State) error {
	return replaceFile(s.dir, s.path, st.AppendJSON(nil))
}

// replaceFile writes a temporary file and renames it, so that a crash leaves the old or the new
// file. The caller must hold the lock.
func replaceFile(dir, path string, data []byte) error {
	tempPath := path + ".next"
	f, err := os.OpenFile(tempPath, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return unavailableError(err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tempPath, path)
	}
	if err == nil {
		err = durable.SyncDir(dir) // otherwise a crash could undo the rename
	}
	return unavailableError(err)
}

func (s *session) Close() error {
	if s.lock == nil {
		return nil
	}
	lock := s.lock
	s.lock = nil
	return unavailableError(lock.Unlock())
}

func unavailableError(err error) error {
	if err == nil {
		return nil
	}
	return problem.Wrap(problem.Unavailable, err, "the directory with the state of calls cannot be used: %v", err)
}
