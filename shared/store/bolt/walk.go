package bolt

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/vacancy-host/vacancy/shared/store"
)

// Walk implements store.Walker. Its view never changes.
func (s *Store) Walk(ctx context.Context, fn func(store.View) error) error {
	v, err := s.newView(ctx)
	if err != nil {
		return err
	}
	defer s.removeView(v)
	return fn(v)
}

func (s *Store) newView(ctx context.Context) (*view, error) {
	s.groupMu.Lock()
	defer s.groupMu.Unlock()
	v := &view{store: s, savedValues: map[store.Key][]byte{}}
	err := s.runReadTx(ctx, func(tx *bbolt.Tx) error {
		v.lastRecord = tx.Bucket(journalBucket).Sequence()
		v.lastStream = tx.Bucket(numberByNameBucket).Sequence()
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.views = append(s.views, v)
	return v, nil
}

func (s *Store) removeView(v *view) {
	s.groupMu.Lock()
	defer s.groupMu.Unlock()
	s.views = slices.DeleteFunc(s.views, func(other *view) bool { return other == v })
}

// view is the state of the store between two groups of commits.
//
// A long read transaction would retain every page that commits replace, and throughput would fall
// to a tenth. Instead, a view stores the number of the last record, and the old value of each
// document that changes during the walk.
type view struct {
	store      *Store
	lastRecord uint64
	lastStream uint64 // number of the last stream

	mu          sync.Mutex
	savedValues map[store.Key][]byte // values before the first change; nil for an absent document
}

func (v *view) saveValue(k store.Key, value []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, isSaved := v.savedValues[k]; !isSaved {
		v.savedValues[k] = bytes.Clone(value)
	}
}

func (v *view) Rows(ctx context.Context, name store.Stream, from uint64, n int, d store.Direction) (rows []store.Row, err error) {
	if err := store.CheckPage(n); err != nil {
		return nil, err
	}
	err = v.store.readStream(ctx, name, v.lastRecord, func(st streamReader) error {
		rows, err = st.readPage(from, n, d)
		return err
	})
	return rows, err
}

// Doc implements store.View. A commit saves the old value before its change becomes visible. Doc
// therefore looks for a saved value after its transaction has begun.
func (v *view) Doc(ctx context.Context, k store.Key) (d store.Doc, err error) {
	err = v.store.readDocument(ctx, k, func(value []byte) error {
		v.mu.Lock()
		defer v.mu.Unlock()
		if saved, isSaved := v.savedValues[k]; isSaved {
			value = saved
		}
		d, err = parseDocument(k, value)
		d = cloneDoc(d)
		return err
	})
	return d, err
}

// Streams implements store.View, in byte order.
func (v *view) Streams(ctx context.Context, prefix store.Stream, n int, cursor string) (names []store.Stream, next string, err error) {
	if err := store.CheckPage(n); err != nil {
		return nil, "", err
	}
	last, err := store.ParseStreamCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	err = v.store.runReadTx(ctx, func(tx *bbolt.Tx) error {
		c := tx.Bucket(numberByNameBucket).Cursor()
		for k, encoded := c.Seek([]byte(max(last, prefix))); k != nil && bytes.HasPrefix(k, []byte(prefix)); k, encoded = c.Next() {
			switch {
			case cursor != "" && string(k) == string(last), parseNumber(encoded) > v.lastStream:
			case len(names) == n:
				next = store.StreamCursor(names[n-1])
				return nil
			default:
				names = append(names, store.Stream(k))
			}
		}
		return nil
	})
	return names, next, err
}
