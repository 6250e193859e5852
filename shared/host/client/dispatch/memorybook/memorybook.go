// Package memorybook stores the state of calls in memory, for programs whose chains end with the
// process.
package memorybook

import (
	"context"
	"maps"
	"sync"

	"github.com/vacancy-host/vacancy/shared/host/client/discovery"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Book is a dispatch.Book in memory. The zero Book is ready for use. A Book is safe for concurrent
// use.
type Book struct {
	mu    sync.Mutex
	pairs map[pair]*entry

	savedDataMu sync.Mutex
	savedData   map[identity.ID]*discovery.SavedData
}

type pair struct{ self, target identity.ID }

type entry struct {
	lock  chan struct{}
	state dispatch.State
}

func (b *Book) Open(ctx context.Context, self, target identity.ID) (dispatch.Session, error) {
	e := b.entryOf(pair{self, target})
	select {
	case <-e.lock:
		return &session{e: e}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (b *Book) Change(ctx context.Context, self identity.ID, f func(*discovery.SavedData) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.savedDataMu.Lock()
	defer b.savedDataMu.Unlock()
	if b.savedData == nil {
		b.savedData = make(map[identity.ID]*discovery.SavedData)
	}
	m := b.savedData[self]
	if m == nil {
		m = &discovery.SavedData{}
		b.savedData[self] = m
	}
	// f gets a copy, so that its changes are dropped if it returns false.
	next := discovery.SavedData{Cards: maps.Clone(m.Cards), OpenQuestions: maps.Clone(m.OpenQuestions), Addresses: maps.Clone(m.Addresses)}
	if f(&next) {
		*m = next
	}
	return nil
}

func (b *Book) entryOf(p pair) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.pairs[p]
	if e == nil {
		if b.pairs == nil {
			b.pairs = make(map[pair]*entry)
		}
		e = &entry{lock: make(chan struct{}, 1), state: dispatch.State{Self: p.self, Target: p.target}}
		e.lock <- struct{}{}
		b.pairs[p] = e
	}
	return e
}

type session struct {
	e    *entry
	once sync.Once
}

// Load returns no copy, because the slices of a State are never changed in place.
func (s *session) Load() (dispatch.State, error) { return s.e.state, nil }

func (s *session) Save(st dispatch.State) error {
	s.e.state = st
	return nil
}

func (s *session) Close() error {
	s.once.Do(func() { s.e.lock <- struct{}{} })
	return nil
}
