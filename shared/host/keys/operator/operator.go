// Package operator manages the operator's key of a host: created at deployment,
// shown once, stored as a hash.
//
// The invariants: the key itself is never stored and appears in no error. A key
// is valid from the commit of its hash, and the previous key is invalid from
// then on, on every instance.
package operator

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"io"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Prefix begins every key, so that a leaked key can be found by a search.
const Prefix = "vop_"

// size of a key in random bytes.
const size = 32

// keySize is the length of a key in its text form.
const keySize = len(Prefix) + 43

// Keys creates and checks the operator's key in a store. It is safe for
// concurrent use if Rand is.
type Keys struct {
	Store store.Store
	Now   func() time.Time
	Rand  io.Reader
}

// Rotate creates a new key, which replaces the previous one, and returns it.
// After an error no key is returned; if it is Unavailable the previous key may
// or may not be valid, and Rotate must be repeated.
func (k Keys) Rotate(ctx context.Context) (string, error) {
	secret := make([]byte, size)
	defer clear(secret)
	if _, err := io.ReadFull(k.Rand, secret); err != nil {
		return "", problem.Wrap(problem.Unavailable, err, "no randomness for an operator key")
	}
	key := Prefix + base64.RawURLEncoding.EncodeToString(secret)
	// Of two concurrent rotations the later one counts.
	err := store.Updater{Store: k.Store, Rand: k.Rand}.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, Key())
		KeyDocs.Put(tx, store.Doc{Key: d.Key}, stored{sha256.Sum256([]byte(key)), k.Now().UTC()})
		return err
	})
	if err != nil {
		return "", problem.Wrap(problem.Unavailable, err, "the operator key cannot be kept now; run the same command again")
	}
	return key, nil
}

// Check verifies an operator key; the error is of kind Unauthorized if it is
// wrong. A malformed key costs no read. Otherwise the store is read
// consistently each time, so a rotation takes effect at once; an unreadable
// store is Unavailable. The comparison takes constant time.
func (k Keys) Check(ctx context.Context, key string) error {
	if !wellFormed(key) {
		return refused()
	}
	d, err := k.Store.Doc(ctx, Key())
	if err != nil {
		return problem.Wrap(problem.Unavailable, err, "the operator key cannot be checked now")
	}
	if d.Version == 0 {
		return refused() // no key was created yet
	}
	want, err := KeyDocs.Parse(d)
	if err != nil {
		return err
	}
	got := sha256.Sum256([]byte(key))
	if subtle.ConstantTimeCompare(want.Hash[:], got[:]) != 1 {
		return refused()
	}
	return nil
}

func refused() error {
	return problem.New(problem.Unauthorized, "this is not the operator key of this host")
}

func wellFormed(key string) bool {
	if len(key) != keySize || !strings.HasPrefix(key, Prefix) {
		return false
	}
	_, err := base64.RawURLEncoding.Strict().DecodeString(key[len(Prefix):])
	return err == nil
}
