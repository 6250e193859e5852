package models

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
)

// CacheTime is the time for which Current may return a cached table.
const CacheTime = 10 * time.Second

// Tables stores the versions of a host's table of models. It is safe for concurrent use.
type Tables struct {
	store store.Updater
	now   func() time.Time

	mu      sync.Mutex
	cached  Table
	expires time.Time
}

func NewTables(s store.Store, now func() time.Time, rand io.Reader) *Tables {
	// rand must be safe for concurrent use.
	return &Tables{store: store.Updater{Store: s, Rand: rand}, now: now}
}

func loadCurrent(ctx context.Context, reader store.Reader) (Table, error) {
	t, d, err := CurrentDocs.Get(ctx, reader, CurrentDocs.Key())
	if err == nil && d.Version == 0 {
		t = BuiltinTable()
	}
	return t, err
}

func (t *Tables) Current(ctx context.Context) (Table, error) {
	t.mu.Lock()
	table, expires := t.cached, t.expires
	t.mu.Unlock()
	if t.now().Before(expires) {
		return table, nil
	}
	expires = t.now().Add(CacheTime)
	table, err := loadCurrent(ctx, t.store.Store)
	if err == nil {
		t.mu.Lock()
		t.cached, t.expires = table, expires
		t.mu.Unlock()
	}
	return table, store.AsProblem(err)
}

// Set stores the next version unless the current version has the same models.
func (t *Tables) Set(ctx context.Context, next Table) (Table, error) {
	err := t.store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		stored, err := loadCurrent(ctx, tx)
		if err != nil {
			return err
		}
		next.Version = stored.Version
		if string(next.Blob()) == string(stored.Blob()) {
			return nil
		}
		next.Version++
		CurrentDocs.Put(tx, store.Doc{Key: CurrentDocs.Key()}, next)
		VersionDocs.Put(tx, store.Doc{Key: VersionDocs.Key(fmt.Sprintf("%08d", next.Version))}, next)
		return nil
	})
	t.mu.Lock()
	t.expires = time.Time{}
	t.mu.Unlock()
	return next, store.AsProblem(err)
}
