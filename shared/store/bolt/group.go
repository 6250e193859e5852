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
	s              *Store
	id             int    // transaction id
	previousRecord uint64 // last record of the previous transaction
	record         uint64 // last record so far
	ends           map[store.Stream]*streamEnd
	applied        bool
	flushed        bool
}

type buckets struct{ meta, journal, names, numbers, index, documents, listed, expiring *bbolt.Bucket }

func openBuckets(tx *bbolt.Tx) buckets {
	return buckets{
		meta: tx.Bucket(metaBucket), journal: tx.Bucket(journalBucket), names: tx.Bucket(namesBucket), numbers: tx.Bucket(numbersBucket),
		index: tx.Bucket(indexBucket), documents: tx.Bucket(documentsBucket), listed: tx.Bucket(listedBucket), expiring: tx.Bucket(expiringBucket),
	}
}

func (b buckets) indexedRecord() uint64 { return parseNumber(b.meta.Get(indexedKey)) }

// streamEnd describes the end of a stream: its number (0 for a new stream), its last position, and the
// records that this group added.
type streamEnd struct {
	number, last uint64
	added        []uint64
}

// recentRecords returns the records that the group added to the stream.
func (e *streamEnd) recentRecords() recent {
	return recent{number: e.number, first: e.last - uint64(len(e.added)) + 1, records: e.added}
}

func newGroup(s *Store, tx *bbolt.Tx) *group {
	g := &group{buckets: openBuckets(tx), s: s, id: tx.ID(), ends: map[store.Stream]*streamEnd{}}
	g.previousRecord = g.journal.Sequence()
	g.record = g.previousRecord
	// The journal grows only at its right edge, so pages can be filled completely.
	g.journal.FillPercent = 1
	return g
}

// commit applies one commit of the group. If the commit is refused, outcome is the refusal. An error
// in err aborts the group.
func (g *group) commit(r *request) (outcome, err error) {
	own, refusal := store.Decide(r.writes, g)
	switch {
	case own:
		return nil, nil
	case isRefusal(refusal):
		return refusal, nil
	case refusal != nil:
		// Damaged data fails only this commit.
		return store.NotApplied(refusal), nil
	}
	g.applied = true
	for i, w := range r.writes {
		switch w := w.(type) {
		case store.Append:
			err = g.append(w, r.values[i])
		case store.Put:
			err = g.put(w, r.values[i])
		case store.Delete:
			err = g.delete(w.Key)
		case store.Add:
			err = g.add(w)
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

// end returns the end of a stream, including this group. It reads recent without a lock, because
// only this goroutine writes to recent.
func (g *group) end(name store.Stream) *streamEnd {
	e := g.ends[name]
	if e == nil {
		e = &streamEnd{}
		if r, ok := g.s.recent[name]; ok {
			e.number, e.last = r.number, r.last()
		} else if n := g.names.Get([]byte(name)); n != nil {
			e.number = parseNumber(n)
			e.last = lastIndexed(g.index, e.number)
		}
		g.ends[name] = e
	}
	return e
}

func lastIndexed(index *bbolt.Bucket, stream uint64) uint64 {
	c := index.Cursor()
	k, _ := c.Seek(indexKey(stream+1, 0))
	if k == nil {
		k, _ = c.Last()
	} else {
		k, _ = c.Prev()
	}
	if len(k) != 16 || parseNumber(k[:8]) != stream {
		return 0
	}
	return parseNumber(k[8:])
}

func (g *group) Held(name store.Stream, position uint64) (store.Row, bool, error) {
	e := g.end(name)
	if position > e.last {
		return store.Row{}, position == e.last+1, nil
	}
	record := g.s.recent[name].record(position)
	if added := e.last - uint64(len(e.added)); position > added {
		record = e.added[position-added-1]
	} else if record == 0 {
		record = parseNumber(g.index.Get(indexKey(e.number, position)))
	}
	row, err := parseRecord(g.journal.Get(number(record)), e.number, position)
	return row, false, err
}

func (g *group) At(k store.Key) (store.Doc, error) {
	return parseDocument(k, g.documents.Get(documentKey(k)))
}

func (g *group) append(a store.Append, record []byte) error {
	e := g.end(a.Stream)
	if e.number == 0 {
		n, err := g.names.NextSequence()
		if err != nil {
			return err
		}
		if err := g.names.Put([]byte(a.Stream), number(n)); err != nil {
			return err
		}
		if err := g.numbers.Put(number(n), []byte(a.Stream)); err != nil {
			return err
		}
		e.number = n
	}
	setStream(record, e.number)
	g.record++
	if err := g.journal.Put(number(g.record), record); err != nil {
		return err
	}
	e.last++
	e.added = append(e.added, g.record)
	return nil
}

// change returns a document that is about to change, after saving its old value for running walks.
func (g *group) change(k store.Key) (store.Doc, error) {
	value := g.documents.Get(documentKey(k))
	for _, v := range g.s.views {
		v.keep(k, value)
	}
	return parseDocument(k, value)
}

func (g *group) put(p store.Put, value []byte) error {
	old, err := g.change(p.Key)
	if err != nil {
		return err
	}
	if old.Index != p.Index {
		if err := g.unlist(old); err != nil {
			return err
		}
		if p.Index != (store.Key{}) {
			if err := g.listed.Put(listedKey(p.Index, p.Key), nil); err != nil {
				return err
			}
		}
	}
	if err := g.expire(old, p.Key, p.Expires); err != nil {
		return err
	}
	return g.documents.Put(documentKey(p.Key), value)
}

// expire changes the expiry entry of the document at k from old.Expires to expiry.
func (g *group) expire(old store.Doc, k store.Key, expiry time.Time) error {
	if old.Expires.Equal(expiry) {
		return nil
	}
	if !old.Expires.IsZero() {
		if err := g.expiring.Delete(expiringKey(old)); err != nil {
			return err
		}
	}
	if expiry.IsZero() {
		return nil
	}
	return g.expiring.Put(expiringKey(store.Doc{Key: k, Expires: expiry}), nil)
}

func (g *group) unlist(d store.Doc) error {
	if d.Index == (store.Key{}) {
		return nil
	}
	return g.listed.Delete(listedKey(d.Index, d.Key))
}

func (g *group) delete(k store.Key) error {
	old, err := g.change(k)
	if err != nil {
		return err
	}
	if err := g.unlist(old); err != nil {
		return err
	}
	if err := g.expire(old, k, time.Time{}); err != nil {
		return err
	}
	return g.documents.Delete(documentKey(k))
}

func (g *group) add(a store.Add) error {
	d, err := g.change(a.Key)
	if err != nil {
		return err
	}
	d.Version++
	d.Number += a.Delta
	if d.Expires.IsZero() {
		if err := g.expire(d, a.Key, a.Expires); err != nil {
			return err
		}
		d.Expires = a.Expires
	}
	return g.documents.Put(documentKey(a.Key), newDocument(d))
}

func (g *group) finish() error {
	if !g.applied {
		return errNothing
	}
	if err := g.journal.SetSequence(g.record); err != nil {
		return err
	}
	if g.record-g.indexedRecord() >= uint64(g.s.recentLimit) {
		if err := g.flush(); err != nil {
			return err
		}
	}
	g.s.publish(g)
	return nil
}

// flush writes recent and the group's rows to the index in key order, so that it visits each page
// only once.
func (g *group) flush() error {
	g.flushed = true
	runs := slices.Collect(maps.Values(g.s.recent))
	for _, e := range g.ends {
		if len(e.added) > 0 {
			runs = append(runs, e.recentRecords())
		}
	}
	slices.SortFunc(runs, func(a, b recent) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.first, b.first))
	})
	g.index.FillPercent = 0.9
	for _, r := range runs {
		for i, record := range r.records {
			if err := g.index.Put(indexKey(r.number, r.first+uint64(i)), number(record)); err != nil {
				return err
			}
		}
	}
	return g.meta.Put(indexedKey, number(g.record))
}

// catchUp completes the index from the journal, for example after a crash.
func catchUp(tx *bbolt.Tx) error {
	b := openBuckets(tx)
	c := b.journal.Cursor()
	for k, v := c.Seek(number(b.indexedRecord() + 1)); k != nil; k, v = c.Next() {
		if len(v) < headerSize {
			return damagedError("record %x is truncated", k)
		}
		if err := b.index.Put(slices.Clone(v[17:33]), slices.Clone(k)); err != nil {
			return err
		}
	}
	return b.meta.Put(indexedKey, number(b.journal.Sequence()))
}
