// Package kms keeps small secrets under a key of AWS KMS, and signs with an
// Ed25519 key that never leaves it.
//
// The invariants: a box opens only under the key and context it was sealed for,
// and only a failure of that is called damage. If KMS is away, throttles or
// denies access the error is Unavailable, because the box may be intact. No
// secret and no key id appears in an error's text or in what fmt prints.
package kms

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// The first byte of a box; KMS's ciphertext follows. KMS encrypts no empty
// text, so an empty secret is a zero byte under a context that says so, and
// neither can replace the other.
const (
	formatSecret = 1
	formatEmpty  = 2
)

// The encryption context of a box. It is authenticated and readable in
// CloudTrail: which vacant's seed was opened, and when. It has this one key,
// and the key policy allows no other.
const contextKey = "vacancy"

// emptySuffix marks the context of an empty secret. No other context ends so.
const emptySuffix = "#empty"

// maxBox is the largest ciphertext in bytes that KMS accepts.
const maxBox = 6144

// Vault is a custody.Vault over Encrypt and Decrypt with a symmetric key. The
// SDK's copies of a secret are not wiped; Open returns the only copy made here.
type Vault struct {
	client *kms.Client
	key    string
}

// New returns the vault under a symmetric key: its id, ARN or alias. With an
// ARN, boxes of another key are certainly refused.
func New(client *kms.Client, keyID string) *Vault { return &Vault{client: client, key: keyID} }

// Seal seals secret for the non-empty context bound.
func (v *Vault) Seal(ctx context.Context, bound string, secret []byte) ([]byte, error) {
	switch {
	case len(secret) > custody.MaxSecret:
		return nil, problem.New(problem.TooLarge, "a secret has at most %d bytes, got %d", custody.MaxSecret, len(secret))
	case !bindable(bound):
		return nil, problem.New(problem.Internal, "a secret is sealed for a context that does not end in %s; got %.80q", emptySuffix, bound)
	}
	format := byte(formatSecret)
	if len(secret) == 0 {
		format, secret = formatEmpty, []byte{0}
	}
	count(ctx)
	out, err := v.client.Encrypt(ctx, &kms.EncryptInput{KeyId: &v.key, Plaintext: secret, EncryptionContext: contextOf(format, bound)})
	if err != nil {
		return nil, unavailable(err, "a secret cannot be sealed now")
	}
	if len(out.CiphertextBlob) == 0 || len(out.CiphertextBlob) > maxBox {
		return nil, problem.New(problem.Unavailable, "the key service sealed a secret as %d bytes; expected 1 to %d", len(out.CiphertextBlob), maxBox)
	}
	return append([]byte{format}, out.CiphertextBlob...), nil
}

// Open opens a box that was sealed for the context bound.
func (v *Vault) Open(ctx context.Context, bound string, box []byte) ([]byte, error) {
	switch {
	case !bindable(bound):
		return nil, problem.New(problem.Damaged, "a sealed secret of the context %.80q is none of this host's", bound)
	case len(box) < 2 || len(box) > 1+maxBox:
		return nil, problem.New(problem.Damaged, "sealed secret of %s: expected 2 to %d bytes, got %d", bound, 1+maxBox, len(box))
	case box[0] != formatSecret && box[0] != formatEmpty:
		return nil, problem.New(problem.Damaged, "sealed secret of %s: expected format %d or %d, got %d", bound, formatSecret, formatEmpty, box[0])
	}
	count(ctx)
	// Name the key although the box names it too: a box that somebody sealed
	// under their own key must not be accepted.
	out, err := v.client.Decrypt(ctx, &kms.DecryptInput{KeyId: &v.key, CiphertextBlob: box[1:], EncryptionContext: contextOf(box[0], bound)})
	switch {
	case foreign(err):
		return nil, problem.Wrap(problem.Damaged, err, "sealed secret of %s does not open: it is damaged, or sealed elsewhere or under another key", bound)
	case err != nil:
		return nil, unavailable(err, "sealed secret of "+bound+" cannot be opened now")
	}
	if box[0] == formatEmpty {
		clear(out.Plaintext)
		return []byte{}, nil
	}
	return out.Plaintext, nil
}

func contextOf(format byte, bound string) map[string]string {
	if format == formatEmpty {
		bound += emptySuffix
	}
	return map[string]string{contextKey: bound}
}

func bindable(bound string) bool { return bound != "" && !strings.HasSuffix(bound, emptySuffix) }

// Format prints only the type's name for every verb.
func (v Vault) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "kms.Vault") }

var _ custody.Vault = (*Vault)(nil)

// NewClient makes a client with retries and timeouts that suit a call: all
// requests to KMS may be repeated. opts are applied last.
func NewClient(cfg aws.Config, opts ...func(*kms.Options)) *kms.Client {
	return kms.NewFromConfig(cfg, append([]func(*kms.Options){settings}, opts...)...)
}
