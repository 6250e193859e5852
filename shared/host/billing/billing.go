// Package billing manages the money of a host: accounts with their keys, links and payments, the
// ledger of priced calls, and the sweep of their reminders.
//
// Amounts are integers in micro-dollars. A balance changes only in the commit of a row that gives
// the reason. The row belongs to the account (credit, line, adjustment, clawback), a call or a
// booking. A balance never becomes negative. No amount is charged or refunded twice, because each
// change depends on a conditional write of a position.
//
// # The life of a priced call
//
//  1. Quote finds the account by the key of the request or by the link of the caller's id. A call
//     without an account is one of the day's free calls.
//  2. Debit adds two writes to the commit of the request row: the hold, which takes the maximum
//     price from one shard of the balance, and a reminder. If the shard is too small, Replan plans
//     the hold over several shards.
//  3. If the price depends on tokens, Settle adds the release of the unused hold to the commit of
//     the answer.
//  4. Refund adds the release of the hold to the commit of a void.
//  5. Sweep handles the reminders. It voids overdue calls and deletes the reminders of decided
//     calls.
//
// # Walks
//
// To answer a call, a vacant may call other vacants. It pays for such a call like every caller:
// with the link of its id, or with the free calls of the day. The first request and all calls that
// follow from it are a walk. The first request is the root of the walk. Quote gets the root
// together with each later call (call.QuoteRequest.Root):
//
//   - A test key pays for no calls in its walk, and calls to priced vacants of other tenants are
//     refused.
//   - If the account of the root pays for a call, the call counts toward the root's daily caps. The
//     amount that the account pays in the walk is limited by the key's limit per call and the
//     request's max_price. An undecided call counts with its hold, a decided call with its charge.
//   - If another account pays, for example the account of a vacant's owner, the limits of the root
//     do not apply, because the money is not the first caller's.
//   - Free calls are counted for the root's address.
//   - If the root is a turn of a task, the account of the task pays for the calls of its own
//     agents, as long as no vacant of another tenant is between them and the root. It pays for the
//     calls of another tenant's agent only if the task has a budget. It does not pay for agents
//     below that agent.
//
// A walk runs in one process, which counts the amount in memory. If the process dies, the turn is
// voided and not repeated, so the limit cannot be exceeded. A turn that runs later in another
// process starts a walk in that process with the credential that its task stores. Each dispatch of
// a booking is a separate walk. If the cost of the booking is limited, the venue may spend only its
// own price from the second dispatch on, because the cost of earlier dispatches is not known.
//
// # Crashes
//
// A crash before step 2 leaves no data. A crash after step 2 leaves the hold and its reminder, so
// the call's executor, a resend or Sweep decides the call. A crash after step 3 or 4 leaves a
// reminder of a decided call, which Sweep deletes.
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

// Config configures the Billing of a host. The first five fields are required.
type Config struct {
	Store store.Store
	Now   func() time.Time
	Rand  io.Reader // safe for concurrent use
	// MAC returns the MAC of an address with the key of the day (textkeys.Keys).
	MAC func(ctx context.Context, data []byte) ([32]byte, error)
	// Self returns the host's own identity, which each claim must contain. A claim is a statement
	// by which a caller links or unlinks itself.
	Self func(ctx context.Context) (identity.ID, error)
	Wait func(ctx context.Context, d time.Duration) error
	// KeyPrefix and AGPKeyPrefix are the first words of new keys. The defaults are DefaultKeyPrefix
	// and DefaultAGPKeyPrefix.
	KeyPrefix, AGPKeyPrefix string
	// Quotas limits the keys and the links of an account.
	Quotas quota.Quotas
	// NewTokenChecker returns the checker of issuers' tokens (tokens.NewForBilling). If it is nil, the
	// host rejects all tokens.
	NewTokenChecker func(TokenCheckerConfig) TokenChecker
	// TokensConfig configures the checker. New sets Now and Issuers.
	TokensConfig TokenCheckerConfig
}

// Billing manages accounts and is the call.Ledger of calls that accounts pay for. It is safe for
// concurrent use, and several hosts may share a store.
type Billing struct {
	Config
	tokenChecker TokenChecker // nil if the host rejects all tokens
	// linkCache contains links by caller, and the zero Link for callers without a link.
	linkCache      cache[identity.ID, Link]
	accountCache   cache[string, Account]
	fullCounters   fullCounterCache
	issuerCache    cache[struct{}, []Issuer]
	issuerReadLock chan struct{}              // semaphore: one request at a time reads the issuers
	storedSubjects cache[store.Key, struct{}] // documents of subjects that exist
}

var _ call.Ledger = (*Billing)(nil)

func New(c Config) *Billing {
	b := &Billing{Config: c, issuerReadLock: make(chan struct{}, 1), storedSubjects: cache[store.Key, struct{}]{lifetime: time.Minute}}
	if c.NewTokenChecker != nil {
		t := c.TokensConfig
		t.Now, t.Issuers = c.Now, b.RecentIssuers
		b.tokenChecker = c.NewTokenChecker(t)
	}
	return b
}

func (b *Billing) updater() store.Updater {
	return store.Updater{Store: b.Store, Rand: b.Rand, Wait: b.Wait}
}

func (b *Billing) currentSecond() time.Time { return b.Now().UTC().Truncate(time.Second) }

// defaultCacheTime is the default time for which a cache stores a value.
const defaultCacheTime = time.Second

// cache stores values that were read recently.
type cache[K comparable, V any] struct {
	lifetime time.Duration // time for which a value is stored; zero means defaultCacheTime
	mu       sync.Mutex
	m        map[K]cachedValue[V]
	changes  int // number of changes by this process
}

type cachedValue[V any] struct {
	value   V
	expires time.Time
}

// maxCached limits the entries of a cache.
const maxCached = 4096

// getOrRead returns the cached value or reads it. It does not cache a value if this process has
// changed any value since the read started.
func (c *cache[K, V]) getOrRead(k K, now time.Time, read func() (V, error)) (V, error) {
	c.mu.Lock()
	e, changes := c.m[k], c.changes
	c.mu.Unlock()
	if now.Before(e.expires) {
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
	c.m[k] = cachedValue[V]{v, now.Add(cmp.Or(c.lifetime, defaultCacheTime))}
	return v, nil
}

func (c *cache[K, V]) invalidate(k K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	delete(c.m, k)
}

// fullCounterCache records which daily counters are full, so that a call over a limit does not need
// a failed commit.
type fullCounterCache struct {
	mu  sync.Mutex
	day string
	m   map[store.Key]int64 // limits of the full counters
}

func (c *fullCounterCache) isFull(day string, add store.Add) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	limit, ok := c.m[add.Key]
	return ok && c.day == day && limit == add.Max
}

func (c *fullCounterCache) recordFull(day string, add store.Add) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.day != day || len(c.m) >= maxCached {
		c.day, c.m = day, map[store.Key]int64{}
	}
	c.m[add.Key] = add.Max
}
