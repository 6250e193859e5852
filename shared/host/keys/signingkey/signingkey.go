// Package signingkey keeps the key that signs receipts and bookings, and the certificate by
// which the host's identity vouches for it (PROTOCOL §19.8). The handlers that the public
// reaches open this key, so none of them opens or uses the host's identity.
//
// The invariants: only a process with the host's identity makes a key. One document holds the
// keys, so one write decides which they are. For a given time every process chooses the same
// key, so a statement that is signed twice has the same bytes.
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

// Key is the key of the document.
func Key() store.Key { return KeyDocs.Key() }

const (
	// Lifetime is the time for which a certificate is valid. It bounds the damage by a
	// stolen key. The next key is made when half of it is left.
	Lifetime = 30 * 24 * time.Hour
	// ahead is the time between the making of a key and its first use. It is longer than
	// cacheTime, so that every process knows the key by then.
	ahead = 24 * time.Hour
	// cacheTime is the time for which a process keeps the document and an
	// opened key.
	cacheTime = 10 * time.Minute
)

// stored is the document. The newest key is the last.
type stored struct {
	Keys []sealedKey `json:"keys"`
}

type sealedKey struct {
	Certificate certificate.Certificate `json:"certificate"`
	Seed        []byte                  `json:"seed"`
}

// at returns the key that signs statements of time t: the newest key that is certified for t.
func (s *stored) at(t time.Time) (sealedKey, bool) {
	for _, k := range slices.Backward(s.Keys) {
		if k.Certificate.Covers(t) {
			return k, true
		}
	}
	return sealedKey{}, false
}

// maxKeys is the number of keys up to which drop keeps ended ones. Two are in use, the current
// key and the next; a host whose clock was fast may have made more.
const maxKeys = 4

// drop makes room for a key: it forgets the oldest keys whose time ended so long ago that no
// statement of that time is signed again.
func (s *stored) drop(now time.Time) {
	kept := s.Keys[:0:0]
	for i, k := range s.Keys {
		_, until, err := k.Certificate.Times()
		ended := err != nil || until.Before(now.Add(-ahead))
		if room := len(kept)+len(s.Keys)-i < maxKeys; !ended || room {
			kept = append(kept, k)
		}
	}
	s.Keys = kept
}

// due reports whether it is time to make the next key.
func (s *stored) due(now time.Time) bool {
	_, current := s.at(now)
	_, next := s.at(now.Add(Lifetime / 2))
	return !current || !next
}

// begin returns when the time of the next key begins.
func (s *stored) begin(now time.Time) time.Time {
	if k, ok := s.at(now); ok {
		_, until, _ := k.Certificate.Times()
		if from := now.Add(ahead); from.Before(until) {
			return from
		}
		return until
	}
	// Bookings that waited for a key have a time before now, so the new key begins earlier. It
	// does not begin before an earlier key ended: that key may have signed for such a time.
	from := now.Add(-ahead)
	for _, k := range s.Keys {
		if _, until, err := k.Certificate.Times(); err == nil && until.After(from) && !until.After(now) {
			from = until
		}
	}
	return from
}

// Config configures Keys. Vault, Now, Rand and Store are required.
type Config struct {
	Store store.Store
	Vault custody.Vault
	Now   func() time.Time
	Rand  io.Reader // safe for concurrent use
	// Identity returns the host's own identity. With nil, this process may not sign
	// with it, and makes no key.
	Identity func(context.Context) (identity.Signer, error)
}

// Keys are the keys of a host. It is safe for concurrent use.
type Keys struct {
	config  Config
	signers *sealed.Signers

	mu    sync.Mutex
	known stored
	read  time.Time // when known was read
}

// New returns the keys of a host. It does no I/O.
func New(c Config) *Keys {
	return &Keys{config: c, signers: sealed.SigningKey.NewSigners(c.Vault, c.Now, cacheTime)}
}

// Format prints only the type, for every verb.
func (k *Keys) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "signingkey.Keys") }

// Sweep wipes keys that have been in memory for long.
func (k *Keys) Sweep() { k.signers.Sweep() }

// Close wipes all keys from memory.
func (k *Keys) Close() { k.signers.Close() }

// Signer returns the key that signs statements of time at. The error is of kind Unavailable if
// the host has no such key yet.
func (k *Keys) Signer(ctx context.Context, at time.Time) (certificate.Signer, error) {
	s, err := k.load(ctx, at)
	if err != nil {
		return certificate.Signer{}, err
	}
	if k.config.Identity != nil && s.due(k.config.Now()) {
		next, err := k.renew(ctx)
		if _, ok := s.at(at); err != nil && !ok {
			return certificate.Signer{}, err
		}
		if err == nil {
			s = next
		} // else the key that there is signs on, and the next request tries again
	}
	one, ok := s.at(at)
	if !ok {
		return certificate.Signer{}, problem.New(problem.Unavailable, "the host has no key yet that signs receipts and bookings; it makes one within minutes: send the same request again then")
	}
	if err := one.Certificate.Verify(one.Certificate.Host, at); err != nil {
		return certificate.Signer{}, problem.Within(problem.Damaged, "the key that signs receipts", err)
	}
	signer, err := k.signers.Signer(ctx, one.Certificate.Key, one.Seed)
	return certificate.Signer{Signer: signer, Certificate: one.Certificate}, err
}

// load returns the keys in memory if they are fresh and have one for time at; otherwise it
// reads them.
func (k *Keys) load(ctx context.Context, at time.Time) (stored, error) {
	k.mu.Lock()
	s, read := k.known, k.read
	k.mu.Unlock()
	now := k.config.Now()
	if _, ok := s.at(at); ok && now.Sub(read).Abs() < cacheTime {
		return s, nil
	}
	s, _, err := KeyDocs.Get(ctx, k.config.Store, Key())
	if err != nil {
		return s, store.Problem(err)
	}
	k.keep(s, now)
	return s, nil
}

func (k *Keys) keep(s stored, read time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known, k.read = s, read
}

// Renew makes the first key, or the next one if that is due. A process with the host's
// identity calls it at intervals. Of several that make one at once, one stores it.
func (k *Keys) Renew(ctx context.Context) error {
	_, err := k.renew(ctx)
	return err
}

func (k *Keys) renew(ctx context.Context) (s stored, err error) {
	host, err := k.config.Identity(ctx)
	if err != nil {
		return s, err
	}
	now := k.config.Now().UTC().Truncate(time.Second)
	err = store.Updater{Store: k.config.Store, Rand: k.config.Rand}.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		var d store.Doc
		if s, d, err = KeyDocs.Get(ctx, tx, Key()); err != nil {
			return err
		}
		// Documents that come from another host have keys that vouch for nothing here.
		s.Keys = slices.DeleteFunc(s.Keys, func(one sealedKey) bool { return one.Certificate.Host != host.ID() })
		if !s.due(now) {
			return nil
		}
		one, err := k.create(ctx, host, s.begin(now))
		if err != nil {
			return err
		}
		s.drop(now)
		s.Keys = append(s.Keys, one)
		KeyDocs.Put(tx, d, s)
		return nil
	})
	if err != nil {
		return s, store.Problem(err)
	}
	k.keep(s, now)
	return s, nil
}

// create makes a key whose time begins at from.
func (k *Keys) create(ctx context.Context, host identity.Signer, from time.Time) (one sealedKey, err error) {
	key, err := identity.NewKey(k.config.Rand)
	if err != nil {
		return one, err
	}
	defer key.Wipe()
	if one.Certificate, err = certificate.New(ctx, host, key.ID(), from, from.Add(Lifetime)); err != nil {
		return one, err
	}
	one.Seed, err = sealed.SigningKey.Seal(ctx, k.config.Vault, key)
	return one, err
}

// CheckCertificates verifies the document's certificates by a host's id. The zero ID means that
// the id is not known; all certificates must be of one host then. The error is of kind Damaged.
func CheckCertificates(d store.Doc, host identity.ID) error {
	s, err := KeyDocs.Parse(d)
	if err != nil {
		return err
	}
	for _, one := range s.Keys {
		if host.IsZero() {
			host = one.Certificate.Host
		}
		from, _, err := one.Certificate.Times()
		if err == nil {
			err = one.Certificate.Verify(host, from)
		}
		if err != nil {
			return problem.Within(problem.Damaged, "the key that signs receipts", err)
		}
	}
	return nil
}

// CheckKeys verifies that each key of the document opens under v, and is the certified one. The
// error is of kind Damaged if not.
func CheckKeys(ctx context.Context, d store.Doc, v custody.Vault) error {
	s, err := KeyDocs.Parse(d)
	for _, one := range s.Keys {
		key, err := sealed.SigningKey.Open(ctx, v, one.Certificate.Key, one.Seed)
		if err != nil {
			return err
		}
		key.Wipe()
	}
	return err
}
