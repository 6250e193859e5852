// Package textkeys seals the texts of requests and answers under a key of the UTC day and destroys
// the key after its retention. From then on the texts cannot be read, although their rows are never
// deleted (shared/README §6).
//
// A day has one key, even if several hosts create it concurrently. Texts are sealed only under a
// key that is durably stored. A day whose key was destroyed never gets another key.
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

// MinRetention is the minimum retention of texts after the end of their day (PROTOCOL §21).
const MinRetention = 24 * time.Hour

// maxCachedKeys limits the keys in memory. If the retention has more days, a host reads older keys
// repeatedly.
const maxCachedKeys = 64

// ErrDestroyed is returned if the key of the day was destroyed or never existed. The text cannot be
// read, but its row is not damaged.
var ErrDestroyed = errors.New("the key of that day is destroyed")

// ErrDamaged is returned if the text does not open under its key and its additional data. The error
// is of kind problem.Damaged.
var ErrDamaged error = problem.New(problem.Damaged, "a sealed text does not open")

// Sealed is a sealed text in its stored form.
type Sealed struct {
	Day uint32 // day of the key, in days since 1970-01-01 UTC
	Box []byte // nonce, ciphertext and tag (AES-256-GCM)
}

// Overhead is the difference in bytes between the size of Box and the size of its text.
const Overhead = nonceSize + 16

const nonceSize = 12

// Keys manages the keys of the days. It is safe for concurrent use. The fmt package prints only its
// type.
//
// A key in memory cannot be wiped, because the cipher does not give access to its expanded key. It
// is dropped when it expires, and is not used afterwards.
type Keys struct {
	store     store.Store
	vault     custody.Vault
	now       func() time.Time
	rand      io.Reader
	retention time.Duration // time between the end of a day and the destruction of its key

	mu          sync.RWMutex
	keys        map[uint32]*dayKey
	nextAttempt time.Time // earliest time of the next attempt by CreateNext

	loadSlot chan struct{} // semaphore of one, held while a key is read or created
}

// New returns the keys in s. v seals them. A key is destroyed when retention, but at least
// MinRetention, has passed since the end of its day. rand must be safe for concurrent use.
func New(s store.Store, v custody.Vault, now func() time.Time, rand io.Reader, retention time.Duration) *Keys {
	return &Keys{
		store: s, vault: v, now: now, rand: rand,
		retention: max(retention, MinRetention),
		keys:      make(map[uint32]*dayKey),
		loadSlot:  make(chan struct{}, 1),
	}
}

// Warm loads today's key and creates it if it does not exist. If the store cannot be reached, the
// error is store.ErrUnavailable.
func (k *Keys) Warm(ctx context.Context) error {
	_, _, err := k.todaysKey(ctx)
	return err
}

// Seal seals a text under today's key and binds it to aad, which must be passed to Open. It reads
// the store only if this process has not cached the key of the day. A nonce has 12 random bytes, so
// a host should seal at most about 2^32 texts per day.
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

// MAC returns the HMAC-SHA256 of data under a key that is derived from today's key. When today's
// key is destroyed, guessed data can no longer be checked against the MAC.
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

// Open opens a text that was sealed with the same aad. The error is ErrDestroyed if the key was
// destroyed or never existed, ErrDamaged if the text does not open, and store.ErrUnavailable if the
// key cannot be read.
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

// ClockLeapError is returned by Sweep if the newest key is older than yesterday. Either the clock
// is wrong, or the host had no calls since that day. The next call creates a key, and Sweep works
// again.
type ClockLeapError struct{ Newest, Today string } // dates in the form YYYY-MM-DD

func (e *ClockLeapError) Error() string {
	return "the clock shows " + e.Today + ", and the newest text key is of " + e.Newest + ": no key is destroyed until the next call, because the clock may be wrong"
}

// Sweep destroys the keys whose retention has passed and returns their number. Their documents
// remain as tombstones. The newest key is never destroyed. If it is older than yesterday, Sweep
// destroys no key and returns a *ClockLeapError, because the clock may be wrong. Several hosts may
// sweep concurrently, and a failed sweep can be repeated.
func (k *Keys) Sweep(ctx context.Context) (destroyed int, err error) {
	now := k.now()
	k.removeExpired(now)
	firstKept, err := dayOf(now.Add(-k.retention)) // first day whose key is not destroyed
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
		// A damaged document is skipped, so that it does not prevent the sweep of other keys.
		if key, err := KeyDocs.Parse(d); err == nil && !key.destroyed && !fn(d) {
			return nil
		}
	}
	return nil
}

// createLeadTime is how long before midnight the next day's key may be created. If the key exists
// early, calls succeed even if the store accepts no writes at midnight.
const createLeadTime = 6 * time.Hour

// minAttemptInterval is the minimum time between two attempts of CreateNext.
const minAttemptInterval = time.Minute

// CreateNext creates the key of the next day if that day starts within createLeadTime. A host calls
// it at intervals or after each call. It accesses the store at most once per minAttemptInterval.
// Once the key is in memory, it does not access the store.
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
	// The first key is the oldest, so it expires next. If no key is live, expiry stays zero.
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
		// A key expires by the clock and not by the progress of the sweeper. Otherwise a cached key
		// could be used after its document was destroyed.
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
		delete(k.keys, oldest) // no effect if the new key is the oldest
	}
	if len(k.keys) < maxCachedKeys {
		k.keys[day] = key
	}
}

// ClearCache drops all keys from memory. It must be called after a store was restored from a
// backup, which may lack some keys. A text sealed under a missing key could never be opened.
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
