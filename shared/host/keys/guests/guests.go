// Package guests derives keys with which the host signs for callers without a key. A key is derived
// from a secret of the host, the vacant's id and the context id of the conversation. Only the host
// can create a context id that IsHostContextID accepts, so guests cannot join other conversations
// by guessing.
package guests

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const secretContext = "guest:secret"

const secretSize = 32

// Keys derives the keys of guests. It is safe for concurrent use. The fmt package prints only its
// type, so the secret is not printed.
type Keys struct {
	updater store.Updater
	vault   custody.Vault
	rand    io.Reader

	mu     sync.Mutex
	secret []byte // nil until it is loaded
}

func New(u store.Updater, v custody.Vault, rand io.Reader) *Keys {
	return &Keys{updater: u, vault: v, rand: rand}
}

func (k *Keys) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "guests.Keys") }

func (k *Keys) DeriveKey(ctx context.Context, vacant identity.ID, contextID string) (*identity.Key, error) {
	secret, err := k.loadSecret(ctx)
	if err != nil {
		return nil, err
	}
	seed, err := hkdf.Key(sha256.New, secret, nil, "vacancy guest v1\x1f"+vacant.String()+"\x1f"+contextID, identity.Size)
	if err != nil {
		return nil, problem.Wrap(problem.Internal, err, "the key of a guest")
	}
	return identity.KeyFromSeed(seed)
}

func (k *Keys) DeriveOwnerKey(ctx context.Context, vacant identity.ID, owner, contextID string) (*identity.Key, error) {
	return k.DeriveKey(ctx, vacant, owner+"\x1f"+contextID)
}

// A context id consists of the prefix, random bytes and their tag.
const (
	contextPrefix = "ctx-"
	randomSize    = 16
	tagSize       = 16
)

func (k *Keys) NewContextID(ctx context.Context, vacant identity.ID) (string, error) {
	secret, err := k.loadSecret(ctx)
	if err != nil {
		return "", err
	}
	var b [randomSize]byte
	if _, err := io.ReadFull(k.rand, b[:]); err != nil {
		return "", problem.Wrap(problem.Unavailable, err, "no randomness")
	}
	return contextPrefix + base64.RawURLEncoding.EncodeToString(append(b[:], contextTag(secret, vacant, b[:])...)), nil
}

// IsHostContextID reports whether NewContextID created contextID for vacant.
func (k *Keys) IsHostContextID(ctx context.Context, vacant identity.ID, contextID string) (bool, error) {
	encoded, ok := strings.CutPrefix(contextID, contextPrefix)
	if !ok {
		return false, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(b) != randomSize+tagSize {
		return false, nil
	}
	secret, err := k.loadSecret(ctx)
	if err != nil {
		return false, err
	}
	return hmac.Equal(b[randomSize:], contextTag(secret, vacant, b[:randomSize])), nil
}

func contextTag(secret []byte, vacant identity.ID, random []byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte("vacancy context v1\x1f"))
	m.Write(vacant[:])
	m.Write(random)
	return m.Sum(nil)[:tagSize]
}

func (k *Keys) loadSecret(ctx context.Context) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.secret != nil {
		return k.secret, nil
	}
	box, d, err := SecretDocs.Get(ctx, k.updater.Store, SecretDocKey())
	if err != nil {
		return nil, store.AsProblem(err)
	}
	if d.Version == 0 {
		if box, err = k.createSecret(ctx); err != nil {
			return nil, err
		}
	}
	secret, err := k.vault.Open(ctx, secretContext, box)
	switch {
	case errors.Is(err, store.ErrUnavailable), problem.Is(err, problem.Unavailable):
		return nil, err
	case err != nil, len(secret) != secretSize:
		return nil, problem.Wrap(problem.Damaged, err, "the secret for callers without a key does not open")
	}
	k.secret = secret
	return secret, nil
}

// createSecret stores a new secret unless another instance has stored one.
func (k *Keys) createSecret(ctx context.Context) (box []byte, err error) {
	secret := make([]byte, secretSize)
	if _, err := io.ReadFull(k.rand, secret); err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "no randomness")
	}
	newBox, err := k.vault.Seal(ctx, secretContext, secret)
	if err != nil {
		return nil, err
	}
	err = k.updater.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		oldBox, d, err := SecretDocs.Get(ctx, tx, SecretDocKey())
		if box = oldBox; err == nil && d.Version == 0 {
			box = newBox
			SecretDocs.Put(tx, d, newBox)
		}
		return err
	})
	return box, store.AsProblem(err)
}
