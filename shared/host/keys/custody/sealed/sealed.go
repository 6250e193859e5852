// Package sealed signs by seeds that are sealed in the store: hosted vacants' seeds, and the
// host's own. A seed is opened once, kept in memory for a limited time, and wiped.
//
// The invariants: a key signs only for its own id. An expired key signs nothing
// more, and is wiped after its last signature in progress.
package sealed

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// most bounds the keys that are open at the same time; opening another closes
// the one that expires first. It bounds the damage by a memory dump on a large
// host.
const most = 1024

// Kind tells whose seed a box has. The box's context begins with it, so that a role can be
// allowed to open only seeds of one kind.
type Kind string

// The kinds.
const (
	Vacant     Kind = "vacant"
	Host       Kind = "host"    // the host's identity
	SigningKey Kind = "signkey" // signs receipts and bookings for the host
)

// Seal seals k's seed so that only a Signer of the kind and of k's id can open it.
func (kind Kind) Seal(ctx context.Context, v custody.Vault, k *identity.Key) ([]byte, error) {
	seed := k.Seed()
	defer clear(seed)
	return v.Seal(ctx, kind.bound(k.ID()), seed)
}

func (kind Kind) bound(id identity.ID) string { return string(kind) + ":" + id.String() }

// Open returns the key that was sealed for id. The caller must wipe it.
func (kind Kind) Open(ctx context.Context, v custody.Vault, id identity.ID, box []byte) (*identity.Key, error) {
	seed, err := v.Open(ctx, kind.bound(id), box)
	if err != nil {
		return nil, err
	}
	defer clear(seed)
	k, err := identity.KeyFromSeed(seed)
	if err != nil {
		return nil, problem.New(problem.Damaged, "sealed seed of %s %s: expected %d bytes, got %d", kind, id.Short(), identity.Size, len(seed))
	}
	if k.ID() != id {
		// The vault authenticates the box, not its content: with another's
		// seed, signatures would be another's.
		k.Wipe()
		return nil, problem.New(problem.Damaged, "sealed seed of %s %s belongs to another id", kind, id.Short())
	}
	return k, nil
}

// Signers opens sealed seeds of a kind and keeps the keys for a fixed time after opening,
// so that a vault's refusal takes effect within it. It is safe for concurrent
// use. Expired keys are wiped when any Signer is used, or by Sweep.
type Signers struct {
	vault custody.Vault
	kind  Kind
	now   func() time.Time
	ttl   time.Duration

	mu      sync.Mutex
	keys    map[identity.ID]*opened
	opening map[identity.ID]chan struct{} // closed when that opening ends
	due     time.Time                     // no key expires earlier
}

// opened is a key in memory. Signers.mu guards all but the key itself.
type opened struct {
	key   *identity.Key
	until time.Time
	users int  // signatures in progress
	gone  bool // expired while in use: the last user wipes it
}

// NewSigners returns Signers that keep an opened key for ttl.
func (kind Kind) NewSigners(v custody.Vault, now func() time.Time, ttl time.Duration) *Signers {
	return &Signers{
		vault: v, kind: kind, now: now, ttl: ttl,
		keys:    make(map[identity.ID]*opened),
		opening: make(map[identity.ID]chan struct{}),
	}
}

// Signer opens the seed that was sealed for id, unless its key is in memory,
// and returns the signer.
func (s *Signers) Signer(ctx context.Context, id identity.ID, box []byte) (identity.Signer, error) {
	k := s.Key(id, box)
	if err := k.Ready(ctx); err != nil {
		return nil, err
	}
	return k, nil
}

// Key returns the signer of the seed that was sealed for id without opening it
// before Ready or Sign: strangers can make a host look up any key. It keeps
// box, which must not be changed.
func (s *Signers) Key(id identity.ID, box []byte) *Key {
	return &Key{signers: s, id: id, box: box}
}

// Forget wipes id's key, for a seed that was destroyed.
func (s *Signers) Forget(id identity.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys[id] != nil {
		s.drop(id)
	}
}

// Sweep wipes expired keys. A host calls it at intervals, so that an idle host
// keeps no key.
func (s *Signers) Sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(s.now())
}

// Close wipes every key. Signers still work by opening seeds again.
func (s *Signers) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.keys {
		s.drop(id)
	}
}

// acquire returns id's key with one more user, and opens it if needed. Only one
// opening per id is in progress at a time, because KMS charges for each.
func (s *Signers) acquire(ctx context.Context, id identity.ID, box []byte) (*opened, error) {
	for {
		s.mu.Lock()
		s.expire(s.now())
		if o := s.keys[id]; o != nil {
			o.users++
			s.mu.Unlock()
			return o, nil
		}
		wait := s.opening[id]
		if wait == nil {
			done := make(chan struct{})
			s.opening[id] = done
			s.mu.Unlock()
			return s.open(ctx, id, box, done)
		}
		s.mu.Unlock()
		select {
		case <-wait: // opened, or failed because of its caller: look again
		case <-ctx.Done():
			return nil, problem.Wrap(problem.Unavailable, ctx.Err(), "the key of %s %s was not opened in time", s.kind, id.Short())
		}
	}
}

// open is acquire's slow path. The caller has added done to s.opening.
func (s *Signers) open(ctx context.Context, id identity.ID, box []byte, done chan struct{}) (*opened, error) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.opening, id)
		close(done)
	}()
	key, err := s.kind.Open(ctx, s.vault, id, box)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.keys) >= most {
		s.drop(s.first())
	}
	o := &opened{key: key, until: s.now().Add(s.ttl), users: 1}
	if len(s.keys) == 0 || o.until.Before(s.due) {
		s.due = o.until
	}
	s.keys[id] = o
	return o, nil
}

func (s *Signers) release(o *opened) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.users--
	if o.gone && o.users == 0 {
		o.key.Wipe()
	}
}

// expire drops expired keys. It scans only when one may be due, because it runs
// for every signature.
func (s *Signers) expire(now time.Time) {
	if len(s.keys) == 0 || now.Before(s.due) {
		return
	}
	for id, o := range s.keys {
		if !now.Before(o.until) {
			s.drop(id)
		}
	}
	if len(s.keys) > 0 {
		s.due = s.keys[s.first()].until
	}
}

// drop removes id's key, and wipes it unless a signature is in progress.
func (s *Signers) drop(id identity.ID) {
	o := s.keys[id]
	delete(s.keys, id)
	o.gone = true
	if o.users == 0 {
		o.key.Wipe()
	}
}

// first is the id whose key expires first.
func (s *Signers) first() identity.ID {
	var first identity.ID
	var at time.Time
	for id, o := range s.keys {
		if at.IsZero() || o.until.Before(at) {
			first, at = id, o.until
		}
	}
	return first
}

// Format prints only the type for every verb.
func (s *Signers) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "sealed.Signers") }

// Key is the identity.Signer of a sealed seed. It holds no key itself, so it
// stays valid when the opened key expires.
type Key struct {
	signers *Signers
	id      identity.ID
	box     []byte
}

// ID is the id signed for.
func (k *Key) ID() identity.ID { return k.id }

// Ready opens the seed, unless the key is in memory.
func (k *Key) Ready(ctx context.Context) error {
	o, err := k.signers.acquire(ctx, k.id, k.box)
	if err == nil {
		k.signers.release(o)
	}
	return err
}

// Sign signs msg.
func (k *Key) Sign(ctx context.Context, msg []byte) ([]byte, error) {
	o, err := k.signers.acquire(ctx, k.id, k.box)
	if err != nil {
		return nil, err
	}
	defer k.signers.release(o)
	return o.key.Sign(ctx, msg)
}

// Format prints the id's short form for every verb.
func (k *Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "sealed key of "+k.id.Short()) }
