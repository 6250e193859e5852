package review

import (
	"context"
	"fmt"
	"io"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const Scheme = "blake2b-pubkey-nonce-target-v1"

type Blinded struct {
	Record Record `json:"record" canon:"required"`
	Reveal Reveal `json:"reveal" canon:"required"`
}

// Reveal proves who signed a blinded record.
type Reveal struct {
	Commitment identity.Hash `json:"commitment_hex" canon:"required"`
	Reviewer   identity.ID   `json:"reviewer_pubkey_hex" canon:"required"`
	Nonce      identity.Hash `json:"nonce_hex" canon:"required"`
	Target     identity.ID   `json:"target_vid_hex" canon:"required"`
	Scheme     string        `json:"scheme" canon:"required"`
	Signature  hexBytes      `json:"signature_hex" canon:"required"`
}

func (r Record) Blind(ctx context.Context, signer identity.Signer, rand io.Reader) (b Blinded, err error) {
	reveal := Reveal{Reviewer: signer.ID(), Target: r.Target, Scheme: Scheme}
	if _, err := io.ReadFull(rand, reveal.Nonce[:]); err != nil {
		return b, problem.Wrap(problem.Unavailable, err, "no randomness")
	}
	reveal.Commitment = reveal.computeCommitment()
	r.Reviewer, r.Commitment, r.Scheme = identity.ID{}, reveal.Commitment, Scheme
	if err := r.Sign(ctx, signer); err != nil {
		return b, err
	}
	reveal.Signature, err = signer.Sign(ctx, reveal.signedBytes())
	return Blinded{r, reveal}, err
}

func (v *Reveal) computeCommitment() identity.Hash {
	return identity.Sum(fmt.Appendf(nil, "v1|%s|%s|%s", v.Reviewer[:], v.Nonce[:], v.Target))
}

func (v *Reveal) signedBytes() []byte {
	return fmt.Appendf(nil, "%s|%s|%s|%s", v.Commitment[:], v.Nonce[:], v.Target, v.Scheme)
}

func (v *Reveal) Verify() bool {
	return v.Scheme == Scheme && v.Commitment == v.computeCommitment() && identity.Verify(v.Reviewer, v.signedBytes(), v.Signature)
}

func (v *Reveal) ProvesReviewer(r *Record) bool {
	return v.Verify() && v.Commitment == r.Commitment && v.Target == r.Target && r.Verify(v.Reviewer)
}
