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

// A second parent makes two signatures, one for each intent. The signature for referenceMergeIntent
// covers neither the first parent nor the child, so anyone who has seen it can reuse it for another
// child. The signature for mergeIntent covers both.
const (
	referenceMergeIntent = "vacant:spawn:D4:lineage_merge"
	mergeIntent          = "vacancy:spawn:D4:v1"
)

const NonceSize = 16

func NewNonce(rand io.Reader) (string, error) {
	b := make([]byte, NonceSize)
	if _, err := io.ReadFull(rand, b); err != nil {
		return "", problem.Wrap(problem.Unavailable, err, "cannot create a nonce")
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

type Consent struct {
	ParentID, SecondParentID, ChildID identity.ID
	Nonce                             string
	ReferenceSignature                []byte
	Signature                         []byte
}

func (c *Consent) SignedBytes() []byte {
	return canon.NewObject(
		canon.Member{Key: "child_id", Value: canon.NewString(c.ChildID.String())},
		canon.Member{Key: "intent", Value: canon.NewString(mergeIntent)},
		canon.Member{Key: "nonce", Value: canon.NewString(c.Nonce)},
		canon.Member{Key: "parent_id", Value: canon.NewString(c.ParentID.String())},
		canon.Member{Key: "secondary_parent_id", Value: canon.NewString(c.SecondParentID.String())},
	).AppendCJ(nil)
}

// referenceBytes returns the hash of the second parent's key and referenceMergeIntent, as in the
// Python reference implementation.
func (c *Consent) referenceBytes() []byte {
	h := identity.Sum(append(append(append([]byte{}, c.SecondParentID[:]...), 0x1f), referenceMergeIntent...))
	return h[:]
}

func (c *Consent) check() error {
	if err := checkParties(c.ParentID, c.ChildID); err != nil {
		return err
	}
	if err := c.SecondParentID.Check(); err != nil {
		return problem.New(problem.Malformed, "secondary_parent_id: %s", problem.AsError(err).Text())
	}
	if c.SecondParentID == c.ParentID || c.SecondParentID == c.ChildID {
		return problem.Invalid("secondary_parent_id", "an id other than parent_id and child_id", "the same id")
	}
	return checkNonce(c.Nonce)
}

func (c *Consent) Sign(ctx context.Context, s identity.Signer) error {
	if err := c.check(); err != nil {
		return err
	}
	if s.ID() != c.SecondParentID {
		return problem.New(problem.Untrusted, "consent of the second parent %s: cannot be signed by %s", c.SecondParentID.Short(), s.ID().Short())
	}
	reference, err := s.Sign(ctx, c.referenceBytes())
	if err != nil {
		return err
	}
	signature, err := s.Sign(ctx, c.SignedBytes())
	if err != nil {
		return err
	}
	c.ReferenceSignature, c.Signature = reference, signature
	return nil
}

func (c *Consent) Verify() error {
	if err := c.check(); err != nil {
		return err
	}
	if !identity.Verify(c.SecondParentID, c.referenceBytes(), c.ReferenceSignature) || !identity.Verify(c.SecondParentID, c.SignedBytes(), c.Signature) {
		return problem.New(problem.ConsentRequired, "consent of the second parent %s did not verify", c.SecondParentID.Short())
	}
	return nil
}
