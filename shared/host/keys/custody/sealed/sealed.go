// Package sealed signs with seeds that are sealed in the store. A seed is opened once, kept in
// memory for a limited time, and then wiped.
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

// maxOpenKeys limits the damage by a memory dump.
const maxOpenKeys = 1024

// Kind is the kind of a seed's owner. A box's context starts with the kind, so that a role can be
// restricted to one kind.
type Kind string

const (
	Vacant     Kind = "vacant"
	Host       Kind = "host"
	SigningKey Kind = "signkey" // key that signs receipts and bookings
)

func (kind Kind) Seal(ctx context.Context, v custody.Vault, key *identity.Key) ([]byte, error) {
	seed := key.Seed()
	defer clear(seed)
	return v.Seal(ctx, kind.vaultContext(key.ID()), seed)
}

func (kind Kind) vaultContext(id identity.ID) string { return string(kind) + ":" + id.String() }

// Open returns a key that the caller must wipe.
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
		// A key with another seed would sign for another id.
		key.Wipe()
		return nil, problem.New(problem.Damaged, "sealed seed of %s %s belongs to another id", kind, id.Short())
	}
	return key, nil
}

// Signers opens sealed seeds of one kind. It is safe for concurrent use. A key is dropped after a
// fixed time, so that a refusal by the vault takes effect.
type Signers struct {
	vault custody.Vault
	kind  Kind
	now   func() time.Time
	ttl   time.Duration

	mu         sync.Mutex
	keys       map[identity.ID]*openedKey
	openings   map[identity.ID]chan struct{}
	nextExpiry time.Time
}

// openedKey is a key in memory. Signers.mu guards all fields except key.
type openedKey struct {
	key     *identity.Key
	expires time.Time
	users   int  // signatures in progress
	dropped bool // the last user wipes a dropped key
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

// Key returns a signer without opening the seed. Strangers can make a host look up any key, so a
// lookup must not use the vault.
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

// Sweep wipes expired keys.
func (s *Signers) Sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeExpired(s.now())
}

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
		case <-otherOpening: // the opening has ended: try again
		case <-ctx.Done():
			return nil, problem.Wrap(problem.Unavailable, ctx.Err(), "the key of %s %s was not opened in time", s.kind, id.Short())
		}
	}
}

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
	// This runs for every signature, so it scans the keys only if one may have expired.
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

// Key is an identity.Signer that remains usable after the opened key has expired.
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
