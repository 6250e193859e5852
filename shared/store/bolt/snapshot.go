package bolt

import (
	"context"
	"os"

	"go.etcd.io/bbolt"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Snapshot copies the store to a new file, in the state between two groups of commits. Commits
// continue during the copy.
func (s *Store) Snapshot(ctx context.Context, path string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return problem.Wrap(problem.Unavailable, err, "cannot create the copy %s", path)
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			os.Remove(path)
		}
	}()
	err = s.runReadTx(ctx, func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(cancelableFile{ctx, f})
		return err
	})
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return problem.Wrap(problem.Unavailable, err, "cannot write the copy %s: %v", path, err)
	}
	return nil
}

type cancelableFile struct {
	ctx context.Context
	f   *os.File
}

func (c cancelableFile) Write(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, store.NotAppliedError(err)
	}
	return c.f.Write(b)
}
