// Package vacants manages the vacants of this host: records, names, sealed keys
// and logbooks, and the host's own identity.
//
// The invariants: every change of a vacant is one commit of its record, a
// logbook entry that it signed, and its registration, so no half-changed
// vacant, unlogged state or replaced card can be observed. Creating, importing
// and graduating a child is one commit with its manifest and its hosted
// parent's entry. A name belongs to one vacant for ever, even if that vacant is
// deleted. No seed appears in a record, an error or a log line, and none is
// kept of a deleted vacant.
package vacants

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/sealed"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/retry"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Config is what Vacants are made of. All but URL, Identity, Registry, Wait and
// KeyTime are needed.
type Config struct {
	Store      store.Store
	Vault      custody.Vault
	Substrates substrate.Kinds
	Now        func() time.Time
	Rand       io.Reader // safe for concurrent use
	// URL is the host's base URL, as callers reach it: http://127.0.0.1:8080.
	// "" means the one that SetURL keeps in the store, for a host that learns it
	// only once it is deployed; until then no card can be signed.
	URL string
	// Identity gives the host's own identity where a key service keeps it. It is
	// asked for each time and remembers what it must. nil: a software identity,
	// sealed in the store.
	Identity func(context.Context) (identity.Signer, error)
	// Registry is where vacants are published; nil: nowhere. See NewWithRegistry.
	Registry *registry.Registry
	// Wait sleeps between tries, or ends early with ctx.
	Wait func(ctx context.Context, d time.Duration) error
	// KeyTime is how long an opened key stays in memory; 10 minutes if 0.
	KeyTime time.Duration
}

const defaultKeyTime = 10 * time.Minute

// Directory are the vacants of one host. They are safe for concurrent use, and
// any number of hosts may share a store.
type Directory struct {
	Config
	signers *sealed.Signers
	memory  memory
	logs    keyedMutex
	known   atomic.Pointer[storedSelf]
}

// New makes the Vacants of a host. The error is a problem of kind Usage for a
// URL that callers cannot use.
func New(c Config) (*Directory, error) {
	if c.URL != "" {
		u, err := cleanURL(c.URL)
		if err != nil {
			return nil, err
		}
		c.URL = u
	}
	if c.Wait == nil {
		c.Wait = retry.Sleep
	}
	if c.KeyTime == 0 {
		c.KeyTime = defaultKeyTime
	}
	return &Directory{Config: c, signers: sealed.NewSigners(c.Vault, c.Now, c.KeyTime)}, nil
}

// Format shows only what v is, whatever the verb.
func (v *Directory) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "hosted.Vacants") }

// Sweep wipes the keys that have been in memory for KeyTime.
func (v *Directory) Sweep() { v.signers.Sweep() }

// Close wipes all keys from memory. The store and the vault are the caller's.
func (v *Directory) Close() { v.signers.Close() }

// now is the time as it is kept and signed.
func (v *Directory) now() time.Time { return v.Now().UTC().Truncate(time.Microsecond) }

// updater changes the store with optimistic concurrency.
func (v *Directory) updater() store.Updater {
	return store.Updater{Store: v.Store, Rand: v.Rand, Wait: v.Wait}
}
