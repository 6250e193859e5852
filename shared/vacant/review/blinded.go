package review

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Scheme names the form of commitments.
const Scheme = "blake2b-pubkey-nonce-target-v1"

// Reveal proves who has signed a blinded record. Its JSON has the names of the reference.
type Reveal struct {
	Commitment identity.Hash `json:"commitment_hex" canon:"required"`
	Reviewer   identity.ID   `json:"reviewer_pubkey_hex" canon:"required"`
	Nonce      identity.Hash `json:"nonce_hex" canon:"required"`
	Target     identity.ID   `json:"target_vid_hex" canon:"required"`
	Scheme     string        `json:"scheme" canon:"required"`
	Signature  string        `json:"signature_hex" canon:"required"` // in hex
}

// BlindedShape describes a blinded review as it is posted.
type BlindedShape struct {
	Record struct {
		Commitment  identity.Hash      `json:"reviewer_commitment"`
		Scheme      string             `json:"commitment_scheme"`
		Target      identity.ID        `json:"target"`
		Ratings     map[string]float64 `json:"dimensions"`
		Substrate   string             `json:"substrate"`
		Call        identity.Hash      `json:"call_envelope_id_hex"`
		Position    uint64             `json:"call_position,omitempty"`
		Claim       string             `json:"claim"`
		IssuedAt    string             `json:"issued_at"`
		PayloadHash identity.Hash      `json:"payload_hash_hex"`
		Signature   identity.Signature `json:"signature_hex"`
	} `json:"record"`
	Reveal Reveal `json:"reveal"`
}

// ParseReveal reads a reveal without verifying it.
func ParseReveal(v canon.Value) (r Reveal, err error) {
	return r, canon.Unmarshal(v.AppendCJ(nil), &r, canon.DefaultLimits())
}

// Blind signs r as a blinded record and returns its reveal.
func (r *Record) Blind(ctx context.Context, signer identity.Signer, rand io.Reader) (v Reveal, err error) {
	v = Reveal{Reviewer: signer.ID(), Target: r.Target, Scheme: Scheme}
	if _, err := io.ReadFull(rand, v.Nonce[:]); err != nil {
		return v, problem.Wrap(problem.Unavailable, err, "no randomness")
	}
	v.Commitment = v.commitment()
	r.Reviewer, r.Commitment = identity.ID{}, v.Commitment
	if err := r.Sign(ctx, signer); err != nil {
		return v, err
	}
	signature, err := signer.Sign(ctx, v.signed())
	v.Signature = hex.EncodeToString(signature)
	return v, err
}

func (v *Reveal) commitment() identity.Hash {
	return identity.Sum(fmt.Appendf(nil, "v1|%s|%s|%s", v.Reviewer[:], v.Nonce[:], v.Target))
}

func (v *Reveal) signed() []byte {
	return fmt.Appendf(nil, "%s|%s|%s|%s", v.Commitment[:], v.Nonce[:], v.Target, v.Scheme)
}

// Verify reports whether the reviewer has signed the reveal of its own commitment.
func (v *Reveal) Verify() bool {
	signature, err := identity.ParseHex(v.Signature)
	return err == nil && v.Scheme == Scheme && v.Commitment == v.commitment() && identity.Verify(v.Reviewer, v.signed(), signature)
}

// Reveals reports whether v proves who has signed the blinded record r.
func (v *Reveal) Reveals(r *Record) bool {
	return v.Verify() && v.Commitment == r.Commitment && v.Target == r.Target && r.Verify(v.Reviewer)
}
