// Package kms seals small secrets under a key of AWS KMS, and signs with an Ed25519 key that never
// leaves KMS. If KMS cannot answer, the error is Unavailable and not Damaged, because the box may
// be intact.
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

// KMS does not encrypt empty plaintexts, so an empty secret is stored as a zero byte under a
// context with emptySuffix.
const (
	formatSecret = 1
	formatEmpty  = 2
)

// contextKey is the only name in the encryption context, which CloudTrail records. The key policy
// allows no other name.
const contextKey = "vacancy"

const emptySuffix = "#empty"

const maxCiphertext = 6144 // bytes

// Vault is a custody.Vault. Copies of a secret inside the SDK are not wiped.
type Vault struct {
	client *kms.Client
	keyID  string
}

// New returns a vault for a symmetric key. Only an ARN as keyID guarantees that boxes of other keys
// are refused.
func New(client *kms.Client, keyID string) *Vault { return &Vault{client: client, keyID: keyID} }

func (v *Vault) Seal(ctx context.Context, vaultContext string, secret []byte) ([]byte, error) {
	switch {
	case len(secret) > custody.MaxSecretBytes:
		return nil, problem.New(problem.TooLarge, "a secret has at most %d bytes, got %d", custody.MaxSecretBytes, len(secret))
	case !isValidContext(vaultContext):
		return nil, problem.New(problem.Internal, "context of a secret: expected one that does not end in %s, got %.80q", emptySuffix, vaultContext)
	}
	format := byte(formatSecret)
	if len(secret) == 0 {
		format, secret = formatEmpty, []byte{0}
	}
	countRequest(ctx)
	out, err := v.client.Encrypt(ctx, &kms.EncryptInput{KeyId: &v.keyID, Plaintext: secret, EncryptionContext: encryptionContext(format, vaultContext)})
	if err != nil {
		return nil, unavailableError(err, "a secret cannot be sealed now")
	}
	if len(out.CiphertextBlob) == 0 || len(out.CiphertextBlob) > maxCiphertext {
		return nil, problem.New(problem.Unavailable, "the key service sealed a secret as %d bytes; expected 1 to %d", len(out.CiphertextBlob), maxCiphertext)
	}
	return append([]byte{format}, out.CiphertextBlob...), nil
}

func (v *Vault) Open(ctx context.Context, vaultContext string, box []byte) ([]byte, error) {
	switch {
	case !isValidContext(vaultContext):
		return nil, problem.New(problem.Damaged, "a sealed secret of the context %.80q does not belong to this host", vaultContext)
	case len(box) < 2 || len(box) > 1+maxCiphertext:
		return nil, problem.New(problem.Damaged, "sealed secret of %s: expected 2 to %d bytes, got %d", vaultContext, 1+maxCiphertext, len(box))
	case box[0] != formatSecret && box[0] != formatEmpty:
		return nil, problem.New(problem.Damaged, "sealed secret of %s: expected format %d or %d, got %d", vaultContext, formatSecret, formatEmpty, box[0])
	}
	countRequest(ctx)
	// The box could name an attacker's key, so the request names the expected key.
	out, err := v.client.Decrypt(ctx, &kms.DecryptInput{KeyId: &v.keyID, CiphertextBlob: box[1:], EncryptionContext: encryptionContext(box[0], vaultContext)})
	switch {
	case isRejectedBox(err):
		return nil, problem.Wrap(problem.Damaged, err, "sealed secret of %s does not open: it is damaged, or was sealed for another context or under another key", vaultContext)
	case err != nil:
		return nil, unavailableError(err, "sealed secret of "+vaultContext+" cannot be opened now")
	}
	if box[0] == formatEmpty {
		clear(out.Plaintext)
		return []byte{}, nil
	}
	return out.Plaintext, nil
}

func encryptionContext(format byte, vaultContext string) map[string]string {
	if format == formatEmpty {
		vaultContext += emptySuffix
	}
	return map[string]string{contextKey: vaultContext}
}

func isValidContext(vaultContext string) bool {
	return vaultContext != "" && !strings.HasSuffix(vaultContext, emptySuffix)
}

func (v Vault) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "kms.Vault") }

var _ custody.Vault = (*Vault)(nil)

func NewClient(cfg aws.Config, opts ...func(*kms.Options)) *kms.Client {
	return kms.NewFromConfig(cfg, append([]func(*kms.Options){configureClient}, opts...)...)
}
