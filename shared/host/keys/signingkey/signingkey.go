// Package signingkey manages the keys that sign receipts and bookings for the host (PROTOCOL
// §19.8), so that public handlers never need the host's identity. All processes choose the same key
// for a given time, so a statement that is signed twice has the same bytes.
package signingkey

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/sealed"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/certificate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func DocKey() store.Key { return KeyDocs.Key() }

const (
	// Lifetime limits the damage by a stolen key.
	Lifetime = 30 * 24 * time.Hour
	// activationDelay is longer than cacheTime, so that all processes know a key before its first
	// use.
	activationDelay = 24 * time.Hour
	cacheTime       = 10 * time.Minute
)

// keySet contains the keys, oldest first.
type keySet struct {
	Keys []sealedKey `json:"keys"`
}

type sealedKey struct {
	Certificate certificate.Certificate `json:"certificate"`
	Seed        []byte                  `json:"seed"`
}

func (s *keySet) keyAt(t time.Time) (sealedKey, bool) {
	for _, k := range slices.Backward(s.Keys) {
		if k.Certificate.Covers(t) {
			return k, true
		}
	}
	return sealedKey{}, false
}

// maxKeys is the number of keys at which removeOldKeys begins to remove expired keys.
const maxKeys = 4

// removeOldKeys removes a key only if its certificate ended more than activationDelay ago. Until
// then, earlier statements may be signed again.
func (s *keySet) removeOldKeys(now time.Time) {
	keys := s.Keys[:0:0]
	for i, k := range s.Keys {
		_, validUntil, err := k.Certificate.Validity()
		isExpired := err != nil || validUntil.Before(now.Add(-activationDelay))
		if hasRoom := len(keys)+len(s.Keys)-i < maxKeys; !isExpired || hasRoom {
			keys = append(keys, k)
		}
	}
	s.Keys = keys
}

func (s *keySet) isRenewalDue(now time.Time) bool {
	_, hasCurrent := s.keyAt(now)
	_, hasNext := s.keyAt(now.Add(Lifetime / 2))
	return !hasCurrent || !hasNext
}

func (s *keySet) nextValidFrom(now time.Time) time.Time {
	if k, ok := s.keyAt(now); ok {
		_, until, _ := k.Certificate.Validity()
		if from := now.Add(activationDelay); from.Before(until) {
			return from
		}
		return until
	}
	// The first key must also sign bookings that waited for a key. It must not sign for times at
	// which an earlier key was valid.
	from := now.Add(-activationDelay)
	for _, k := range s.Keys {
		if _, until, err := k.Certificate.Validity(); err == nil && until.After(from) && !until.After(now) {
			from = until
		}
	}
	return from
}

type Config struct {
	Store store.Store
	Vault custody.Vault
	Now   func() time.Time
	Rand  io.Reader // safe for concurrent use
	// Identity is nil in a process that does not create keys.
	Identity func(context.Context) (identity.Signer, error)
}

// Keys is safe for concurrent use. The fmt package prints only its type, so no key is printed.
type Keys struct {
	config  Config
	signers *sealed.Signers

	mu       sync.Mutex
	cached   keySet
	cachedAt time.Time
}

func New(c Config) *Keys {
	return &Keys{config: c, signers: sealed.SigningKey.NewSigners(c.Vault, c.Now, cacheTime)}
}

func (k *Keys) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "signingkey.Keys") }

func (k *Keys) Sweep() { k.signers.Sweep() }

func (k *Keys) Close() { k.signers.Close() }

// Signer returns the key that signs statements of time signedAt, or an error of kind Unavailable.
func (k *Keys) Signer(ctx context.Context, signedAt time.Time) (certificate.Signer, error) {
	s, err := k.load(ctx, signedAt)
	if err != nil {
		return certificate.Signer{}, err
	}
	if k.config.Identity != nil && s.isRenewalDue(k.config.Now()) {
		next, err := k.renew(ctx)
		if _, ok := s.keyAt(signedAt); err != nil && !ok {
			return certificate.Signer{}, err
		}
		if err == nil {
			s = next
		} // on an error, the current key continues to sign
	}
	entry, ok := s.keyAt(signedAt)
	if !ok {
		return certificate.Signer{}, problem.New(problem.Unavailable, "the host has no key for receipts and bookings yet; it creates one within minutes; send the same request again later")
	}
	if err := entry.Certificate.Verify(entry.Certificate.Host, signedAt); err != nil {
		return certificate.Signer{}, problem.WithPlace(problem.Damaged, "the key that signs receipts", err)
	}
	signer, err := k.signers.Signer(ctx, entry.Certificate.Key, entry.Seed)
	return certificate.Signer{Signer: signer, Certificate: entry.Certificate}, err
}

func (k *Keys) load(ctx context.Context, signedAt time.Time) (keySet, error) {
	k.mu.Lock()
	s, cachedAt := k.cached, k.cachedAt
	k.mu.Unlock()
	now := k.config.Now()
	if _, ok := s.keyAt(signedAt); ok && now.Sub(cachedAt).Abs() < cacheTime {
		return s, nil
	}
	s, _, err := KeyDocs.Get(ctx, k.config.Store, DocKey())
	if err != nil {
		return s, store.AsProblem(err)
	}
	k.setCache(s, now)
	return s, nil
}

func (k *Keys) setCache(s keySet, readAt time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cached, k.cachedAt = s, readAt
}

// RenewIfDue creates the next key if it is due.
func (k *Keys) RenewIfDue(ctx context.Context) error {
	_, err := k.renew(ctx)
	return err
}

func (k *Keys) renew(ctx context.Context) (s keySet, err error) {
	host, err := k.config.Identity(ctx)
	if err != nil {
		return s, err
	}
	now := k.config.Now().UTC().Truncate(time.Second)
	err = store.Updater{Store: k.config.Store, Rand: k.config.Rand}.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		var d store.Doc
		if s, d, err = KeyDocs.Get(ctx, tx, DocKey()); err != nil {
			return err
		}
		// Certificates of another host are not valid on this host.
		s.Keys = slices.DeleteFunc(s.Keys, func(entry sealedKey) bool { return entry.Certificate.Host != host.ID() })
		if !s.isRenewalDue(now) {
			return nil
		}
		entry, err := k.createKey(ctx, host, s.nextValidFrom(now))
		if err != nil {
			return err
		}
		s.removeOldKeys(now)
		s.Keys = append(s.Keys, entry)
		KeyDocs.Put(tx, d, s)
		return nil
	})
	if err != nil {
		return s, store.AsProblem(err)
	}
	k.setCache(s, now)
	return s, nil
}

func (k *Keys) createKey(ctx context.Context, host identity.Signer, validFrom time.Time) (entry sealedKey, err error) {
	key, err := identity.NewKey(k.config.Rand)
	if err != nil {
		return entry, err
	}
	defer key.Wipe()
	if entry.Certificate, err = certificate.New(ctx, host, key.ID(), validFrom, validFrom.Add(Lifetime)); err != nil {
		return entry, err
	}
	entry.Seed, err = sealed.SigningKey.Seal(ctx, k.config.Vault, key)
	return entry, err
}

// CheckCertificates verifies the certificates in d. If host is zero, they must have the same host.
func CheckCertificates(d store.Doc, host identity.ID) error {
	s, err := KeyDocs.Parse(d)
	if err != nil {
		return err
	}
	for _, entry := range s.Keys {
		if host.IsZero() {
			host = entry.Certificate.Host
		}
		from, _, err := entry.Certificate.Validity()
		if err == nil {
			err = entry.Certificate.Verify(host, from)
		}
		if err != nil {
			return problem.WithPlace(problem.Damaged, "the key that signs receipts", err)
		}
	}
	return nil
}

func CheckKeys(ctx context.Context, d store.Doc, v custody.Vault) error {
	s, err := KeyDocs.Parse(d)
	for _, entry := range s.Keys {
		key, err := sealed.SigningKey.Open(ctx, v, entry.Certificate.Key, entry.Seed)
		if err != nil {
			return err
		}
		key.Wipe()
	}
	return err
}
