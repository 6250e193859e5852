package models

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Fresh is how long Current may return a cached table.
const Fresh = 10 * time.Second

// Tables stores the versions of a host's table of models. It is safe for concurrent use.
type Tables struct {
	store store.Updater
	now   func() time.Time

	mu    sync.Mutex
	table Table
	until time.Time
}

// NewTables returns the tables in s. rand must be safe for concurrent use.
func NewTables(s store.Store, now func() time.Time, rand io.Reader) *Tables {
	return &Tables{store: store.Updater{Store: s, Rand: rand}, now: now}
}

const partition = "models"

func currentKey() store.Key { return store.Key{Partition: partition, Sort: "current"} }

// Current returns the newest version, or the built-in table if none was set.
func (t *Tables) Current(ctx context.Context) (Table, error) {
	t.mu.Lock()
	table, until := t.table, t.until
	t.mu.Unlock()
	if t.now().Before(until) {
		return table, nil
	}
	until = t.now().Add(Fresh)
	d, err := t.store.Store.Doc(ctx, currentKey())
	if err != nil {
		return Table{}, store.Problem(err)
	}
	table, err = decode(d)
	if err == nil {
		t.mu.Lock()
		t.table, t.until = table, until
		t.mu.Unlock()
	}
	return table, err
}

func decode(d store.Doc) (table Table, err error) {
	if d.Version == 0 {
		return Known(), nil
	}
	if err = json.Unmarshal(d.Data, &table); err != nil || table.Version < 2 {
		return table, problem.Wrap(problem.Damaged, err, "the table of models is damaged")
	}
	return table, nil
}

// Set stores the next version, unless the current version has the same models.
func (t *Tables) Set(ctx context.Context, next Table) (Table, error) {
	err := t.store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, currentKey())
		if err != nil {
			return err
		}
		before, err := decode(d)
		if err != nil {
			return err
		}
		next.Version = before.Version
		if string(next.Blob()) == string(before.Blob()) {
			return nil
		}
		next.Version++
		data := next.Blob()
		tx.Put(store.Doc{Key: d.Key, Data: data})
		// Kept for the rows that name this version.
		tx.Put(store.Doc{Key: store.Key{Partition: partition, Sort: fmt.Sprintf("%08d", next.Version)}, Data: data})
		return nil
	})
	t.mu.Lock()
	t.until = time.Time{}
	t.mu.Unlock()
	return next, store.Problem(err)
}
