package bolt

import (
	"context"
	"os"

	"go.etcd.io/bbolt"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Snapshot copies the store to a new file for its owner, as it is between two
// groups of commits. Commits go on meanwhile. An incomplete copy is removed.
func (s *Store) Snapshot(ctx context.Context, path string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return problem.Wrap(problem.Unavailable, err, "the copy %s cannot be made", path)
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
		if err != nil {
			os.Remove(path)
		}
	}()
	err = s.read(ctx, func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(canceling{ctx, f})
		return err
	})
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return problem.Wrap(problem.Unavailable, err, "the copy %s cannot be written: %v", path, err)
	}
	return nil
}

// canceling is a file that takes no more once ctx has ended.
type canceling struct {
	ctx context.Context
	f   *os.File
}

func (c canceling) Write(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, store.NotApplied(err)
	}
	return c.f.Write(b)
}
