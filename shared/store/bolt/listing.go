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
		document, _ := c.First()
		if bytes.Equal(document, documentKey(except)) {
			document, _ = c.Next()
		}
		empty = document == nil && tx.Bucket(journalBucket).Sequence() == 0
		return nil
	})
	return empty, err
}

// listing is the query for one page of documents, ordered by key or by the sparse index.
type listing struct {
	r           store.Range
	n           int
	prefix      []byte // key prefix of the partition
	first, last []byte // bounds of the range; last is unused if r.Last is empty
	after       []byte // last entry of the previous page; may be nil
}

func (l *listing) page(tx *bbolt.Tx) (docs []store.Doc, next string, err error) {
	documents := tx.Bucket(documentsBucket)
	c := documents.Cursor()
	if l.r.Index {
		c = tx.Bucket(listedBucket).Cursor()
	}
	size := 0
	for k, v := l.seek(c); l.contains(k); k, v = c.Next() {
		if len(docs) == l.n || size >= pageBytes {
			last := docs[len(docs)-1]
			return docs, store.Cursor{Sort: last.Index.Sort, Key: last.Key}.String(), nil
		}
		key, err := l.key(k)
		if err != nil {
			return docs, "", err
		}
		if l.r.Index {
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

func (l *listing) seek(c *bbolt.Cursor) (k, v []byte) {
	start := l.first
	if bytes.Compare(l.after, start) > 0 {
		start = l.after
	}
	k, v = c.Seek(start)
	if k != nil && bytes.Equal(k, l.after) {
		return c.Next()
	}
	return k, v
}

func (l *listing) contains(k []byte) bool {
	return k != nil && bytes.HasPrefix(k, l.prefix) && (l.r.Last == "" || bytes.Compare(k, l.last) < 0)
}

func (l *listing) key(k []byte) (store.Key, error) {
	if l.r.Index {
		return parseListed(k, len(l.prefix))
	}
	return parseDocumentKey(k)
}
