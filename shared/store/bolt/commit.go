package bolt

import (
	"errors"

	"go.etcd.io/bbolt"

	"github.com/vacancy-host/vacancy/shared/store"
)

// errNothingToCommit aborts a transaction without writes, which need not be synced.
var errNothingToCommit = errors.New("nothing to commit")

func (s *Store) runCommitter() {
	defer close(s.committerDone)
	var group []*request
	for {
		clear(group)
		if group = s.queue.takeGroup(group[:0]); len(group) == 0 {
			return
		}
		outcomes, err := s.commitGroup(group)
		for i, r := range group {
			if err != nil {
				// Refused commits fail too, because the refusal may depend on data that is not on disk.
				r.outcome <- err
			} else {
				r.outcome <- outcomes[i]
			}
		}
	}
}

func (s *Store) commitGroup(requests []*request) (outcomes []error, err error) {
	s.groupMu.Lock()
	defer s.groupMu.Unlock()
	if err := s.disk.err(); err != nil {
		return nil, err
	}
	var g *group
	err = s.runWriteTx(func(tx *bbolt.Tx) error {
		g = newGroup(s, tx)
		for _, r := range requests {
			outcome, err := g.applyRequest(r)
			if err != nil {
				return err
			}
			outcomes = append(outcomes, outcome)
		}
		return g.finish()
	})
	if errors.Is(err, errNothingToCommit) {
		return outcomes, nil
	}
	if err != nil {
		return nil, s.rollBack(g, err)
	}
	s.finishCommit(g)
	return outcomes, nil
}

func (s *Store) runWriteTx(fn func(*bbolt.Tx) error) error {
	return recoverPanic(func() error { return s.db.Update(fn) })
}

// publishRows adds a group's rows to memory before its transaction becomes visible. Readers ignore
// records beyond their own transaction.
func (s *Store) publishRows(g *group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, e := range g.streamEnds {
		if len(e.addedRecords) == 0 {
			continue
		}
		if r, ok := s.recent[name]; ok {
			r.records = append(r.records, e.addedRecords...)
			s.recent[name] = r
		} else {
			s.recent[name] = e.recentEntries()
		}
	}
}

// finishCommit releases waiting readers, and drops rows that are now in the file's index.
func (s *Store) finishCommit(g *group) {
	s.disk.markSynced(g.txID)
	if !g.indexFlushed {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent = map[store.Stream]recentEntries{}
}

// rollBack handles a failed group. If the transaction is visible nevertheless, its sync failed and
// the state on disk is unknown. After a panic, bbolt's lock may still be held. In both cases, all
// later calls fail.
func (s *Store) rollBack(g *group, cause error) error {
	if isPanic(cause) {
		return s.disk.recordFailure(cause)
	}
	if g == nil { // the transaction did not begin
		return store.NotAppliedError(cause)
	}
	isVisible := true
	err := s.runUnsyncedReadTx(func(tx *bbolt.Tx) error {
		isVisible = tx.ID() >= g.txID
		return nil
	})
	if err == nil && !isVisible {
		s.unpublishRows(g)
		return store.NotAppliedError(cause)
	}
	return s.disk.recordFailure(cause)
}

func (s *Store) runUnsyncedReadTx(fn func(*bbolt.Tx) error) error {
	return recoverPanic(func() error { return s.db.View(fn) })
}

func (s *Store) unpublishRows(g *group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rollbackCount++
	for name, r := range s.recent {
		n := len(r.records)
		for n > 0 && r.records[n-1] > g.previousRecord {
			n--
		}
		if n == 0 {
			delete(s.recent, name)
			continue
		}
		// A reader may still use the array, so the next append must copy it.
		r.records = r.records[:n:n]
		s.recent[name] = r
	}
}
