package bolt

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/vacancy-host/vacancy/shared/store"
)

// Walk is as store.Walker says: the view never changes. It is not one long
// read transaction, which would keep every page that commits replace: measured
// under full load, calls went down to a tenth in 15 seconds and did not recover
// for minutes. Rows do not change, so a view is the number of the last record
// of its moment; of documents it is given what each was before its first
// change. So a walk costs the memory of the documents that change meanwhile,
// and the wait for one group of commits when it begins and when it ends.
func (s *Store) Walk(ctx context.Context, fn func(store.View) error) error {
	v, err := s.viewNow(ctx)
	if err != nil {
		return err
	}
	defer s.forget(v)
	return fn(v)
}

// viewNow makes a view of the moment between two groups.
func (s *Store) viewNow(ctx context.Context) (*view, error) {
	s.between.Lock()
	defer s.between.Unlock()
	v := &view{s: s, before: map[store.Key][]byte{}}
	err := s.read(ctx, func(tx *bbolt.Tx) error {
		v.records = tx.Bucket(journalBucket).Sequence()
		v.streams = tx.Bucket(namesBucket).Sequence()
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.views = append(s.views, v)
	return v, nil
}

func (s *Store) forget(v *view) {
	s.between.Lock()
	defer s.between.Unlock()
	s.views = slices.DeleteFunc(s.views, func(other *view) bool { return other == v })
}

// view is the store as it was between two groups of commits.
type view struct {
	s       *Store
	records uint64 // the last record
	streams uint64 // the number of the last stream

	mu     sync.Mutex
	before map[store.Key][]byte // values of documents that have changed since; nil: was absent
}

// keep takes what a document was, before it is changed in a transaction. Only
// the first change counts.
func (v *view) keep(k store.Key, value []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, kept := v.before[k]; !kept {
		v.before[k] = bytes.Clone(value)
	}
}

// Rows is as store.View says.
func (v *view) Rows(ctx context.Context, name store.Stream, from uint64, n int, d store.Direction) (rows []store.Row, err error) {
	if err := store.CheckPage(n); err != nil {
		return nil, err
	}
	err = v.s.readStream(ctx, name, v.records, func(st stream) error {
		rows, err = st.page(from, n, d)
		return err
	})
	return rows, err
}

// Doc is as store.View says. What was kept is looked at after the transaction
// has begun: a change that the transaction has was kept before.
func (v *view) Doc(ctx context.Context, k store.Key) (d store.Doc, err error) {
	err = v.s.readDocument(ctx, k, func(value []byte) error {
		v.mu.Lock()
		defer v.mu.Unlock()
		if before, kept := v.before[k]; kept {
			value = before
		}
		d, err = parseDocument(k, value)
		d = cloneDoc(d)
		return err
	})
	return d, err
}

// Streams is as store.View says, in byte order.
func (v *view) Streams(ctx context.Context, prefix store.Stream, n int, cursor string) (names []store.Stream, next string, err error) {
	if err := store.CheckPage(n); err != nil {
		return nil, "", err
	}
	after, err := store.ParseStreamCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	err = v.s.read(ctx, func(tx *bbolt.Tx) error {
		c := tx.Bucket(namesBucket).Cursor()
		for k, number := c.Seek([]byte(max(after, prefix))); k != nil && bytes.HasPrefix(k, []byte(prefix)); k, number = c.Next() {
			switch {
			case cursor != "" && string(k) == string(after), parseNumber(number) > v.streams:
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
