// Package custody keeps small secrets: the seeds of hosted vacants, the host's
// own identity, the keys of the day. It is the port; custody/local seals under
// a key file, custody/sealed signs with sealed seeds, and custodytest is the
// contract that every vault passes.
//
// The invariant: no secret shows in an error, in a log line or in what fmt
// prints of any type here.
package custody

import (
	"context"
	"errors"
)

// Vault seals secrets of at most MaxSecret bytes so that they can lie in a
// store. It is safe for concurrent use.
//
// Every box is bound to a context, such as "vacant:<id>": a box moved to
// another place in the store, where it would be opened under another context,
// does not open. Open refuses a box that is damaged, bound elsewhere or sealed
// by another vault with a problem of kind Damaged; a vault that cannot be
// reached says Unavailable. Two boxes of one secret differ.
//
// Secrets handed in are not kept; the caller wipes what Open returns.
type Vault interface {
	Seal(ctx context.Context, bound string, secret []byte) ([]byte, error)
	Open(ctx context.Context, bound string, box []byte) ([]byte, error)
}

// ErrWithheld is in the chain of an error of Open by a vault that opens certain
// boxes only: it says nothing about the box, which another vault may open.
var ErrWithheld = errors.New("this vault does not open secrets of that kind")

// MaxSecret is the largest secret in bytes that every vault takes: what a key
// service encrypts at once.
const MaxSecret = 4096
