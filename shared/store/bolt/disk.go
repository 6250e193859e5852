package bolt

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/vacancy-host/vacancy/shared/store"
)

// disk tracks which transactions are on disk. A bbolt transaction is visible before its last sync
// has finished, so an answer based on it could leave the host and be lost in a power failure.
// Therefore a reader waits for its transaction.
type disk struct {
	last    atomic.Int64 // last transaction on disk
	mu      sync.Mutex
	changed *sync.Cond
	broken  error // if set, the state on disk is unknown, and all calls fail
}

func (d *disk) init() { d.changed = sync.NewCond(&d.mu) }

func (d *disk) reached(id int) {
	d.mu.Lock()
	d.last.Store(int64(id))
	d.mu.Unlock()
	d.changed.Broadcast()
}

// lost records that the state on disk is unknown, and returns the error of all later calls.
func (d *disk) lost(cause error) error {
	d.mu.Lock()
	d.broken = fmt.Errorf("%w: writing failed, open the store again: %w", store.ErrUnavailable, cause)
	d.mu.Unlock()
	d.changed.Broadcast()
	return d.broken
}

func (d *disk) await(id int) error {
	if d.last.Load() >= int64(id) {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.broken == nil && d.last.Load() < int64(id) {
		d.changed.Wait()
	}
	return d.broken
}

func (d *disk) fault() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.broken
}
