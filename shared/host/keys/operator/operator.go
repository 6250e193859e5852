// Package operator manages the operator key of a host. The key is shown once and stored only as a
// hash. Errors never contain the key.
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

// Prefix starts every key, so that a search can find leaked keys.
const Prefix = "vop_"

const secretSize = 32

const keySize = len(Prefix) + 43 // secretSize bytes in base64url

// Keys is safe for concurrent use if Rand is.
type Keys struct {
	Store store.Store
	Now   func() time.Time
	Rand  io.Reader
}

// Rotate replaces the key. After an error the old key may be invalid, so the caller must call
// Rotate again.
func (k Keys) Rotate(ctx context.Context) (string, error) {
	secret := make([]byte, secretSize)
	defer clear(secret)
	if _, err := io.ReadFull(k.Rand, secret); err != nil {
		return "", problem.Wrap(problem.Unavailable, err, "no randomness for an operator key")
	}
	key := Prefix + base64.RawURLEncoding.EncodeToString(secret)
	// Of two concurrent rotations, the later one determines the key.
	err := store.Updater{Store: k.Store, Rand: k.Rand}.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, DocKey())
		KeyDocs.Put(tx, store.Doc{Key: d.Key}, keyDocument{sha256.Sum256([]byte(key)), k.Now().UTC()})
		return err
	})
	if err != nil {
		return "", problem.Wrap(problem.Unavailable, err, "the operator key cannot be stored now; run the same command again")
	}
	return key, nil
}

// Check returns an error of kind Unauthorized unless key is the operator key. It always reads the
// store for a well-formed key, so a rotation takes effect at once.
func (k Keys) Check(ctx context.Context, key string) error {
	if !isWellFormed(key) {
		return unauthorizedError()
	}
	d, err := k.Store.Doc(ctx, DocKey())
	if err != nil {
		return problem.Wrap(problem.Unavailable, err, "the operator key cannot be checked now")
	}
	if d.Version == 0 {
		return unauthorizedError() // no key was created
	}
	want, err := KeyDocs.Parse(d)
	if err != nil {
		return err
	}
	got := sha256.Sum256([]byte(key))
	if subtle.ConstantTimeCompare(want.Hash[:], got[:]) != 1 {
		return unauthorizedError()
	}
	return nil
}

func unauthorizedError() error {
	return problem.New(problem.Unauthorized, "this is not the operator key of this host")
}

func isWellFormed(key string) bool {
	if len(key) != keySize || !strings.HasPrefix(key, Prefix) {
		return false
	}
	_, err := base64.RawURLEncoding.Strict().DecodeString(key[len(Prefix):])
	return err == nil
}
