package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/vacancy-host/vacancy/shared/store"
)

// documents holds the documents and their sparse index. A stored document is never modified, only
// replaced, so a pointer to it is a snapshot.
type documents struct {
	mu         sync.RWMutex
	closed     bool
	byKey      map[store.Key]*store.Doc
	partitions map[string][]*store.Doc // in order of Sort
	index      map[string][]*store.Doc // in order of Index.Sort, then Key
}

func (d *documents) reset() {
	d.byKey = map[store.Key]*store.Doc{}
	d.partitions = map[string][]*store.Doc{}
	d.index = map[string][]*store.Doc{}
}

// get returns the document under k, or a document with Version 0. The caller must hold mu.
func (d *documents) get(k store.Key) store.Doc {
	if doc := d.byKey[k]; doc != nil {
		return *doc
	}
	return store.Doc{Key: k}
}

func (d *documents) applyWrite(w store.Write) {
	switch w := w.(type) {
	case store.Put:
		d.replaceDoc(store.Doc{Key: w.Key, Version: w.IfVersion + 1, WriteID: w.WriteID,
			Data: slices.Clone(w.Data), Number: w.Number, Index: w.Index, Expires: w.Expires})
	case store.Add:
		doc := d.get(w.Key)
		doc.Version++
		doc.Number += w.Delta
		if doc.Expires.IsZero() {
			doc.Expires = w.Expires
		}
		d.replaceDoc(doc)
	case store.Delete:
		d.removeDoc(w.Key)
	}
}

func (d *documents) replaceDoc(doc store.Doc) {
	d.removeDoc(doc.Key)
	d.byKey[doc.Key] = &doc
	insertDoc(d.partitions, doc.Key.Partition, &doc, compareKeys)
	if doc.Index != (store.Key{}) {
		insertDoc(d.index, doc.Index.Partition, &doc, compareIndexKeys)
	}
}

func (d *documents) removeDoc(k store.Key) {
	doc := d.byKey[k]
	if doc == nil {
		return
	}
	delete(d.byKey, k)
	removeDocFrom(d.partitions, k.Partition, doc, compareKeys)
	if doc.Index != (store.Key{}) {
		removeDocFrom(d.index, doc.Index.Partition, doc, compareIndexKeys)
	}
}

func compareKeys(a, b *store.Doc) int { return strings.Compare(a.Key.Sort, b.Key.Sort) }

func compareIndexKeys(a, b *store.Doc) int {
	return cmp.Or(strings.Compare(a.Index.Sort, b.Index.Sort), strings.Compare(a.Key.Partition, b.Key.Partition), compareKeys(a, b))
}

func insertDoc(m map[string][]*store.Doc, partition string, doc *store.Doc, order func(a, b *store.Doc) int) {
	i, _ := slices.BinarySearchFunc(m[partition], doc, order)
	m[partition] = slices.Insert(m[partition], i, doc)
}

func removeDocFrom(m map[string][]*store.Doc, partition string, doc *store.Doc, order func(a, b *store.Doc) int) {
	i, _ := slices.BinarySearchFunc(m[partition], doc, order)
	if m[partition] = slices.Delete(m[partition], i, i+1); len(m[partition]) == 0 {
		delete(m, partition)
	}
}

func (s *Store) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	if err := ctx.Err(); err != nil {
		return store.Doc{}, store.NotAppliedError(err)
	}
	s.docs.mu.RLock()
	defer s.docs.mu.RUnlock()
	if s.docs.closed {
		return store.Doc{}, store.NotAppliedError(store.ErrClosed)
	}
	doc := s.docs.get(k)
	doc.Data = slices.Clone(doc.Data)
	return doc, nil
}

func (s *Store) Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error) {
	if err := store.CheckRange(r, n); err != nil {
		return nil, "", err
	}
	if err := ctx.Err(); err != nil {
		return nil, "", store.NotAppliedError(err)
	}
	position, err := store.ParseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	s.docs.mu.RLock()
	defer s.docs.mu.RUnlock()
	if s.docs.closed {
		return nil, "", store.NotAppliedError(store.ErrClosed)
	}
	docs, order := s.docs.partitions[r.Partition], compareKeys
	if r.Index {
		docs, order = s.docs.index[r.Partition], compareIndexKeys
	}
	start := &store.Doc{Key: store.Key{Sort: r.Start}, Index: store.Key{Sort: r.Start}}
	if r.Index {
		start.Key = store.Key{}
	}
	i, _ := slices.BinarySearchFunc(docs, start, order)
	if cursor != "" {
		last := &store.Doc{Key: position.Key, Index: store.Key{Sort: position.IndexSort}}
		j, found := slices.BinarySearchFunc(docs, last, order)
		if found {
			j++
		}
		i = max(i, j)
	}
	out, hasMore := collectPage(docs[i:], r, n)
	if !hasMore {
		return out, "", nil
	}
	last := out[len(out)-1]
	return out, store.Cursor{IndexSort: last.Index.Sort, Key: last.Key}.String(), nil
}

func collectPage(docs []*store.Doc, r store.Range, n int) (out []store.Doc, hasMore bool) {
	size := 0
	for _, doc := range docs {
		sort := doc.Key.Sort
		if r.Index {
			sort = doc.Index.Sort
		}
		if r.End != "" && sort >= r.End {
			return out, false
		}
		if len(out) == n || size >= pageBytes {
			return out, true
		}
		c := *doc
		c.Data = slices.Clone(doc.Data)
		out = append(out, c)
		size += len(doc.Data)
	}
	return out, false
}
