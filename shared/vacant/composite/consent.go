package composite

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The intents of a second parent. The reference's signed bytes name neither the
// other parent nor the child, so anybody who has seen them can reuse them. Ours
// name both and are signed in addition.
const (
	mergeReference = "vacant:spawn:D4:lineage_merge"
	merge          = "vacancy:spawn:D4:v1"
)

// NonceSize is the length of a nonce in bytes; it is written in lowercase hex.
const NonceSize = 16

// NewNonce returns a random nonce.
func NewNonce(rand io.Reader) (string, error) {
	b := make([]byte, NonceSize)
	if _, err := io.ReadFull(rand, b); err != nil {
		return "", problem.Wrap(problem.Unavailable, err, "cannot make a nonce")
	}
	return hex.EncodeToString(b), nil
}

func checkNonce(s string) error {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != NonceSize || hex.EncodeToString(b) != s {
		return problem.Invalid("nonce", fmt.Sprintf("%d lowercase hex digits", 2*NonceSize), fmt.Sprintf("%.40q", s))
	}
	return nil
}

// Consent is signed by the second parent of a path D4 child. The second parent
// makes both signatures.
type Consent struct {
	ParentID, SecondaryID, ChildID identity.ID
	Nonce                          string
	Reference                      []byte // over its key and the reference's intent
	Signature                      []byte // over SigningBytes
}

// SigningBytes are the bytes the second parent signs for this child.
func (c *Consent) SigningBytes() []byte {
	return canon.NewObject(
		canon.Member{Key: "child_id", Value: canon.NewString(c.ChildID.String())},
		canon.Member{Key: "intent", Value: canon.NewString(merge)},
		canon.Member{Key: "nonce", Value: canon.NewString(c.Nonce)},
		canon.Member{Key: "parent_id", Value: canon.NewString(c.ParentID.String())},
		canon.Member{Key: "secondary_parent_id", Value: canon.NewString(c.SecondaryID.String())},
	).AppendCJ(nil)
}

// referenceBytes are the bytes that the reference has the second parent sign:
// the hash of its key and the intent (PROTOCOL §21).
func (c *Consent) referenceBytes() []byte {
	h := identity.Sum(append(append(append([]byte{}, c.SecondaryID[:]...), 0x1f), mergeReference...))
	return h[:]
}

func (c *Consent) check() error {
	if err := checkParties(c.ParentID, c.ChildID); err != nil {
		return err
	}
	if err := c.SecondaryID.Check(); err != nil {
		return problem.New(problem.Malformed, "secondary_parent_id: %s", problem.Of(err).Text())
	}
	if c.SecondaryID == c.ParentID || c.SecondaryID == c.ChildID {
		return problem.Invalid("secondary_parent_id", "an id other than parent_id and child_id", "the same id")
	}
	return checkNonce(c.Nonce)
}

// Sign sets both signatures with s, which must be the second parent's.
func (c *Consent) Sign(ctx context.Context, s identity.Signer) error {
	if err := c.check(); err != nil {
		return err
	}
	if s.ID() != c.SecondaryID {
		return problem.New(problem.Untrusted, "consent of the second parent %s: cannot be signed by %s", c.SecondaryID.Short(), s.ID().Short())
	}
	reference, err := s.Sign(ctx, c.referenceBytes())
	if err != nil {
		return err
	}
	signature, err := s.Sign(ctx, c.SigningBytes())
	if err != nil {
		return err
	}
	c.Reference, c.Signature = reference, signature
	return nil
}

// Verify returns nil if the second parent consented to this child, or an error
// of kind Malformed or Consent.
func (c *Consent) Verify() error {
	if err := c.check(); err != nil {
		return err
	}
	if !identity.Verify(c.SecondaryID, c.referenceBytes(), c.Reference) || !identity.Verify(c.SecondaryID, c.SigningBytes(), c.Signature) {
		return problem.New(problem.Consent, "consent of the second parent %s did not verify", c.SecondaryID.Short())
	}
	return nil
}
