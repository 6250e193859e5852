// Package billing manages the money of a host: accounts with their keys, links and payments, and
// the ledger of priced calls. Amounts are integers in micro-dollars. A balance changes only in the
// commit of a row that gives the reason, and never becomes negative. No amount is charged or
// refunded twice, because each change depends on a conditional write of a position.
//
// Quote finds the account of a call by the key of the request or by the link of the caller's id.
// Debit holds the maximum price. Settle releases the unused part of the hold with the answer, and
// Refund releases the hold with a void. If the process dies after the debit, a resend or Sweep
// decides the call.
//
// A walk is a first request, its root, with all calls that vacants make to answer it. A vacant pays
// for its calls like every caller. If the root's account pays, the limits of the root apply to the
// complete walk. A test key pays for no calls. The process of the walk counts the payments in
// memory. If it dies, the turn is voided and not repeated, so the limit cannot be exceeded.
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

type Config struct {
	Store store.Store
	Now   func() time.Time
	Rand  io.Reader // safe for concurrent use
	// MAC returns the MAC of an address with the key of the day.
	MAC func(ctx context.Context, data []byte) ([32]byte, error)
	// Self returns the host's own identity, which claims must contain.
	Self                    func(ctx context.Context) (identity.ID, error)
	Wait                    func(ctx context.Context, d time.Duration) error
	KeyPrefix, AGPKeyPrefix string
	Quotas                  quota.Quotas
	// If NewTokenChecker is nil, the host rejects all tokens of issuers.
	NewTokenChecker func(TokenCheckerConfig) TokenChecker
	TokensConfig    TokenCheckerConfig
}

// Billing manages accounts and implements call.Ledger. It is safe for concurrent use, and several
// hosts may share a store.
type Billing struct {
	Config
	tokenChecker   TokenChecker
	linkCache      cache[identity.ID, Link]
	accountCache   cache[string, Account]
	fullCounters   fullCounterCache
	issuerCache    cache[struct{}, []Issuer]
	issuerReadLock chan struct{} // semaphore: one request at a time reads the issuers
	storedSubjects cache[store.Key, struct{}]
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

const defaultCacheTime = time.Second

type cache[K comparable, V any] struct {
	lifetime time.Duration // zero means defaultCacheTime
	mu       sync.Mutex
	m        map[K]cachedValue[V]
	changes  int // number of changes by this process
}

type cachedValue[V any] struct {
	value   V
	expires time.Time
}

const maxCacheEntries = 4096

// getOrRead does not cache a value if this process has changed any value since the read started.
func (c *cache[K, V]) getOrRead(k K, now time.Time, read func() (V, error)) (V, error) {
	c.mu.Lock()
	cached, changes := c.m[k], c.changes
	c.mu.Unlock()
	if now.Before(cached.expires) {
		return cached.value, nil
	}
	v, err := read()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || changes != c.changes {
		return v, err
	}
	if len(c.m) >= maxCacheEntries || c.m == nil {
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

// fullCounterCache records full counters, so that a call over a limit needs no failed commit.
type fullCounterCache struct {
	mu  sync.Mutex
	day string
	m   map[store.Key]int64
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
	if c.day != day || len(c.m) >= maxCacheEntries {
		c.day, c.m = day, map[store.Key]int64{}
	}
	c.m[add.Key] = add.Max
}
