// Package custody defines the vault for small secrets: the seeds of hosted vacants, the host's
// identity, and text keys. No secret appears in an error, in a log line or in the output of fmt for
// any type of its subpackages.
package custody

import (
	"context"
	"errors"
)

// Vault seals secrets for storage. It is safe for concurrent use.
//
// Seal returns a box, which is bound to a context such as "vacant:<id>". Open returns an error of
// kind Damaged if the box is damaged or belongs to another context or vault, and Unavailable if the
// vault cannot be reached. The caller must wipe the result of Open.
type Vault interface {
	Seal(ctx context.Context, vaultContext string, secret []byte) ([]byte, error)
	Open(ctx context.Context, vaultContext string, box []byte) ([]byte, error)
}

// ErrWithheld means that the vault is not permitted to open a box. The box may be intact.
var ErrWithheld = errors.New("this vault does not open secrets of that kind")

// MaxSecretBytes is the maximum size of a secret in bytes, which is the limit of KMS.
const MaxSecretBytes = 4096
