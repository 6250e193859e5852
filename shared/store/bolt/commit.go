package bolt

import (
	"errors"

	"go.etcd.io/bbolt"

	"github.com/vacancy-host/vacancy/shared/store"
)

// errNothing ends a transaction in which every commit was refused or had been
// applied: there is nothing to sync.
var errNothing = errors.New("nothing to commit")

// run is the committer: the only writer of the file, group after group.
func (s *Store) run() {
	defer close(s.ended)
	var group []*request
	for {
		clear(group)
		if group = s.queue.take(group[:0]); len(group) == 0 {
			return
		}
		outcomes, err := s.commitGroup(group)
		for i, r := range group {
			if err != nil {
				// Refused commits fail too: what refused them may not be on
				// disk.
				r.done <- err
			} else {
				r.done <- outcomes[i]
			}
		}
	}
}

// commitGroup brings a group to disk. The outcomes are valid if err is nil.
func (s *Store) commitGroup(requests []*request) (outcomes []error, err error) {
	s.groupMu.Lock()
	defer s.groupMu.Unlock()
	if err := s.disk.fault(); err != nil {
		return nil, err
	}
	var g *group
	err = s.update(func(tx *bbolt.Tx) error {
		g = newGroup(s, tx)
		for _, r := range requests {
			outcome, err := g.commit(r)
			if err != nil {
				return err
			}
			outcomes = append(outcomes, outcome)
		}
		return g.finish()
	})
	if errors.Is(err, errNothing) {
		return outcomes, nil
	}
	if err != nil {
		return nil, s.failed(g, err)
	}
	s.succeeded(g)
	return outcomes, nil
}

// update runs fn in a write transaction and brings it to disk.
func (s *Store) update(fn func(*bbolt.Tx) error) error {
	return guarded(func() error { return s.db.Update(fn) })
}

// publish adds a group's rows to memory before its transaction becomes visible:
// readers use only records in their own transaction.
func (s *Store) publish(g *group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, e := range g.ends {
		if len(e.added) == 0 {
			continue
		}
		if r, ok := s.recent[name]; ok {
			r.records = append(r.records, e.added...)
			s.recent[name] = r
		} else {
			s.recent[name] = e.run()
		}
	}
}

// succeeded releases readers that saw the transaction before it was synced, and
// drops rows that the file's index now has.
func (s *Store) succeeded(g *group) {
	s.disk.reached(g.id)
	if !g.flushed {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent = map[store.Stream]recent{}
}

// failed takes back a group that is not on disk. If its transaction is visible
// nevertheless, its last sync failed: then it is unknown what is on disk, and
// nothing is served until the file is opened again. The same holds after a
// panic, which may have left bbolt's lock held.
func (s *Store) failed(g *group, cause error) error {
	if isPanic(cause) {
		return s.disk.lost(cause)
	}
	if g == nil { // the transaction did not begin
		return store.NotApplied(cause)
	}
	shown := true
	err := s.view(func(tx *bbolt.Tx) error {
		shown = tx.ID() >= g.id
		return nil
	})
	if err == nil && !shown {
		s.unpublish(g)
		return store.NotApplied(cause)
	}
	return s.disk.lost(cause)
}

// view runs fn in a read transaction that may not be on disk yet.
func (s *Store) view(fn func(*bbolt.Tx) error) error {
	return guarded(func() error { return s.db.View(fn) })
}

// unpublish reverts publish.
func (s *Store) unpublish(g *group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takenBack++
	for name, r := range s.recent {
		n := len(r.records)
		for n > 0 && r.records[n-1] > g.before {
			n--
		}
		if n == 0 {
			delete(s.recent, name)
			continue
		}
		// The next append must not overwrite what a reader may use.
		r.records = r.records[:n:n]
		s.recent[name] = r
	}
}
