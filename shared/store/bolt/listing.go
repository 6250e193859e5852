package bolt

import (
	"bytes"
	"context"

	"go.etcd.io/bbolt"

	"github.com/vacancy-host/vacancy/shared/store"
)

// IsEmpty reports whether the file has no rows, and no documents except ignoredKey.
func (s *Store) IsEmpty(ctx context.Context, ignoredKey store.Key) (isEmpty bool, err error) {
	err = s.runReadTx(ctx, func(tx *bbolt.Tx) error {
		c := tx.Bucket(documentsBucket).Cursor()
		key, _ := c.First()
		if bytes.Equal(key, documentKey(ignoredKey)) {
			key, _ = c.Next()
		}
		isEmpty = key == nil && tx.Bucket(journalBucket).Sequence() == 0
		return nil
	})
	return isEmpty, err
}

type pageQuery struct {
	keyRange   store.Range
	limit      int
	prefix     []byte
	start, end []byte // end is unused if keyRange.End is empty
	lastEntry  []byte // last entry of the previous page; may be nil
}

func (q *pageQuery) readPage(tx *bbolt.Tx) (docs []store.Doc, next string, err error) {
	documents := tx.Bucket(documentsBucket)
	c := documents.Cursor()
	if q.keyRange.Index {
		c = tx.Bucket(sparseIndexBucket).Cursor()
	}
	size := 0
	for k, v := q.seek(c); q.contains(k); k, v = c.Next() {
		if len(docs) == q.limit || size >= pageBytes {
			last := docs[len(docs)-1]
			return docs, store.Cursor{IndexSort: last.Index.Sort, Key: last.Key}.String(), nil
		}
		key, err := q.parseKey(k)
		if err != nil {
			return docs, "", err
		}
		if q.keyRange.Index {
			if v = documents.Get(documentKey(key)); v == nil {
				return docs, "", damagedError("document %s is in the index but missing", key)
			}
		}
		d, err := parseDocument(key, v)
		if err != nil {
			return docs, "", err
		}
		docs = append(docs, cloneDoc(d))
		size += len(d.Data)
	}
	return docs, "", nil
}

func (q *pageQuery) seek(c *bbolt.Cursor) (k, v []byte) {
	start := q.start
	if bytes.Compare(q.lastEntry, start) > 0 {
		start = q.lastEntry
	}
	k, v = c.Seek(start)
	if k != nil && bytes.Equal(k, q.lastEntry) {
		return c.Next()
	}
	return k, v
}

func (q *pageQuery) contains(k []byte) bool {
	return k != nil && bytes.HasPrefix(k, q.prefix) && (q.keyRange.End == "" || bytes.Compare(k, q.end) < 0)
}

func (q *pageQuery) parseKey(k []byte) (store.Key, error) {
	if q.keyRange.Index {
		return parseSparseIndexKey(k, len(q.prefix))
	}
	return parseDocumentKey(k)
}
