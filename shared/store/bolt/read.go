package bolt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sort"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/vacancy-host/vacancy/shared/store"
)

// pageBytes is the size after which a page ends.
const pageBytes = 1 << 20

func (s *Store) Tip(ctx context.Context, name store.Stream) (row store.Row, err error) {
	err = s.readStream(ctx, name, noRecordLimit, func(st streamReader) error {
		if last := st.lastPosition(); last > 0 {
			row, err = st.readRow(last)
			row = store.CloneRow(row)
		}
		return err
	})
	return row, err
}

func (s *Store) Rows(ctx context.Context, name store.Stream, from uint64, n int, d store.Direction) (rows []store.Row, err error) {
	if err := store.CheckPage(n); err != nil {
		return nil, err
	}
	err = s.readStream(ctx, name, noRecordLimit, func(st streamReader) error {
		rows, err = st.readPage(from, n, d)
		return err
	})
	return rows, err
}

const noRecordLimit = math.MaxUint64

// readStream runs fn on one stream in a read transaction. It copies the recent rows first, because
// a row leaves memory only after it is in the file's index. If a group is rolled back in between,
// the next group reuses the record numbers of the copy. readStream then starts over.
func (s *Store) readStream(ctx context.Context, name store.Stream, limit uint64, fn func(streamReader) error) error {
	for {
		r, rollbackCount := s.loadRecent(name)
		isStale := false
		err := s.runReadTx(ctx, func(tx *bbolt.Tx) error {
			if _, currentCount := s.loadRecent(name); currentCount != rollbackCount {
				isStale = true
				return nil
			}
			return fn(newStreamReader(tx, name, r, limit))
		})
		if !isStale {
			return err
		}
	}
}

func (s *Store) loadRecent(name store.Stream) (r recentEntries, rollbackCount uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.recent[name], s.rollbackCount
}

// runReadTx runs fn in a read transaction whose data is on disk.
func (s *Store) runReadTx(ctx context.Context, fn func(*bbolt.Tx) error) error {
	tx, err := s.beginRead(ctx)
	if err != nil {
		return err
	}
	// Rollback of a read transaction fails only if the transaction has ended.
	defer func() { _ = tx.Rollback() }()
	return recoverPanic(func() error { return fn(tx) })
}

func (s *Store) beginRead(ctx context.Context) (*bbolt.Tx, error) {
	if err := ctx.Err(); err != nil {
		return nil, store.NotAppliedError(err)
	}
	s.mu.RLock()
	closed := s.closed
	s.mu.RUnlock()
	if closed {
		return nil, store.NotAppliedError(store.ErrClosed)
	}
	tx, err := s.db.Begin(false)
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return nil, store.NotAppliedError(store.ErrClosed)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	if err := s.disk.waitSynced(tx.ID()); err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return tx, nil
}

type streamReader struct {
	journal      *bbolt.Bucket
	index        *bbolt.Bucket // nil if recent has all rows of the stream
	recent       recentEntries
	streamNumber uint64 // zero if the stream does not exist
	lastRecord   uint64 // last visible record
}

func newStreamReader(tx *bbolt.Tx, name store.Stream, r recentEntries, limit uint64) streamReader {
	st := streamReader{journal: tx.Bucket(journalBucket)}
	st.lastRecord = min(limit, st.journal.Sequence())
	st.recent = r.truncateAfter(st.lastRecord)
	if len(st.recent.records) > 0 {
		st.streamNumber = r.streamNumber
	} else {
		st.streamNumber = parseNumber(tx.Bucket(numberByNameBucket).Get([]byte(name)))
	}
	if len(st.recent.records) == 0 || r.firstPosition > 1 {
		st.index = tx.Bucket(indexBucket)
	}
	return st
}

func (st *streamReader) lastPosition() uint64 {
	switch {
	case st.streamNumber == 0:
		return 0
	case len(st.recent.records) > 0:
		return st.recent.lastPosition()
	}
	last := lastIndexedPosition(st.index, st.streamNumber)
	if st.recordAt(last) <= st.lastRecord {
		return last
	}
	// Later positions have later records.
	return uint64(sort.Search(int(last), func(i int) bool { return st.recordAt(uint64(i)+1) > st.lastRecord }))
}

func (st *streamReader) recordAt(position uint64) uint64 {
	record := st.recent.recordAt(position)
	if record == 0 && st.index != nil {
		record = parseNumber(st.index.Get(indexKey(st.streamNumber, position)))
	}
	return record
}

// readRow returns the row at a position, or the zero Row. The row's Data is valid only during the
// transaction.
func (st *streamReader) readRow(position uint64) (store.Row, error) {
	if st.streamNumber == 0 {
		return store.Row{}, nil
	}
	record := st.recordAt(position)
	if record == 0 || record > st.lastRecord {
		return store.Row{}, nil
	}
	return parseRecord(st.journal.Get(encodeNumber(record)), st.streamNumber, position)
}

func (st *streamReader) readPage(from uint64, n int, d store.Direction) (rows []store.Row, err error) {
	position := max(from, 1)
	if d == store.Descending {
		position = min(from, st.lastPosition())
	}
	for size := 0; position > 0 && len(rows) < n && size < pageBytes; {
		row, err := st.readRow(position)
		if err != nil || row.Position == 0 {
			return rows, err
		}
		rows = append(rows, store.CloneRow(row))
		size += len(row.Data)
		if d == store.Descending {
			position--
		} else {
			position++
		}
	}
	return rows, nil
}

func (s *Store) Doc(ctx context.Context, k store.Key) (d store.Doc, err error) {
	err = s.readDocument(ctx, k, func(value []byte) error {
		d, err = parseDocument(k, value)
		d = cloneDoc(d)
		return err
	})
	return d, err
}

func (s *Store) readDocument(ctx context.Context, k store.Key, fn func(value []byte) error) error {
	return s.runReadTx(ctx, func(tx *bbolt.Tx) error {
		return fn(tx.Bucket(documentsBucket).Get(documentKey(k)))
	})
}

func (s *Store) Docs(ctx context.Context, r store.Range, n int, cursor string) (docs []store.Doc, next string, err error) {
	if err := store.CheckRange(r, n); err != nil {
		return nil, "", err
	}
	position, err := store.ParseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	query := pageQuery{keyRange: r, limit: n, prefix: partitionPrefix(r.Partition)}
	query.start, query.end = documentKey(store.Key{Partition: r.Partition, Sort: r.Start}), documentKey(store.Key{Partition: r.Partition, Sort: r.End})
	if r.Index {
		query.start, query.end = sparseIndexStart(r.Partition, r.Start), sparseIndexStart(r.Partition, r.End)
	}
	if cursor != "" {
		query.lastEntry = documentKey(store.Key{Partition: r.Partition, Sort: position.Key.Sort})
		if r.Index {
			query.lastEntry = sparseIndexKey(store.Key{Partition: r.Partition, Sort: position.IndexSort}, position.Key)
		}
	}
	err = s.runReadTx(ctx, func(tx *bbolt.Tx) error {
		docs, next, err = query.readPage(tx)
		return err
	})
	return docs, next, err
}
