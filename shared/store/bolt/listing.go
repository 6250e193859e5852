package bolt

import (
	"bytes"
	"context"

	"go.etcd.io/bbolt"

	"github.com/vacancy-host/vacancy/shared/store"
)

// IsEmpty reports whether the file has no rows and no documents, except a document at key except.
func (s *Store) IsEmpty(ctx context.Context, except store.Key) (empty bool, err error) {
	err = s.read(ctx, func(tx *bbolt.Tx) error {
		c := tx.Bucket(documentsBucket).Cursor()
		key, _ := c.First()
		if bytes.Equal(key, documentKey(except)) {
			key, _ = c.Next()
		}
		empty = key == nil && tx.Bucket(journalBucket).Sequence() == 0
		return nil
	})
	return empty, err
}

// pageQuery is the query for one page of documents, ordered by key or by the sparse index.
type pageQuery struct {
	keyRange   store.Range
	limit      int
	prefix     []byte // key prefix of the partition
	start, end []byte // bounds of the range; last is unused if r.Last is empty
	lastEntry  []byte // last entry of the previous page; may be nil
}

func (l *pageQuery) readPage(tx *bbolt.Tx) (docs []store.Doc, next string, err error) {
	documents := tx.Bucket(documentsBucket)
	c := documents.Cursor()
	if l.keyRange.Index {
		c = tx.Bucket(sparseIndexBucket).Cursor()
	}
	size := 0
	for k, v := l.seek(c); l.contains(k); k, v = c.Next() {
		if len(docs) == l.limit || size >= pageBytes {
			last := docs[len(docs)-1]
			return docs, store.Cursor{IndexSort: last.Index.Sort, Key: last.Key}.String(), nil
		}
		key, err := l.parseKey(k)
		if err != nil {
			return docs, "", err
		}
		if l.keyRange.Index {
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

func (l *pageQuery) seek(c *bbolt.Cursor) (k, v []byte) {
	start := l.start
	if bytes.Compare(l.lastEntry, start) > 0 {
		start = l.lastEntry
	}
	k, v = c.Seek(start)
	if k != nil && bytes.Equal(k, l.lastEntry) {
		return c.Next()
	}
	return k, v
}

func (l *pageQuery) contains(k []byte) bool {
	return k != nil && bytes.HasPrefix(k, l.prefix) && (l.keyRange.End == "" || bytes.Compare(k, l.end) < 0)
}

func (l *pageQuery) parseKey(k []byte) (store.Key, error) {
	if l.keyRange.Index {
		return parseSparseIndexKey(k, len(l.prefix))
	}
	return parseDocumentKey(k)
}
