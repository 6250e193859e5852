// Package textkeys seals the texts of requests and answers under a key of the UTC day and destroys
// the key after its retention. From then on the texts cannot be read, although their rows are never
// deleted (shared/README §6). A day whose key was destroyed never gets another key.
package textkeys

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// MinRetention is counted from the end of a key's day (PROTOCOL §21).
const MinRetention = 24 * time.Hour

const maxCachedKeys = 64

// ErrDestroyed means that the key was destroyed or never existed. The row is not damaged.
var ErrDestroyed = errors.New("the key of that day is destroyed")

var ErrDamaged error = problem.New(problem.Damaged, "a sealed text does not open")

type Sealed struct {
	Day uint32 // days since 1970-01-01 UTC
	Box []byte // nonce, ciphertext and tag (AES-256-GCM)
}

const Overhead = nonceSize + 16

const nonceSize = 12

// Keys manages the keys of the days. It is safe for concurrent use. A key cannot be wiped from
// memory, because the cipher does not give access to its expanded key.
type Keys struct {
	store     store.Store
	vault     custody.Vault
	now       func() time.Time
	rand      io.Reader
	retention time.Duration

	mu          sync.RWMutex
	keys        map[uint32]*dayKey
	nextAttempt time.Time

	loadSlot chan struct{}
}

// New returns the keys in s. rand must be safe for concurrent use.
func New(s store.Store, v custody.Vault, now func() time.Time, rand io.Reader, retention time.Duration) *Keys {
	return &Keys{
		store: s, vault: v, now: now, rand: rand,
		retention: max(retention, MinRetention),
		keys:      make(map[uint32]*dayKey),
		loadSlot:  make(chan struct{}, 1),
	}
}

func (k *Keys) Warm(ctx context.Context) error {
	_, _, err := k.todaysKey(ctx)
	return err
}

// Seal binds the text to aad. Nonces are random, so a host should seal at most about 2^32 texts per
// day.
func (k *Keys) Seal(ctx context.Context, aad, text []byte) (Sealed, error) {
	day, key, err := k.todaysKey(ctx)
	if err != nil {
		return Sealed{}, err
	}
	box := make([]byte, nonceSize, len(text)+Overhead)
	if _, err := io.ReadFull(k.rand, box); err != nil {
		return Sealed{}, problem.Wrap(problem.Unavailable, err, "no randomness to seal a text")
	}
	return Sealed{Day: day, Box: key.Seal(box, box, text, aad)}, nil
}

// MAC returns the HMAC-SHA256 of data under a key that is destroyed with today's key. From then on,
// guessed data cannot be checked against the MAC.
func (k *Keys) MAC(ctx context.Context, data []byte) (sum [sha256.Size]byte, err error) {
	_, key, err := k.todaysKey(ctx)
	if err != nil {
		return sum, err
	}
	mac := hmac.New(sha256.New, key.mac)
	mac.Write(data)
	mac.Sum(sum[:0])
	return sum, nil
}

// Open opens a text that was sealed with the same aad. The error is ErrDestroyed, ErrDamaged or
// store.ErrUnavailable.
func (k *Keys) Open(ctx context.Context, aad []byte, sealed Sealed) ([]byte, error) {
	if sealed.Day > lastDay || len(sealed.Box) < Overhead {
		return nil, ErrDamaged
	}
	key, err := k.keyOfDay(ctx, sealed.Day, k.now(), false)
	if err != nil {
		return nil, err
	}
	text, err := key.Open(nil, sealed.Box[:nonceSize], sealed.Box[nonceSize:], aad)
	if err != nil {
		return nil, ErrDamaged
	}
	return text, nil
}

// ClockLeapError means that the newest key is older than yesterday, so the clock may be wrong.
type ClockLeapError struct{ Newest, Today string } // YYYY-MM-DD

func (e *ClockLeapError) Error() string {
	return "the clock shows " + e.Today + ", and the newest text key is of " + e.Newest + ": no key is destroyed until the next call, because the clock may be wrong"
}

// Sweep destroys the keys whose retention has passed. If the clock may be wrong, Sweep destroys no
// key and returns a *ClockLeapError.
func (k *Keys) Sweep(ctx context.Context) (destroyed int, err error) {
	now := k.now()
	k.removeExpired(now)
	firstKept, err := dayOf(now.Add(-k.retention))
	if err != nil {
		return 0, err
	}
	today, err := dayOf(now)
	if err != nil {
		return 0, err
	}
	var expired []store.Doc
	newest := ""
	if err := k.eachLiveKey(ctx, func(d store.Doc) bool {
		if newest = d.Key.Sort; newest < formatDay(firstKept) {
			expired = append(expired, d)
		}
		return true
	}); err != nil {
		return 0, err
	}
	if newest != "" && today > 0 && newest < formatDay(today-1) {
		return 0, &ClockLeapError{Newest: newest, Today: formatDay(today)}
	}
	for _, d := range expired {
		isDestroyed, err := k.destroyKey(ctx, d)
		if err != nil {
			return destroyed, err
		}
		if isDestroyed {
			destroyed++
		}
	}
	return destroyed, nil
}

func (k *Keys) eachLiveKey(ctx context.Context, fn func(store.Doc) bool) error {
	for d, err := range store.Documents(ctx, k.store, KeyDocs.Range()) {
		if err != nil {
			return fmt.Errorf("text keys: %w", err)
		}
		// A damaged document must not prevent the sweep of other keys.
		if key, err := KeyDocs.Parse(d); err == nil && !key.destroyed && !fn(d) {
			return nil
		}
	}
	return nil
}

// createLeadTime lets calls succeed even if the store accepts no writes at midnight.
const createLeadTime = 6 * time.Hour

const minAttemptInterval = time.Minute

// CreateNext creates the key of the next day if that day starts within createLeadTime.
func (k *Keys) CreateNext(ctx context.Context) error {
	now := k.now()
	day, err := dayOf(now)
	if err != nil || startOfDay(day+1).Sub(now) > createLeadTime || !k.beginAttempt(day+1, now) {
		return err
	}
	_, err = k.keyOfDay(ctx, day+1, now, true)
	return err
}

func (k *Keys) beginAttempt(day uint32, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys[day] != nil || now.Before(k.nextAttempt) {
		return false
	}
	k.nextAttempt = now.Add(minAttemptInterval)
	return true
}

func (k *Keys) NextExpiry(ctx context.Context) (expiry time.Time, err error) {
	err = k.eachLiveKey(ctx, func(d store.Doc) bool {
		day, err := time.Parse(time.DateOnly, d.Key.Sort)
		if err == nil {
			expiry = day.AddDate(0, 0, 1).Add(k.retention)
		}
		return err != nil
	})
	return expiry, err
}

func (k *Keys) todaysKey(ctx context.Context) (uint32, *dayKey, error) {
	now := k.now()
	day, err := dayOf(now)
	if err != nil {
		return 0, nil, err
	}
	key, err := k.keyOfDay(ctx, day, now, true)
	if errors.Is(err, ErrDestroyed) {
		// Another key would revive a day whose texts were promised to be unreadable.
		return 0, nil, problem.Wrap(problem.Unavailable, err, "today's text key, %s, was destroyed: the clock of this host or of another host is wrong", formatDay(day))
	}
	return day, key, err
}

func (k *Keys) keyOfDay(ctx context.Context, day uint32, now time.Time, mayCreate bool) (*dayKey, error) {
	if k.isExpired(day, now) {
		// The cache may still contain a key that another process has destroyed.
		k.removeExpired(now)
		return nil, ErrDestroyed
	}
	if key := k.cachedKey(day); key != nil {
		return key, nil
	}
	select {
	case k.loadSlot <- struct{}{}:
		defer func() { <-k.loadSlot }()
	case <-ctx.Done():
		return nil, store.NotAppliedError(ctx.Err())
	}
	if key := k.cachedKey(day); key != nil {
		return key, nil
	}
	key, err := k.loadKey(ctx, day)
	if mayCreate && errors.Is(err, errAbsent) {
		key, err = k.createKey(ctx, day)
	}
	if err != nil {
		return nil, err
	}
	k.addToCache(day, key)
	return key, nil
}

func (k *Keys) cachedKey(day uint32) *dayKey {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.keys[day]
}

func (k *Keys) addToCache(day uint32, key *dayKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.keys) >= maxCachedKeys {
		oldest := day
		for d := range k.keys {
			oldest = min(oldest, d)
		}
		delete(k.keys, oldest)
	}
	if len(k.keys) < maxCachedKeys {
		k.keys[day] = key
	}
}

// ClearCache must be called after the store was restored from a backup. The backup may lack a
// cached key, and a text that is sealed under a missing key could never be opened.
func (k *Keys) ClearCache() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.keys)
}

func (k *Keys) removeExpired(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for day := range k.keys {
		if k.isExpired(day, now) {
			delete(k.keys, day)
		}
	}
}

func (k *Keys) isExpired(day uint32, now time.Time) bool {
	return !now.Before(startOfDay(day + 1).Add(k.retention))
}

func (k *Keys) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "texts.Keys") }
