package bolt

import (
	"context"
	"time"

	"go.etcd.io/bbolt"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// DeleteExpired deletes at most n documents that have expired at now, the earliest first.
func (s *Store) DeleteExpired(ctx context.Context, now time.Time, n int) (deleted int, err error) {
	var expired []store.Delete
	err = s.db.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(expiryBucket).Cursor()
		for k, _ := c.First(); k != nil && len(expired) < n && len(k) > 8 && parseNumber(k[:8]) <= uint64(max(now.Unix(), 0)); k, _ = c.Next() {
			key, err := parseDocumentKey(k[8:])
			if err != nil {
				return err
			}
			doc, err := parseDocument(key, tx.Bucket(documentsBucket).Get(documentKey(key)))
			if err != nil {
				return err
			}
			expired = append(expired, store.Delete{Key: key, IfVersion: doc.Version})
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, deletion := range expired {
		switch err := s.Commit(ctx, deletion); {
		case err == nil:
			deleted++
		case !store.IsConflict(err):
			return deleted, problem.Wrap(problem.Unavailable, err, "expired documents could not be deleted")
		}
	}
	return deleted, nil
}
