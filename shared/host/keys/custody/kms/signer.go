package kms

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// maxMessageBytes is the largest message in bytes that KMS signs raw.
const maxMessageBytes = 4096

// NewSigner returns a function that fetches an Ed25519 public key from KMS once, on first use, and
// returns its identity.Signer.
func NewSigner(client *kms.Client, keyID string) func(context.Context) (identity.Signer, error) {
	var cache atomic.Pointer[signer]
	return func(ctx context.Context) (identity.Signer, error) {
		if s := cache.Load(); s != nil {
			return s, nil
		}
		id, err := fetchPublicKey(ctx, client, keyID)
		if err != nil {
			return nil, err
		}
		s := &signer{client: client, keyID: keyID, id: id}
		cache.Store(s)
		return s, nil
	}
}

func fetchPublicKey(ctx context.Context, client *kms.Client, keyID string) (id identity.ID, err error) {
	countRequest(ctx)
	out, err := client.GetPublicKey(ctx, &kms.GetPublicKeyInput{KeyId: &keyID})
	if err != nil {
		return id, unavailableError(err, "the host's identity key cannot be read now")
	}
	if out.KeySpec != types.KeySpecEccNistEdwards25519 || !slices.Contains(out.SigningAlgorithms, types.SigningAlgorithmSpecEd25519Sha512) {
		return id, &problem.Error{
			Kind: problem.Damaged, Field: "the host's identity key",
			Want: string(types.KeySpecEccNistEdwards25519) + " for signing", Got: fmt.Sprintf("%.40q", out.KeySpec),
		}
	}
	return parsePublicKey(out.PublicKey)
}

func parsePublicKey(der []byte) (id identity.ID, err error) {
	// Signatures of a key that fails Check could be invalid or forgeable.
	parsed, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return id, problem.Wrap(problem.Damaged, err, "the host's identity key: expected an Ed25519 public key in DER, got %d other bytes", len(der))
	}
	public, ok := parsed.(ed25519.PublicKey)
	if !ok || len(public) != identity.Size {
		return id, problem.New(problem.Damaged, "the host's identity key: expected an Ed25519 public key, got another kind")
	}
	copy(id[:], public)
	if err := id.Check(); err != nil {
		return identity.ID{}, problem.Wrap(problem.Damaged, err, "the host's identity key cannot be used for signing")
	}
	return id, nil
}

type signer struct {
	client *kms.Client
	keyID  string
	id     identity.ID
}

func (s *signer) ID() identity.ID { return s.id }

// Sign verifies the new signature, because a damaged signature or a signature by another key must
// not be used under this id.
func (s *signer) Sign(ctx context.Context, msg []byte) ([]byte, error) {
	switch {
	case len(msg) == 0:
		return nil, problem.Invalid("message to sign", "at least 1 byte", "none")
	case len(msg) > maxMessageBytes:
		return nil, problem.New(problem.TooLarge, "message to sign: expected at most %d bytes, got %d", maxMessageBytes, len(msg))
	}
	countRequest(ctx)
	out, err := s.client.Sign(ctx, &kms.SignInput{
		KeyId: &s.keyID, Message: msg, MessageType: types.MessageTypeRaw,
		SigningAlgorithm: types.SigningAlgorithmSpecEd25519Sha512,
	})
	if err != nil {
		return nil, unavailableError(err, "the host cannot sign now")
	}
	if !identity.Verify(s.id, msg, out.Signature) {
		return nil, problem.New(problem.Untrusted, "the key service's signature is not by host %s", s.id.Short())
	}
	return out.Signature, nil
}

func (s *signer) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "kms key of "+s.id.Short()) }
