// Package textkeys seals texts of requests and answers under the host's key of
// the UTC day, and destroys the key after its retention: then nobody can read
// the texts, although their rows are never deleted (shared/README §6).
//
// The invariants: a day has one key even if several hosts create it
// concurrently. No text is sealed under a key that is not durable. A day whose
// key was destroyed never gets another.
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

// MinRetention is the minimum retention of texts, from the end of their day
// (PROTOCOL §21).
const MinRetention = 24 * time.Hour

// mostCached bounds the keys in memory. A host with a longer retention in days
// reads older keys repeatedly.
const mostCached = 64

// ErrGone: the key of that day was destroyed, or never existed. The text is
// unreadable; its row is not damaged.
var ErrGone = errors.New("the key of that day is destroyed")

// ErrDamaged: the text does not open under its key and bound bytes. It is of
// kind problem.Damaged.
var ErrDamaged error = problem.New(problem.Damaged, "a sealed text does not open")

// Sealed is a sealed text as stored in a row.
type Sealed struct {
	Day uint32 // of the key: days since 1970-01-01 UTC
	Box []byte // nonce, ciphertext and tag of AES-256-GCM
}

// Overhead is the size of Box less the size of the text, in bytes.
const Overhead = nonceSize + 16

const nonceSize = 12

// Keys manages the keys of the days. It is safe for concurrent use.
//
// A key in memory cannot be wiped, because the cipher does not expose its
// expansion. It is dropped when it expires and not used from then on.
type Keys struct {
	store     store.Store
	vault     custody.Vault
	now       func() time.Time
	rand      io.Reader
	retention time.Duration

	mu        sync.RWMutex
	keys      map[uint32]*dayKey
	nextAhead time.Time // when Ahead may try again

	turn chan struct{} // holds a token unless a key is being read or created
}

// New returns the keys in s, sealed by v. They are destroyed when retention, at
// least MinRetention, has passed since the end of their day. rand must be safe
// for concurrent use: crypto/rand.Reader outside tests.
func New(s store.Store, v custody.Vault, now func() time.Time, rand io.Reader, retention time.Duration) *Keys {
	return &Keys{
		store: s, vault: v, now: now, rand: rand,
		retention: max(retention, MinRetention),
		keys:      make(map[uint32]*dayKey),
		turn:      make(chan struct{}, 1),
	}
}

// Warm loads today's key, and creates it if there is none. Afterwards Warm is
// almost free. If the store is unreachable the error is store.ErrUnavailable.
func (k *Keys) Warm(ctx context.Context) error {
	_, _, err := k.today(ctx)
	return err
}

// Seal seals plain under today's key, bound to aad: it opens with the same aad
// only. It needs the store only when the day is new to this process.
//
// A nonce is 12 random bytes, so a host may seal some 2^32 texts a day.
func (k *Keys) Seal(ctx context.Context, aad, plain []byte) (Sealed, error) {
	day, aead, err := k.today(ctx)
	if err != nil {
		return Sealed{}, err
	}
	box := make([]byte, nonceSize, len(plain)+Overhead)
	if _, err := io.ReadFull(k.rand, box); err != nil {
		return Sealed{}, problem.Wrap(problem.Unavailable, err, "no randomness to seal a text")
	}
	return Sealed{Day: day, Box: aead.Seal(box, box, plain, aad)}, nil
}

// MAC returns the HMAC-SHA256 of data under today's key. Once that key is destroyed,
// nobody can check the MAC against guessed data.
func (k *Keys) MAC(ctx context.Context, data []byte) (sum [sha256.Size]byte, err error) {
	_, key, err := k.today(ctx)
	if err != nil {
		return sum, err
	}
	mac := hmac.New(sha256.New, key.mac)
	mac.Write(data)
	mac.Sum(sum[:0])
	return sum, nil
}

// Open opens a text that was sealed with the same aad. The error is ErrGone if
// the key of its day was destroyed, ErrDamaged if the text does not open,
// store.ErrUnavailable if the key cannot be read.
func (k *Keys) Open(ctx context.Context, aad []byte, s Sealed) ([]byte, error) {
	if s.Day > lastDay || len(s.Box) < Overhead {
		return nil, ErrDamaged
	}
	aead, err := k.key(ctx, s.Day, k.now(), false)
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, s.Box[:nonceSize], s.Box[nonceSize:], aad)
	if err != nil {
		return nil, ErrDamaged
	}
	return plain, nil
}

// LeapError is the refusal of a Sweep by a clock that is more than a day after the
// newest key: either the clock is wrong, or the host had no call since. The next
// call makes a key, and then a Sweep goes on.
type LeapError struct{ Newest, Today string } // days

func (e *LeapError) Error() string {
	return "the clock shows " + e.Today + ", and the newest text key is of " + e.Newest + ": no key is destroyed before a call is taken, because the clock may be wrong"
}

// Sweep destroys the keys whose retention has passed and returns their number.
// Their documents stay as tombstones. The newest key is never destroyed: by a clock
// that is ahead the error is a *LeapError. Several hosts may sweep at once; a failed
// sweep can be repeated.
func (k *Keys) Sweep(ctx context.Context) (destroyed int, err error) {
	at := k.now()
	k.forget(at)
	first, err := dayOf(at.Add(-k.retention)) // the first day that is kept
	if err != nil {
		return 0, err
	}
	today, err := dayOf(at)
	if err != nil {
		return 0, err
	}
	var expired []store.Doc
	newest := ""
	if err := k.eachLive(ctx, func(d store.Doc) bool {
		if newest = d.Key.Sort; newest < sortOf(first) {
			expired = append(expired, d)
		}
		return true
	}); err != nil {
		return 0, err
	}
	if newest != "" && today > 0 && newest < sortOf(today-1) {
		return 0, &LeapError{Newest: newest, Today: sortOf(today)}
	}
	for _, d := range expired {
		done, err := k.bury(ctx, d)
		if err != nil {
			return destroyed, err
		}
		if done {
			destroyed++
		}
	}
	return destroyed, nil
}

// eachLive calls fn for the documents of keys that are not destroyed, by day, until
// it returns false.
func (k *Keys) eachLive(ctx context.Context, fn func(store.Doc) bool) error {
	for d, err := range store.All(ctx, k.store, KeyDocs.All()) {
		if err != nil {
			return fmt.Errorf("text keys: %w", err)
		}
		// A damaged one stops neither the sweep of the others nor what asks for their end.
		if one, err := KeyDocs.Parse(d); err == nil && !one.destroyed && !fn(d) {
			return nil
		}
	}
	return nil
}

// aheadTime is the time before midnight at which the next day's key is made. A store
// that takes no writes at midnight then stops no call.
const aheadTime = 6 * time.Hour

// aheadRetry is the least time between two tries to make the next day's key.
const aheadRetry = time.Minute

// Ahead makes the key of the next day, if that begins within aheadTime. A host calls
// it from time to time, or after each call: it is almost free once the key is in
// memory, and within aheadRetry of the last try.
func (k *Keys) Ahead(ctx context.Context) error {
	at := k.now()
	day, err := dayOf(at)
	if err != nil || startOf(day+1).Sub(at) > aheadTime || !k.mayTry(day+1, at) {
		return err
	}
	_, err = k.key(ctx, day+1, at, true)
	return err
}

// mayTry reports whether Ahead should load the key of day at a time.
func (k *Keys) mayTry(day uint32, at time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys[day] != nil || at.Before(k.nextAhead) {
		return false
	}
	k.nextAhead = at.Add(aheadRetry)
	return true
}

// NextEnd returns when the oldest key that is left will be destroyed; zero if there
// is none.
func (k *Keys) NextEnd(ctx context.Context) (end time.Time, err error) {
	err = k.eachLive(ctx, func(d store.Doc) bool {
		day, err := time.Parse(time.DateOnly, d.Key.Sort)
		if err == nil {
			end = day.AddDate(0, 0, 1).Add(k.retention)
		}
		return err != nil
	})
	return end, err
}

// today returns the day and its key.
func (k *Keys) today(ctx context.Context) (uint32, *dayKey, error) {
	at := k.now()
	day, err := dayOf(at)
	if err != nil {
		return 0, nil, err
	}
	aead, err := k.key(ctx, day, at, true)
	if errors.Is(err, ErrGone) {
		// To make another would bring back a day whose texts are promised gone.
		return 0, nil, problem.Wrap(problem.Unavailable, err, "the text key of today, %s, is destroyed: a clock is wrong, here or on another host", sortOf(day))
	}
	return day, aead, err
}

// key returns the key of a day at a time, from memory or from its document,
// which it may create if there is none.
func (k *Keys) key(ctx context.Context, day uint32, at time.Time, mayCreate bool) (*dayKey, error) {
	if k.expired(day, at) {
		// By the clock, not by what the sweeper got to: a key in memory would
		// otherwise outlive the document.
		k.forget(at)
		return nil, ErrGone
	}
	if aead := k.cached(day); aead != nil {
		return aead, nil
	}
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return nil, store.NotApplied(ctx.Err())
	}
	if aead := k.cached(day); aead != nil {
		return aead, nil
	}
	aead, err := k.load(ctx, day)
	if mayCreate && errors.Is(err, errAbsent) {
		aead, err = k.create(ctx, day)
	}
	if err != nil {
		return nil, err
	}
	k.remember(day, aead)
	return aead, nil
}

func (k *Keys) cached(day uint32) *dayKey {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.keys[day]
}

func (k *Keys) remember(day uint32, aead *dayKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.keys) >= mostCached {
		oldest := day
		for d := range k.keys {
			oldest = min(oldest, d)
		}
		delete(k.keys, oldest) // nothing, if the new one is the oldest
	}
	if len(k.keys) < mostCached {
		k.keys[day] = aead
	}
}

// Forget drops all keys from memory. A store that came back from a backup may lack some of
// them, and a text sealed under a missing key could never be opened.
func (k *Keys) Forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.keys)
}

// forget drops the keys whose time is over.
func (k *Keys) forget(at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for day := range k.keys {
		if k.expired(day, at) {
			delete(k.keys, day)
		}
	}
}

// expired reports whether at is the retention after the end of day, or later.
func (k *Keys) expired(day uint32, at time.Time) bool {
	return !at.Before(startOf(day + 1).Add(k.retention))
}

// Format shows only what k is, whatever the verb.
func (k *Keys) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "texts.Keys") }
