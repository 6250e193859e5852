package bolt

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/vacancy-host/vacancy/shared/store"
)

// disk knows which transactions are on disk. bbolt shows a transaction to
// readers before its last sync is done: an answer read then could leave the
// host, and be gone after a power cut. So a reader waits for its transaction.
type disk struct {
	last    atomic.Int64 // the last transaction that is on disk
	mu      sync.Mutex
	changed *sync.Cond
	broken  error // not nil: what is on disk is unknown, nothing is served
}

func (d *disk) init() { d.changed = sync.NewCond(&d.mu) }

// reached says that a transaction is on disk.
func (d *disk) reached(id int) {
	d.mu.Lock()
	d.last.Store(int64(id))
	d.mu.Unlock()
	d.changed.Broadcast()
}

// lost says that nobody knows what is on disk, and returns the error that all
// will get.
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

// fault returns why nothing is served, nil if all is well.
func (d *disk) fault() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.broken
}
