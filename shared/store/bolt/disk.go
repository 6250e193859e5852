package bolt

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/vacancy-host/vacancy/shared/store"
)

// syncState tracks which transactions are on disk. A bbolt transaction is visible before its last
// sync has finished, and a power failure could still undo it. Therefore a reader waits until its
// transaction is on disk.
type syncState struct {
	lastSynced atomic.Int64
	mu         sync.Mutex
	cond       *sync.Cond
	failure    error // if set, the state on disk is unknown, and all calls fail
}

func (d *syncState) init() { d.cond = sync.NewCond(&d.mu) }

func (d *syncState) markSynced(id int) {
	d.mu.Lock()
	d.lastSynced.Store(int64(id))
	d.mu.Unlock()
	d.cond.Broadcast()
}

func (d *syncState) recordFailure(cause error) error {
	d.mu.Lock()
	d.failure = fmt.Errorf("%w: writing failed, open the store again: %w", store.ErrUnavailable, cause)
	d.mu.Unlock()
	d.cond.Broadcast()
	return d.failure
}

func (d *syncState) waitSynced(id int) error {
	if d.lastSynced.Load() >= int64(id) {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.failure == nil && d.lastSynced.Load() < int64(id) {
		d.cond.Wait()
	}
	return d.failure
}

func (d *syncState) err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failure
}
