// Package sealed signs with seeds that are sealed in the store: the seeds of hosted vacants and of
// the host itself. A seed is opened once, kept in memory for a limited time, and then wiped.
//
// A key signs only for its own id. An expired key makes no new signatures, and it is wiped when its
// last signature is complete.
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

// maxOpenKeys limits the open keys. When another key is opened, the key that expires first is
// dropped. The limit reduces the damage by a memory dump on a large host.
const maxOpenKeys = 1024

// Kind is the kind of a seed's owner. The context of a box starts with the kind, so that a role can
// be restricted to seeds of one kind.
type Kind string

const (
	Vacant     Kind = "vacant"
	Host       Kind = "host"    // identity of the host
	SigningKey Kind = "signkey" // key that signs receipts and bookings for the host
)

// Seal seals the seed of a key. Only Signers of the same kind can open the box, and only for the
// key's id.
func (kind Kind) Seal(ctx context.Context, v custody.Vault, key *identity.Key) ([]byte, error) {
	seed := key.Seed()
	defer clear(seed)
	return v.Seal(ctx, kind.vaultContext(key.ID()), seed)
}

func (kind Kind) vaultContext(id identity.ID) string { return string(kind) + ":" + id.String() }

// Open returns the key that was sealed for id. The caller must wipe it.
func (kind Kind) Open(ctx context.Context, v custody.Vault, id identity.ID, box []byte) (*identity.Key, error) {
	seed, err := v.Open(ctx, kind.vaultContext(id), box)
	if err != nil {
		return nil, err
	}
	defer clear(seed)
	key, err := identity.KeyFromSeed(seed)
	if err != nil {
		return nil, problem.New(problem.Damaged, "sealed seed of %s %s: expected %d bytes, got %d", kind, id.Short(), identity.Size, len(seed))
	}
	if key.ID() != id {
		// The vault authenticates the box but not its content. A key with another seed would sign
		// for another id.
		key.Wipe()
		return nil, problem.New(problem.Damaged, "sealed seed of %s %s belongs to another id", kind, id.Short())
	}
	return key, nil
}

// Signers opens sealed seeds of one kind. It keeps each key for a fixed time after the opening, so
// that a refusal by the vault takes effect within this time. Expired keys are wiped when Signers is
// used, or by Sweep. It is safe for concurrent use.
type Signers struct {
	vault custody.Vault
	kind  Kind
	now   func() time.Time
	ttl   time.Duration // time for which an opened key remains in memory

	mu         sync.Mutex
	keys       map[identity.ID]*openedKey
	openings   map[identity.ID]chan struct{} // each channel is closed when the opening of its key has ended
	nextExpiry time.Time                     // no key expires before this time
}

// openedKey is a key in memory. Signers.mu guards all fields except the key.
type openedKey struct {
	key     *identity.Key
	expires time.Time
	users   int  // signatures in progress
	dropped bool // whether the key was dropped while in use; the last user wipes it
}

func (kind Kind) NewSigners(v custody.Vault, now func() time.Time, ttl time.Duration) *Signers {
	return &Signers{
		vault: v, kind: kind, now: now, ttl: ttl,
		keys:     make(map[identity.ID]*openedKey),
		openings: make(map[identity.ID]chan struct{}),
	}
}

func (s *Signers) Signer(ctx context.Context, id identity.ID, box []byte) (identity.Signer, error) {
	k := s.Key(id, box)
	if err := k.Ready(ctx); err != nil {
		return nil, err
	}
	return k, nil
}

// Key returns a signer for id without opening the seed, which Ready or Sign opens later. Strangers
// can make a host look up any key, so a lookup must not use the vault. The signer retains box,
// which must not be changed.
func (s *Signers) Key(id identity.ID, box []byte) *Key {
	return &Key{signers: s, id: id, box: box}
}

// Forget wipes the key of id. It must be called when the seed was destroyed.
func (s *Signers) Forget(id identity.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys[id] != nil {
		s.removeKey(id)
	}
}

// Sweep wipes expired keys. A host calls it at intervals, so that an idle host has no key in
// memory.
func (s *Signers) Sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeExpired(s.now())
}

// Close wipes all keys. The Signers remain usable and open seeds again.
func (s *Signers) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.keys {
		s.removeKey(id)
	}
}

func (s *Signers) acquireKey(ctx context.Context, id identity.ID, box []byte) (*openedKey, error) {
	// A key has at most one opening in progress, because KMS charges for each request.
	for {
		s.mu.Lock()
		s.removeExpired(s.now())
		if o := s.keys[id]; o != nil {
			o.users++
			s.mu.Unlock()
			return o, nil
		}
		otherOpening := s.openings[id]
		if otherOpening == nil {
			done := make(chan struct{})
			s.openings[id] = done
			s.mu.Unlock()
			return s.open(ctx, id, box, done)
		}
		s.mu.Unlock()
		select {
		case <-otherOpening: // the key is open, or its opening failed: try again
		case <-ctx.Done():
			return nil, problem.Wrap(problem.Unavailable, ctx.Err(), "the key of %s %s was not opened in time", s.kind, id.Short())
		}
	}
}

// open opens a key for acquireKey, which has already added done to s.openings.
func (s *Signers) open(ctx context.Context, id identity.ID, box []byte, done chan struct{}) (*openedKey, error) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.openings, id)
		close(done)
	}()
	key, err := s.kind.Open(ctx, s.vault, id, box)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.keys) >= maxOpenKeys {
		s.removeKey(s.nextToExpire())
	}
	o := &openedKey{key: key, expires: s.now().Add(s.ttl), users: 1}
	if len(s.keys) == 0 || o.expires.Before(s.nextExpiry) {
		s.nextExpiry = o.expires
	}
	s.keys[id] = o
	return o, nil
}

func (s *Signers) releaseKey(o *openedKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.users--
	if o.dropped && o.users == 0 {
		o.key.Wipe()
	}
}

func (s *Signers) removeExpired(now time.Time) {
	// This runs for every signature, so it scans the keys only if at least one may have expired.
	if len(s.keys) == 0 || now.Before(s.nextExpiry) {
		return
	}
	for id, o := range s.keys {
		if !now.Before(o.expires) {
			s.removeKey(id)
		}
	}
	if len(s.keys) > 0 {
		s.nextExpiry = s.keys[s.nextToExpire()].expires
	}
}

func (s *Signers) removeKey(id identity.ID) {
	o := s.keys[id]
	delete(s.keys, id)
	o.dropped = true
	if o.users == 0 {
		o.key.Wipe()
	}
}

func (s *Signers) nextToExpire() identity.ID {
	var next identity.ID
	var expiry time.Time
	for id, o := range s.keys {
		if expiry.IsZero() || o.expires.Before(expiry) {
			next, expiry = id, o.expires
		}
	}
	return next
}

func (s *Signers) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "sealed.Signers") }

// Key is an identity.Signer for a sealed seed. It has no key itself, so it remains usable after the
// opened key has expired.
type Key struct {
	signers *Signers
	id      identity.ID
	box     []byte
}

func (k *Key) ID() identity.ID { return k.id }

func (k *Key) Ready(ctx context.Context) error {
	o, err := k.signers.acquireKey(ctx, k.id, k.box)
	if err == nil {
		k.signers.releaseKey(o)
	}
	return err
}

func (k *Key) Sign(ctx context.Context, msg []byte) ([]byte, error) {
	o, err := k.signers.acquireKey(ctx, k.id, k.box)
	if err != nil {
		return nil, err
	}
	defer k.signers.releaseKey(o)
	return o.key.Sign(ctx, msg)
}

func (k *Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "sealed key of "+k.id.Short()) }
