// Package vacants manages the vacants of this host: their records, names, sealed keys, logbooks,
// states and publications, and the host's own identity. A Directory changes vacants, and Records
// reads their records without keys.
//
// Every change of a vacant is one commit of its record, a signed logbook entry and its
// registration, so a half-changed vacant cannot be observed. A seed (a private key) never appears
// in an error or a log line, and records contain only sealed seeds.
//
// A lookup requires an Asker, the party that may or may not know the vacant. The exceptions are
// FindCached, FindCachedByName and Lookup, for calls and for handlers that conceal hidden vacants.
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
	Registry *registry.Registry
	// Vault opens the vacants' keys. It is nil in a process that must not open keys.
	Vault custody.Vault
	// If Resources is nil, no vacant can be created.
	Resources      *resources.Resources
	FeeBasisPoints int64
	Quotas         quota.Quotas
	Rand           io.Reader // safe for concurrent use
	// Identity returns the host's own identity if a key service stores it. It is called for each
	// use and must have its own cache. If it is nil, the host's key is stored sealed.
	Identity func(context.Context) (identity.Signer, error)
	Wait     func(ctx context.Context, d time.Duration) error
	// KeyTTL is the time for which an opened key stays in memory, even if another process has
	// deleted the vacant.
	KeyTTL time.Duration
}

const defaultKeyTTL = 10 * time.Minute

// Directory manages the vacants of one host. It is safe for concurrent use, and several hosts may
// share a store.
type Directory struct {
	Config
	signers        *sealed.Signers
	hostSigners    *sealed.Signers
	agents         *agentCache
	logbookLocks   keyedMutex
	cachedIdentity atomic.Pointer[hostIdentity]
}

func New(c Config) *Directory {
	if c.Wait == nil {
		c.Wait = retry.Sleep
	}
	if c.Resources == nil {
		c.Resources = &resources.Resources{}
	}
	c.KeyTTL = cmp.Or(c.KeyTTL, defaultKeyTTL)
	agents, err := lru.New[store.Key, definition.Agent](maxCachedAgents)
	if err != nil {
		panic(err)
	}
	return &Directory{Config: c, agents: agents, signers: sealed.Vacant.NewSigners(c.Vault, c.Now, c.KeyTTL), hostSigners: sealed.Host.NewSigners(c.Vault, c.Now, c.KeyTTL)}
}

func (v *Directory) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "vacants.Directory") }

func (v *Directory) Sweep() {
	v.signers.Sweep()
	v.hostSigners.Sweep()
}

func (v *Directory) Close() {
	v.signers.Close()
	v.hostSigners.Close()
}

func (v *Directory) now() time.Time { return v.Now().UTC().Truncate(time.Microsecond) }

func (v *Directory) updater() store.Updater {
	return store.Updater{Store: v.Store, Rand: v.Rand, Wait: v.Wait}
}
