// Package custody is the port for small secrets: the seeds of hosted vacants,
// the host's own identity, the text keys. custody/local seals under a key file,
// custody/sealed signs with sealed seeds, and custodytest is the contract of
// every vault.
//
// The invariant: no secret appears in an error, in a log line or in fmt's
// output for any type here.
package custody

import (
	"context"
	"errors"
)

// Vault seals secrets of at most MaxSecret bytes for storage. It is safe for
// concurrent use.
//
// Every box is bound to a context, such as "vacant:<id>": a box moved to
// another place in the store, where it is opened under another context, does
// not open. Open refuses a box that is damaged, bound elsewhere or sealed by
// another vault with a problem of kind Damaged; an unreachable vault returns
// Unavailable. Two boxes of one secret differ.
//
// A vault does not keep the secrets passed to it; the caller wipes what Open
// returns.
type Vault interface {
	Seal(ctx context.Context, bound string, secret []byte) ([]byte, error)
	Open(ctx context.Context, bound string, box []byte) ([]byte, error)
}

// ErrWithheld is in the error chain of Open by a vault that opens only certain
// boxes. It says nothing about the box, which another vault may open.
var ErrWithheld = errors.New("this vault does not open secrets of that kind")

// MaxSecret is the largest secret in bytes that every vault accepts: what KMS
// encrypts at once.
const MaxSecret = 4096
