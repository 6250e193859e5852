// Package local is the vault of a host on one machine. It seals secrets under a random key in a
// file that only its owner can read. The key file is never overwritten, because all sealed secrets
// would be lost.
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

// format is authenticated with the context.
const format = 1

// Vault is a custody.Vault. Its Format method hides the key, which %d would print.
type Vault struct {
	aead cipher.AEAD
	rand io.Reader
}

func FromHex(key string, rand io.Reader) (*Vault, error) {
	// The error must not contain the key.
	b, err := hex.DecodeString(key)
	if err != nil || len(b) != chacha20poly1305.KeySize {
		return nil, &problem.Error{Kind: problem.Usage, Field: "sealing key", Want: "64 hex digits", Got: fmt.Sprintf("%d characters", len(key))}
	}
	return newVault(b, rand)
}

// Open opens the vault whose key file is at path, and creates a missing file. It refuses a file
// that others can access. rand must be safe for concurrent use.
func Open(path string, rand io.Reader) (*Vault, error) {
	key, err := loadKeyFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := createKeyFile(path, rand); err != nil {
			return nil, err
		}
		key, err = loadKeyFile(path) // another process may have been first
	}
	if err != nil {
		return nil, err
	}
	return newVault(key, rand)
}

// newVault wipes key.
func newVault(key []byte, rand io.Reader) (*Vault, error) {
	defer clear(key)
	aead, err := chacha20poly1305.NewX(key)
	if err != nil {
		return nil, problem.Wrap(problem.Internal, err, "sealing key")
	}
	return &Vault{aead: aead, rand: rand}, nil
}

func (v *Vault) Seal(_ context.Context, vaultContext string, secret []byte) ([]byte, error) {
	// Nonces of 24 random bytes do not repeat in practice.
	if len(secret) > custody.MaxSecretBytes {
		return nil, problem.New(problem.TooLarge, "a secret has at most %d bytes, got %d", custody.MaxSecretBytes, len(secret))
	}
	headerSize := 1 + v.aead.NonceSize()
	box := make([]byte, headerSize, headerSize+len(secret)+v.aead.Overhead())
	box[0] = format
	if _, err := io.ReadFull(v.rand, box[1:]); err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "no randomness to seal a secret")
	}
	return v.aead.Seal(box, box[1:], secret, additionalData(vaultContext)), nil
}

func (v *Vault) Open(_ context.Context, vaultContext string, box []byte) ([]byte, error) {
	headerSize := 1 + v.aead.NonceSize()
	if len(box) < headerSize+v.aead.Overhead() {
		return nil, problem.New(problem.Damaged, "sealed secret of %s: expected at least %d bytes, got %d", vaultContext, headerSize+v.aead.Overhead(), len(box))
	}
	if box[0] != format {
		return nil, problem.New(problem.Damaged, "sealed secret of %s: expected format %d, got %d", vaultContext, format, box[0])
	}
	secret, err := v.aead.Open(nil, box[1:headerSize], box[headerSize:], additionalData(vaultContext))
	if err != nil {
		return nil, problem.New(problem.Damaged, "sealed secret of %s does not open: it is damaged, or was sealed for another context or under another key", vaultContext)
	}
	return secret, nil
}

func additionalData(vaultContext string) []byte { return append([]byte{format}, vaultContext...) }

func (v Vault) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "local.Vault") }
