// Package vacants manages the vacants of this host: records, names, sealed keys,
// logbooks, states and publishing, and the host's own identity. It also keeps the versions
// of agents and the plans of composites, because each is one commit with its record; package
// resources checks them, and package answer answers by them.
//
// The invariants: every change of a vacant is one commit of its record, a logbook entry that
// it signed, and its registration, so no half-changed vacant, unlogged state or replaced
// card can be observed. Creating, importing and graduating a child is one commit with its
// manifest and its hosted parent's entry. A name belongs to one vacant at a time; deleting a
// vacant frees its name. No seed appears in a record, an error or a log line, and none is
// kept of a deleted vacant. Nobody finds a vacant here without an Asker; only Show,
// ShowNamed and Lookup need no Asker: they serve calls, and handlers that conceal hidden
// vacants.
package vacants

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/sealed"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/resources"
	"github.com/vacancy-host/vacancy/shared/host/tenant/quota"
	"github.com/vacancy-host/vacancy/shared/retry"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Config configures a Directory. Records and Rand are required.
type Config struct {
	*Records
	// Registry holds the publications of the vacants, or is nil on a host
	// without a registry.
	Registry *registry.Registry
	// Vault opens the vacants' keys. Without a Vault, AcceptRevocation does not
	// update the vacant's record; calls are refused by the revocation document
	// instead. AddManifest then refuses manifests of vacants that are hosted
	// here. Functions that must not open keys run this way.
	Vault custody.Vault
	// Resources are the resources of agents. If Resources is nil, there are none, and no vacant
	// can be made.
	Resources *resources.Resources
	// Fee is the host's share of what callers pay, in basis points; new prices have it.
	Fee int64
	// Quotas bound the vacants of a tenant, and what is stored for them.
	Quotas quota.Quotas
	Rand   io.Reader // safe for concurrent use
	// Identity returns the host's own identity if a key service keeps it. It is
	// called for each use and must cache by itself. With nil, the host has a
	// software identity, sealed in the store.
	Identity func(context.Context) (identity.Signer, error)
	// Wait sleeps between tries, or returns early when ctx ends.
	Wait func(ctx context.Context, d time.Duration) error
	// KeyTime is the time for which an opened key stays in memory. The default
	// is 10 minutes.
	KeyTime time.Duration
}

const defaultKeyTime = 10 * time.Minute

// Directory manages the vacants of one host. It is safe for concurrent use, and
// any number of hosts may share a store.
type Directory struct {
	Config
	signers     *sealed.Signers // of vacants
	hostSigners *sealed.Signers // of the host's own identity
	agents      *agentCache
	logs        keyedMutex
	known       atomic.Pointer[self]
}

// New makes the Directory of a host.
func New(c Config) *Directory {
	if c.Wait == nil {
		c.Wait = retry.Sleep
	}
	if c.Resources == nil {
		c.Resources = &resources.Resources{}
	}
	c.KeyTime = cmp.Or(c.KeyTime, defaultKeyTime)
	agents, err := lru.New[store.Key, definition.Agent](cachedAgents)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &Directory{Config: c, agents: agents, signers: sealed.Vacant.NewSigners(c.Vault, c.Now, c.KeyTime), hostSigners: sealed.Host.NewSigners(c.Vault, c.Now, c.KeyTime)}
}

// Format prints only the type, for every verb.
func (v *Directory) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "vacants.Directory") }

// Sweep wipes keys that have been in memory for KeyTime.
func (v *Directory) Sweep() {
	v.signers.Sweep()
	v.hostSigners.Sweep()
}

// Close wipes all keys from memory. It closes neither the store nor the vault.
func (v *Directory) Close() {
	v.signers.Close()
	v.hostSigners.Close()
}

// now is the time in the precision in which it is stored and signed.
func (v *Directory) now() time.Time { return v.Now().UTC().Truncate(time.Microsecond) }

// updater changes the store with optimistic concurrency.
func (v *Directory) updater() store.Updater {
	return store.Updater{Store: v.Store, Rand: v.Rand, Wait: v.Wait}
}
