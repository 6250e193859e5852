package bolt

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/vacancy-host/vacancy/shared/store"
)

// group is a transaction of commits that are synced together.
type group struct {
	buckets
	store          *Store
	txID           int
	previousRecord uint64
	lastRecord     uint64
	streamEnds     map[store.Stream]*streamEnd
	hasWrites      bool
	indexFlushed   bool
}

type buckets struct{ meta, journal, numberByName, nameByNumber, index, documents, sparseIndex, expiry *bbolt.Bucket }

func openBuckets(tx *bbolt.Tx) buckets {
	return buckets{
		meta: tx.Bucket(metaBucket), journal: tx.Bucket(journalBucket), numberByName: tx.Bucket(numberByNameBucket), nameByNumber: tx.Bucket(nameByNumberBucket),
		index: tx.Bucket(indexBucket), documents: tx.Bucket(documentsBucket), sparseIndex: tx.Bucket(sparseIndexBucket), expiry: tx.Bucket(expiryBucket),
	}
}

func (b buckets) lastIndexedRecord() uint64 { return parseNumber(b.meta.Get(lastIndexedKey)) }

// streamEnd is the end of a stream, with the records that this group added. The stream number of a
// new stream is 0.
type streamEnd struct {
	streamNumber, lastPosition uint64
	addedRecords               []uint64
}

func (e *streamEnd) recentEntries() recentEntries {
	return recentEntries{streamNumber: e.streamNumber, firstPosition: e.lastPosition - uint64(len(e.addedRecords)) + 1, records: e.addedRecords}
}

func newGroup(s *Store, tx *bbolt.Tx) *group {
	g := &group{buckets: openBuckets(tx), store: s, txID: tx.ID(), streamEnds: map[store.Stream]*streamEnd{}}
	g.previousRecord = g.journal.Sequence()
	g.lastRecord = g.previousRecord
	// Records are added only at the end of the journal, so its pages can be filled completely.
	g.journal.FillPercent = 1
	return g
}

// applyRequest applies one commit of the group. If the commit is refused, outcome is the refusal. A
// non-nil err aborts the group.
func (g *group) applyRequest(r *request) (outcome, err error) {
	alreadyApplied, refusal := store.CheckConditions(r.writes, g)
	switch {
	case alreadyApplied:
		return nil, nil
	case isRefusal(refusal):
		return refusal, nil
	case refusal != nil:
		// Damaged data fails only this commit.
		return store.NotAppliedError(refusal), nil
	}
	g.hasWrites = true
	for i, w := range r.writes {
		switch w := w.(type) {
		case store.Append:
			err = g.appendRow(w, r.encoded[i])
		case store.Put:
			err = g.putDoc(w, r.encoded[i])
		case store.Delete:
			err = g.deleteDoc(w.Key)
		case store.Add:
			err = g.addNumber(w)
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func isRefusal(err error) bool {
	switch err.(type) {
	case *store.TakenError, *store.BoundsError, *store.ConflictError:
		return true
	}
	return false
}

// loadStreamEnd reads Store.recent without a lock, because only the committer changes it.
func (g *group) loadStreamEnd(name store.Stream) *streamEnd {
	e := g.streamEnds[name]
	if e == nil {
		e = &streamEnd{}
		if r, ok := g.store.recent[name]; ok {
			e.streamNumber, e.lastPosition = r.streamNumber, r.lastPosition()
		} else if n := g.numberByName.Get([]byte(name)); n != nil {
			e.streamNumber = parseNumber(n)
			e.lastPosition = lastIndexedPosition(g.index, e.streamNumber)
		}
		g.streamEnds[name] = e
	}
	return e
}

func lastIndexedPosition(index *bbolt.Bucket, streamNumber uint64) uint64 {
	c := index.Cursor()
	k, _ := c.Seek(indexKey(streamNumber+1, 0))
	if k == nil {
		k, _ = c.Last()
	} else {
		k, _ = c.Prev()
	}
	if len(k) != 16 || parseNumber(k[:8]) != streamNumber {
		return 0
	}
	return parseNumber(k[8:])
}

func (g *group) RowAt(name store.Stream, position uint64) (store.Row, bool, error) {
	e := g.loadStreamEnd(name)
	if position > e.lastPosition {
		return store.Row{}, position == e.lastPosition+1, nil
	}
	record := g.store.recent[name].recordAt(position)
	if lastCommitted := e.lastPosition - uint64(len(e.addedRecords)); position > lastCommitted {
		record = e.addedRecords[position-lastCommitted-1]
	} else if record == 0 {
		record = parseNumber(g.index.Get(indexKey(e.streamNumber, position)))
	}
	row, err := parseRecord(g.journal.Get(encodeNumber(record)), e.streamNumber, position)
	return row, false, err
}

func (g *group) DocAt(k store.Key) (store.Doc, error) {
	return parseDocument(k, g.documents.Get(documentKey(k)))
}

func (g *group) appendRow(a store.Append, encoded []byte) error {
	e := g.loadStreamEnd(a.Stream)
	if e.streamNumber == 0 {
		n, err := g.numberByName.NextSequence()
		if err != nil {
			return err
		}
		if err := g.numberByName.Put([]byte(a.Stream), encodeNumber(n)); err != nil {
			return err
		}
		if err := g.nameByNumber.Put(encodeNumber(n), []byte(a.Stream)); err != nil {
			return err
		}
		e.streamNumber = n
	}
	setStreamNumber(encoded, e.streamNumber)
	g.lastRecord++
	if err := g.journal.Put(encodeNumber(g.lastRecord), encoded); err != nil {
		return err
	}
	e.lastPosition++
	e.addedRecords = append(e.addedRecords, g.lastRecord)
	return nil
}

// loadForChange returns a document after saving its old value for running walks.
func (g *group) loadForChange(k store.Key) (store.Doc, error) {
	value := g.documents.Get(documentKey(k))
	for _, v := range g.store.views {
		v.saveValue(k, value)
	}
	return parseDocument(k, value)
}

func (g *group) putDoc(p store.Put, encoded []byte) error {
	old, err := g.loadForChange(p.Key)
	if err != nil {
		return err
	}
	if old.Index != p.Index {
		if err := g.deleteIndexEntry(old); err != nil {
			return err
		}
		if p.Index != (store.Key{}) {
			if err := g.sparseIndex.Put(sparseIndexKey(p.Index, p.Key), nil); err != nil {
				return err
			}
		}
	}
	if err := g.updateExpiry(old, p.Key, p.Expires); err != nil {
		return err
	}
	return g.documents.Put(documentKey(p.Key), encoded)
}

func (g *group) updateExpiry(old store.Doc, k store.Key, expiry time.Time) error {
	if old.Expires.Equal(expiry) {
		return nil
	}
	if !old.Expires.IsZero() {
		if err := g.expiry.Delete(expiryKey(old)); err != nil {
			return err
		}
	}
	if expiry.IsZero() {
		return nil
	}
	return g.expiry.Put(expiryKey(store.Doc{Key: k, Expires: expiry}), nil)
}

func (g *group) deleteIndexEntry(d store.Doc) error {
	if d.Index == (store.Key{}) {
		return nil
	}
	return g.sparseIndex.Delete(sparseIndexKey(d.Index, d.Key))
}

func (g *group) deleteDoc(k store.Key) error {
	old, err := g.loadForChange(k)
	if err != nil {
		return err
	}
	if err := g.deleteIndexEntry(old); err != nil {
		return err
	}
	if err := g.updateExpiry(old, k, time.Time{}); err != nil {
		return err
	}
	return g.documents.Delete(documentKey(k))
}

func (g *group) addNumber(a store.Add) error {
	d, err := g.loadForChange(a.Key)
	if err != nil {
		return err
	}
	d.Version++
	d.Number += a.Delta
	if d.Expires.IsZero() {
		if err := g.updateExpiry(d, a.Key, a.Expires); err != nil {
			return err
		}
		d.Expires = a.Expires
	}
	return g.documents.Put(documentKey(a.Key), encodeDocument(d))
}

func (g *group) finish() error {
	if !g.hasWrites {
		return errNothingToCommit
	}
	if err := g.journal.SetSequence(g.lastRecord); err != nil {
		return err
	}
	if g.lastRecord-g.lastIndexedRecord() >= uint64(g.store.recentLimit) {
		if err := g.flushIndex(); err != nil {
			return err
		}
	}
	g.store.publishRows(g)
	return nil
}

// flushIndex writes the entries in key order, so that it visits each page only once.
func (g *group) flushIndex() error {
	g.indexFlushed = true
	lists := slices.Collect(maps.Values(g.store.recent))
	for _, e := range g.streamEnds {
		if len(e.addedRecords) > 0 {
			lists = append(lists, e.recentEntries())
		}
	}
	slices.SortFunc(lists, func(a, b recentEntries) int {
		return cmp.Or(cmp.Compare(a.streamNumber, b.streamNumber), cmp.Compare(a.firstPosition, b.firstPosition))
	})
	g.index.FillPercent = 0.9
	for _, r := range lists {
		for i, record := range r.records {
			if err := g.index.Put(indexKey(r.streamNumber, r.firstPosition+uint64(i)), encodeNumber(record)); err != nil {
				return err
			}
		}
	}
	return g.meta.Put(lastIndexedKey, encodeNumber(g.lastRecord))
}

func completeIndex(tx *bbolt.Tx) error {
	b := openBuckets(tx)
	c := b.journal.Cursor()
	for k, v := c.Seek(encodeNumber(b.lastIndexedRecord() + 1)); k != nil; k, v = c.Next() {
		if len(v) < recordHeaderSize {
			return damagedError("record %x is truncated", k)
		}
		if err := b.index.Put(slices.Clone(v[17:33]), slices.Clone(k)); err != nil {
			return err
		}
	}
	return b.meta.Put(lastIndexedKey, encodeNumber(b.journal.Sequence()))
}
