// Package billing is the money of a host: accounts, their keys, links and payments, the
// ledger of calls that have a price, and the sweeper of its reminders.
//
// The invariants: money is integers of micro-dollars. A balance changes only in the commit of
// the row that says why: a row of the account (credit, line, adjustment, clawback), or a row of
// a call. A balance never falls below 0. Nothing is charged or refunded twice, because one
// conditional write of a position decides.
//
// # The life of a priced call
//
//  1. Quote finds the account: by the key of the request, or by the link of the caller's
//     id. Without one the call is one of the day's free calls.
//  2. Debit adds to the commit of the request row: the hold, from one shard of the balance,
//     and a reminder. Where the shard is short, Explain plans it over several.
//  3. Settle adds to the answer's commit what a price by tokens gives back.
//  4. Refund adds the hold to the commit of a void.
//  5. Sweep follows the reminders: it voids overdue calls, and deletes the reminders of decided calls.
//
// # Walks
//
// A vacant may call others to answer a call, and pays for such a call as any caller does: by the link
// of its id, or with the free calls of the day. The first request and all calls that follow from it
// are a walk, and Quote gets the query of the first request, the root (call.Query.Root):
//
//   - A test key pays nothing in its walk, and its walk calls no priced vacants of other tenants.
//   - If the account of the root pays for a call, the call counts in the root's caps of the day, and
//     what the account pays in the walk is at most the key's bound a call and the request's
//     max_price: holds until calls are decided, then charges. A refund gives room.
//   - If another account pays, such as the account of a vacant's owner, the limits of the root do not
//     apply. That money is not the first caller's.
//   - Free calls are counted for the root's address.
//   - If the root is a turn of a task, the account of the task pays for the calls that its own agents
//     make, as long as no vacant of another tenant is between them and the root. For the calls of a
//     stranger's agent it pays only if the task has a budget, and for no agent below that agent.
//
// A walk runs in one process, which counts its sum in memory. If the process dies, the turn is void
// and does not run again, so nothing is spent beyond the limit. A turn that runs later, in another
// process, starts its walk there: its task keeps the credential of the request. Each dispatch of a
// booking is a walk of its own: after the first, the venue may spend only its own price if there is a
// limit, because the sum of earlier dispatches is not known.
//
// # Crashes
//
// A crash before 2 leaves nothing. A crash after 2 leaves the hold and its reminder, so the call
// is decided by its executor, a resend, or Sweep. A crash after 3 or 4 leaves a reminder of a
// decided call, which Sweep deletes.
package billing

import (
	"cmp"
	"context"
	"io"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/tenant/quota"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Config configures the Billing of a host. The first five are required.
type Config struct {
	Store store.Store
	Now   func() time.Time
	Rand  io.Reader // safe for concurrent use
	// MAC returns the MAC of an address under the day's key (textkeys.Keys).
	MAC func(ctx context.Context, data []byte) ([32]byte, error)
	// Self is the host's own identity, which claims name.
	Self func(ctx context.Context) (identity.ID, error)
	Wait func(ctx context.Context, d time.Duration) error
	// KeyPrefix and AGPKeyPrefix are the first words of new keys. "" means
	// DefaultKeyPrefix and DefaultAGPKeyPrefix.
	KeyPrefix, AGPKeyPrefix string
	// Quotas bound the keys and the links of an account.
	Quotas quota.Quotas
	// Tokens returns the checker of tokens of issuers (tokens.ForBilling). With nil, no token
	// counts here.
	Tokens func(TokensConfig) Tokens
	// TokensConfig configures the checker. New sets its Now and Issuers.
	TokensConfig TokensConfig
}

// Billing manages accounts, and is the call.Ledger of calls that accounts pay for. It is
// safe for concurrent use, and any number of hosts may share a store.
type Billing struct {
	Config
	tokens   Tokens                   // nil if none counts here
	links    cache[identity.ID, Link] // by caller; the zero Link of a caller without one
	accounts cache[string, Account]
	spent    spentCache
	issuers  cache[struct{}, []Issuer]
	reading  chan struct{}              // has an item while a request reads the issuers
	subjects cache[store.Key, struct{}] // documents of subjects that exist
}

var _ call.Ledger = (*Billing)(nil)

// New returns the Billing of a host.
func New(c Config) *Billing {
	b := &Billing{Config: c, reading: make(chan struct{}, 1), subjects: cache[store.Key, struct{}]{keep: time.Minute}}
	if c.Tokens != nil {
		t := c.TokensConfig
		t.Now, t.Issuers = c.Now, b.CountingIssuers
		b.tokens = c.Tokens(t)
	}
	return b
}

func (b *Billing) updater() store.Updater {
	return store.Updater{Store: b.Store, Rand: b.Rand, Wait: b.Wait}
}

// now is the time in the precision in which it is stored.
func (b *Billing) now() time.Time { return b.Now().UTC().Truncate(time.Second) }

// cacheTime is the time for which a cache keeps a value, unless it has a time of its own.
const cacheTime = time.Second

// cache keeps values that were read a short time ago.
type cache[K comparable, V any] struct {
	keep    time.Duration
	mu      sync.Mutex
	m       map[K]cachedValue[V]
	changes int // by this process
}

type cachedValue[V any] struct {
	value V
	until time.Time
}

// maxCached limits the entries of a cache.
const maxCached = 4096

// get returns the cached value, or else reads it. A value is not cached if this process has changed a
// value since the read began.
func (c *cache[K, V]) get(k K, now time.Time, read func() (V, error)) (V, error) {
	c.mu.Lock()
	e, changes := c.m[k], c.changes
	c.mu.Unlock()
	if now.Before(e.until) {
		return e.value, nil
	}
	v, err := read()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || changes != c.changes {
		return v, err
	}
	if len(c.m) >= maxCached || c.m == nil {
		c.m = map[K]cachedValue[V]{}
	}
	c.m[k] = cachedValue[V]{v, now.Add(cmp.Or(c.keep, cacheTime))}
	return v, nil
}

func (c *cache[K, V]) forget(k K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	delete(c.m, k)
}

// spentCache remembers which day counters are full, so that not every call over a limit
// costs a failed commit.
type spentCache struct {
	mu  sync.Mutex
	day string
	m   map[store.Key]int64 // its bound
}

func (c *spentCache) full(day string, add store.Add) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	bound, ok := c.m[add.Key]
	return ok && c.day == day && bound == add.Max
}

func (c *spentCache) note(day string, add store.Add) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.day != day || len(c.m) >= maxCached {
		c.day, c.m = day, map[store.Key]int64{}
	}
	c.m[add.Key] = add.Max
}
