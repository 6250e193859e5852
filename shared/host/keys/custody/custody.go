// Package custody defines the vault for small secrets: the seeds of hosted vacants, the host's
// identity, and text keys. Package custody/local seals secrets under a key file, custody/kms under
// a KMS key. Package custody/sealed signs with sealed seeds, and custodytest tests every vault.
//
// No secret appears in an error, in a log line or in the output of fmt for any type of these
// packages.
package custody

import (
	"context"
	"errors"
)

// Vault seals secrets of at most MaxSecret bytes for storage. It is safe for concurrent use.
//
// Seal returns a box, which contains the encrypted secret. Every box is bound to a context, for
// example "vacant:<id>". A box that is moved to another place in the store is opened under another
// context and fails to open. Open returns an error of kind Damaged if the box is damaged, was bound
// to another context or was sealed by another vault, and Unavailable if the vault cannot be
// reached. Two boxes of the same secret differ.
//
// A vault does not retain the secrets that are passed to it. The caller must wipe the result of
// Open.
type Vault interface {
	Seal(ctx context.Context, vaultContext string, secret []byte) ([]byte, error)
	Open(ctx context.Context, vaultContext string, box []byte) ([]byte, error)
}

// ErrWithheld is in the error chain of Open if the vault may not open boxes of this kind. The box
// may be intact, and another vault may open it.
var ErrWithheld = errors.New("this vault does not open secrets of that kind")

// MaxSecret is the maximum size in bytes of a secret that every vault accepts. It is the limit of
// KMS for one encryption.
const MaxSecret = 4096
