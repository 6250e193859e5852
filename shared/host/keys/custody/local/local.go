// Package local is the vault of a host on one machine: secrets are sealed with
// XChaCha20-Poly1305 under a random key in a file that only its owner can read.
//
// The invariants: a key file is complete or absent, created once and never
// overwritten, because everything sealed under it would be lost. The key is
// never printed.
package local

import (
	"context"
	"crypto/cipher"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/problem"
	"golang.org/x/crypto/chacha20poly1305"
)

// format is the first byte of a box. It is authenticated with the context, so a
// later format cannot be passed off as this one.
const format = 1

// Vault is a custody.Vault under a key file.
type Vault struct {
	aead cipher.AEAD
	rand io.Reader
}

// FromHex makes the vault of a 32-byte key in 64 hex digits, for hosts without
// a key file. The error never contains the key.
func FromHex(key string, rand io.Reader) (*Vault, error) {
	b, err := hex.DecodeString(key)
	if err != nil || len(b) != chacha20poly1305.KeySize {
		return nil, &problem.Error{Kind: problem.Usage, Field: "sealing key", Want: "64 hex digits", Got: fmt.Sprintf("%d characters", len(key))}
	}
	return newVault(b, rand)
}

// Open opens the vault whose key file is at path, and creates the file with
// mode 0600 if it is missing. Processes that open it concurrently get the same
// key. It refuses a file that group or others can access (except on Windows,
// which has no such modes). rand must be safe for concurrent use.
func Open(path string, rand io.Reader) (*Vault, error) {
	key, err := load(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := install(path, rand); err != nil {
			return nil, err
		}
		key, err = load(path) // it may be the key of a process that was faster
	}
	if err != nil {
		return nil, err
	}
	return newVault(key, rand)
}

// newVault makes the vault of a key and wipes key.
func newVault(key []byte, rand io.Reader) (*Vault, error) {
	defer clear(key)
	aead, err := chacha20poly1305.NewX(key)
	if err != nil {
		return nil, problem.Wrap(problem.Internal, err, "sealing key")
	}
	return &Vault{aead: aead, rand: rand}, nil
}

// Seal seals secret for the context bound: format, random nonce, ciphertext.
// Nonces of 24 random bytes do not repeat.
func (v *Vault) Seal(_ context.Context, bound string, secret []byte) ([]byte, error) {
	if len(secret) > custody.MaxSecret {
		return nil, problem.New(problem.TooLarge, "a secret has at most %d bytes, got %d", custody.MaxSecret, len(secret))
	}
	head := 1 + v.aead.NonceSize()
	box := make([]byte, head, head+len(secret)+v.aead.Overhead())
	box[0] = format
	if _, err := io.ReadFull(v.rand, box[1:]); err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "no randomness to seal a secret")
	}
	return v.aead.Seal(box, box[1:], secret, aad(bound)), nil
}

// Open opens a box that was sealed for the context bound.
func (v *Vault) Open(_ context.Context, bound string, box []byte) ([]byte, error) {
	head := 1 + v.aead.NonceSize()
	if len(box) < head+v.aead.Overhead() {
		return nil, problem.New(problem.Damaged, "sealed secret of %s: expected at least %d bytes, got %d", bound, head+v.aead.Overhead(), len(box))
	}
	if box[0] != format {
		return nil, problem.New(problem.Damaged, "sealed secret of %s: expected format %d, got %d", bound, format, box[0])
	}
	secret, err := v.aead.Open(nil, box[1:head], box[head:], aad(bound))
	if err != nil {
		return nil, problem.New(problem.Damaged, "sealed secret of %s does not open: it is damaged, or sealed elsewhere or under another key", bound)
	}
	return secret, nil
}

func aad(bound string) []byte { return append([]byte{format}, bound...) }

// Format prints only the type's name for every verb: without it %d would print
// the cipher with its key.
func (v Vault) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "local.Vault") }
