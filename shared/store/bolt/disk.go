package bolt

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/vacancy-host/vacancy/shared/store"
)

// disk knows which transactions are on disk. bbolt shows a transaction before
// its last sync is done; an answer read from it could leave the host and be
// lost in a power cut. So a reader waits for its transaction.
type disk struct {
	last    atomic.Int64 // the last transaction on disk
	mu      sync.Mutex
	changed *sync.Cond
	broken  error // if not nil, it is unknown what is on disk, and nothing is served
}

func (d *disk) init() { d.changed = sync.NewCond(&d.mu) }

// reached records that a transaction is on disk.
func (d *disk) reached(id int) {
	d.mu.Lock()
	d.last.Store(int64(id))
	d.mu.Unlock()
	d.changed.Broadcast()
}

// lost records that it is unknown what is on disk, and returns the error for
// everybody.
func (d *disk) lost(cause error) error {
	d.mu.Lock()
	d.broken = fmt.Errorf("%w: writing failed, open the store again: %w", store.ErrUnavailable, cause)
	d.mu.Unlock()
	d.changed.Broadcast()
	return d.broken
}

// await returns when a transaction is on disk.
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

// fault returns why nothing is served, or nil.
func (d *disk) fault() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.broken
}
