// Package memory is a store in this process's memory, for tests, examples and measurements.
//
// Streams are distributed over shards with separate locks, and all documents share one lock. A
// commit acquires all its locks before it applies a write, so that readers see all of its writes or
// none. Locks are acquired in the order of the shards, followed by the lock of the documents, so
// that no deadlock is possible.
package memory

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/vacancy-host/vacancy/shared/store"
)

const (
	shardCount = 256
	pageBytes  = 1 << 20 // size after which a page ends
)

// Store stores rows and documents in memory. Create a Store with New.
type Store struct {
	seed   maphash.Seed
	shards [shardCount]shard
	docs   documents
}

// shard holds some of the streams. The padding keeps the locks of two shards on different cache
// lines.
type shard struct {
	mu      sync.Mutex
	closed  bool
	streams map[store.Stream]*stream
	_       [40]byte
}

// stream holds the rows of one stream: rows[p-1] is the row at position p. Rows are only appended,
// so a copy of the slice is a snapshot.
type stream struct{ rows []store.Row }

func New() *Store {
	s := &Store{seed: maphash.MakeSeed()}
	for i := range s.shards {
		s.shards[i].streams = map[store.Stream]*stream{}
	}
	s.docs.reset()
	return s
}

func (s *Store) shardIndex(name store.Stream) int {
	return int(maphash.String(s.seed, string(name)) % shardCount)
}

func (s *Store) snapshotRows(ctx context.Context, name store.Stream) ([]store.Row, error) {
	if err := ctx.Err(); err != nil {
		return nil, store.NotAppliedError(err)
	}
	sh := &s.shards[s.shardIndex(name)]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.closed {
		return nil, store.NotAppliedError(store.ErrClosed)
	}
	if st := sh.streams[name]; st != nil {
		return st.rows, nil
	}
	return nil, nil
}

func (s *Store) Tip(ctx context.Context, name store.Stream) (store.Row, error) {
	rows, err := s.snapshotRows(ctx, name)
	if err != nil || len(rows) == 0 {
		return store.Row{}, err
	}
	return store.CloneRow(rows[len(rows)-1]), nil
}

func (s *Store) Rows(ctx context.Context, name store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	if err := store.CheckPage(n); err != nil {
		return nil, err
	}
	rows, err := s.snapshotRows(ctx, name)
	if err != nil {
		return nil, err
	}
	return copyPage(rows, from, n, d), nil
}

func copyPage(rows []store.Row, from uint64, n int, d store.Direction) []store.Row {
	last := uint64(len(rows))
	position := max(from, 1)
	if d == store.Descending {
		position = min(from, last)
	}
	var out []store.Row
	for size := 0; position >= 1 && position <= last && len(out) < n && size < pageBytes; {
		row := rows[position-1]
		out = append(out, store.CloneRow(row))
		size += len(row.Data)
		if d == store.Descending {
			position--
		} else {
			position++
		}
	}
	return out
}

// Commit implements store.Store. Its outcome is always known.
func (s *Store) Commit(ctx context.Context, writes ...store.Write) error {
	if err := store.CheckWrites(writes); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return store.NotAppliedError(err)
	}
	if len(writes) == 1 {
		// Nearly every commit of a call is one Append, which needs only one lock.
		if a, ok := writes[0].(store.Append); ok {
			return s.shards[s.shardIndex(a.Stream)].appendOne(a)
		}
	}
	return s.applyWrites(writes)
}

func (sh *shard) appendOne(a store.Append) error {
	row := store.Row{Position: a.Position, WriteID: a.WriteID, Data: slices.Clone(a.Data)}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.closed {
		return store.NotAppliedError(store.ErrClosed)
	}
	occupant, isFree := sh.rowAt(a.Stream, a.Position)
	switch {
	case isFree:
		sh.storeRow(a.Stream, row)
	case occupant.Position != a.Position || occupant.WriteID != a.WriteID:
		return &store.TakenError{Stream: a.Stream, Position: a.Position, Occupant: store.CloneRow(occupant)}
	}
	return nil
}

// rowAt looks up a position like store.State.RowAt. The caller must hold the shard's lock.
func (sh *shard) rowAt(name store.Stream, position uint64) (row store.Row, isFree bool) {
	var rows []store.Row
	if st := sh.streams[name]; st != nil {
		rows = st.rows
	}
	next := uint64(len(rows)) + 1
	if position < next {
		return rows[position-1], false
	}
	return store.Row{}, position == next
}

func (sh *shard) storeRow(name store.Stream, row store.Row) {
	st := sh.streams[name]
	if st == nil {
		st = &stream{}
		sh.streams[name] = st
	}
	st.rows = append(st.rows, row)
}

func (s *Store) applyWrites(writes []store.Write) error {
	lockedShards := s.lockTargets(writes)
	defer s.unlockTargets(lockedShards)
	if s.docs.closed {
		return store.NotAppliedError(store.ErrClosed)
	}
	alreadyApplied, err := store.CheckConditions(writes, lockedStore{s})
	if alreadyApplied || err != nil {
		return err
	}
	for _, w := range writes {
		if a, ok := w.(store.Append); ok {
			sh := &s.shards[s.shardIndex(a.Stream)]
			sh.storeRow(a.Stream, store.Row{Position: a.Position, WriteID: a.WriteID, Data: slices.Clone(a.Data)})
			continue
		}
		s.docs.applyWrite(w)
	}
	return nil
}

// lockedStore is a store whose locks the running commit holds.
type lockedStore struct{ *Store }

func (l lockedStore) RowAt(name store.Stream, position uint64) (store.Row, bool, error) {
	row, isFree := l.shards[l.shardIndex(name)].rowAt(name, position)
	return row, isFree, nil
}

func (l lockedStore) DocAt(k store.Key) (store.Doc, error) { return l.docs.get(k), nil }

// lockTargets acquires the locks in an order that avoids deadlocks.
func (s *Store) lockTargets(writes []store.Write) []int {
	var lockedShards []int
	for _, w := range writes {
		if a, ok := w.(store.Append); ok {
			lockedShards = append(lockedShards, s.shardIndex(a.Stream))
		}
	}
	slices.Sort(lockedShards)
	lockedShards = slices.Compact(lockedShards)
	for _, i := range lockedShards {
		s.shards[i].mu.Lock()
	}
	s.docs.mu.Lock()
	return lockedShards
}

func (s *Store) unlockTargets(lockedShards []int) {
	s.docs.mu.Unlock()
	for _, i := range lockedShards {
		s.shards[i].mu.Unlock()
	}
}

func (s *Store) Close() error {
	for i := range s.shards {
		s.shards[i].mu.Lock()
		s.shards[i].closed = true
		s.shards[i].mu.Unlock()
	}
	s.docs.mu.Lock()
	s.docs.closed = true
	s.docs.mu.Unlock()
	return nil
}
