// Package review implements signed reviews of answered calls (PROTOCOL §20), blinded reviews, and
// the rows in which a host stores accepted reviews.
//
// The signed hash covers the canonical form CJ-A (package canon) of all members except
// payload_hash_hex and signature_hex. A record stores the hashed bytes, because encoding its
// members again could turn 1.0 into 1, which has another hash.
package review

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const MaxClaimBytes = 1 << 10

func Dimensions() []string { return []string{"factual", "logical", "relevance", "honesty", "adoption"} }

// requiredCount is the number of leading Dimensions that each review must rate.
const requiredCount = 3

type Ratings map[string]float64

func (r Ratings) Check() error {
	for _, d := range slices.Sorted(maps.Keys(r)) {
		if !slices.Contains(Dimensions(), d) {
			return problem.Invalid("dimensions."+d, "factual, logical, relevance, honesty or adoption", "another dimension")
		}
		if f := r[d]; !(f >= 0 && f <= 1) {
			return problem.Invalid("dimensions."+d, "a number from 0 to 1", fmt.Sprint(f))
		}
	}
	for _, d := range Dimensions()[:requiredCount] {
		if _, ok := r[d]; !ok {
			return problem.Invalid("dimensions."+d, "a number from 0 to 1", "nothing")
		}
	}
	return nil
}

type Record struct {
	Members
	payloadBytes []byte
}

// Members contains the members of a record. A blinded record has a Commitment instead of a
// Reviewer.
type Members struct {
	Reviewer   identity.ID   `json:"reviewer,omitzero"`
	Commitment identity.Hash `json:"reviewer_commitment,omitzero"`
	Scheme     string        `json:"commitment_scheme,omitempty"`
	Target     identity.ID   `json:"target" canon:"required"`
	Ratings    Ratings       `json:"dimensions" canon:"required"`
	Substrate  string        `json:"substrate" canon:"required,max=256"`
	CallHash   identity.Hash `json:"call_envelope_id_hex,omitzero"`              // envelope hash of the call
	Position   int64         `json:"call_position,omitempty" canon:"min=1"`      // in the pair's request stream
	Claim      string        `json:"claim" canon:"required,max=1024"`            // may have control characters
	IssuedAt   string        `json:"issued_at" canon:"required"`                 // form of canon.FormatTime
	Hash       identity.Hash `json:"payload_hash_hex,omitzero" canon:"required"` // hash of the members above
	Signature  hexBytes      `json:"signature_hex,omitempty" canon:"required"`   // signature of Hash
}

type hexBytes []byte

func (b hexBytes) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, b), nil }

func (b *hexBytes) UnmarshalText(text []byte) (err error) {
	*b, err = identity.ParseHex(string(text))
	return err
}

const (
	memberReviewer    = "reviewer"
	memberCall        = "call_envelope_id_hex"
	memberClaim       = "claim"
	memberPayloadHash = "payload_hash_hex"
	memberSignature   = "signature_hex"
)

// Parse verifies the hash of a record, but not its signature.
func Parse(data []byte) (r Record, err error) {
	v, err := canon.Parse(data, canon.DefaultLimits())
	if err != nil {
		return r, err
	}
	return ParseValue(v)
}

func ParseValue(v canon.Value) (r Record, err error) {
	r, err = decodeRecord(v)
	if want, got := identity.Sum(r.payloadBytes).String(), stringOrEmpty(v, memberPayloadHash); err == nil && got != want {
		err = problem.Invalid(memberPayloadHash, want+", the hash of the other members", fmt.Sprintf("%.80q", got))
	}
	return r, err
}

func (r *Record) UnmarshalJSON(data []byte) (err error) {
	*r, err = Parse(data)
	return err
}

func decodeRecord(v canon.Value) (r Record, err error) {
	if v.Kind() == canon.Object && stringOrEmpty(v, memberCall) == "" { // the review names no call
		r.payloadBytes, v = Payload(v), omitMembers(v, memberCall)
	} else {
		r.payloadBytes = Payload(v)
	}
	if err := canon.Unmarshal(v.AppendCJ(nil), &r.Members, canon.DefaultLimits()); err != nil {
		return r, err
	}
	for d := range r.Ratings {
		r.Ratings[d] += 0 // -0.0 becomes 0
	}
	switch {
	case r.Commitment.IsZero() == r.Reviewer.IsZero():
		err = problem.Invalid(memberReviewer, "the id of the reviewer, or a commitment in its place", "both or neither")
	case !r.Commitment.IsZero() && r.Scheme != Scheme || r.Commitment.IsZero() && r.Scheme != "":
		err = problem.Invalid("commitment_scheme", Scheme, fmt.Sprintf("%.80q", r.Scheme))
	case r.Commitment.IsZero() && r.Reviewer.Check() != nil:
		err = problem.Invalid(memberReviewer, "the id of a vacant", r.Reviewer.String())
	default:
		err = r.Ratings.Check()
	}
	if _, timeErr := canon.ParseTime(r.IssuedAt); err == nil && timeErr != nil {
		err = problem.Invalid("issued_at", "a time such as 2026-12-31T00:00:00+00:00", fmt.Sprintf("%.80q", r.IssuedAt))
	}
	return r, err
}

// Payload returns the bytes that the hash of a record covers.
func Payload(v canon.Value) []byte {
	return omitMembers(v, memberPayloadHash, memberSignature).AppendASCII(nil)
}

func omitMembers(v canon.Value, keys ...string) canon.Value {
	return canon.NewObject(slices.DeleteFunc(slices.Clone(v.Members()), func(m canon.Member) bool { return slices.Contains(keys, m.Key) })...)
}

func stringOrEmpty(v canon.Value, member string) string {
	m, _ := v.Get(member)
	return m.Text()
}

// Sign sets Reviewer to the signer, unless r has a Commitment.
func (r *Record) Sign(ctx context.Context, signer identity.Signer) error {
	if r.Hash, r.Signature = (identity.Hash{}), nil; r.Commitment.IsZero() {
		r.Reviewer = signer.ID()
	}
	if err := r.Ratings.Check(); err != nil {
		return err
	}
	b, err := json.Marshal(r.Members)
	if err != nil {
		return problem.Wrap(problem.Malformed, err, "the review")
	}
	v, err := canon.Parse(b, canon.DefaultLimits())
	if err != nil {
		return err
	}
	r.payloadBytes = v.AppendASCII(nil)
	r.Hash = identity.Sum(r.payloadBytes)
	if r.Signature, err = signer.Sign(ctx, r.Hash[:]); err != nil {
		return err
	}
	*r, err = Parse(r.bytes())
	return err
}

func (r *Record) Verify(reviewer identity.ID) bool {
	return identity.Verify(reviewer, r.Hash[:], r.Signature)
}

// VerifySignatureOnly accepts records with missing or invalid members, like the Python reference
// implementation.
func VerifySignatureOnly(v canon.Value) bool {
	hash := identity.Sum(Payload(v))
	id, err := identity.ParseID(stringOrEmpty(v, memberReviewer))
	sig, sigErr := identity.ParseHex(stringOrEmpty(v, memberSignature))
	return err == nil && sigErr == nil && stringOrEmpty(v, memberPayloadHash) == hash.String() && identity.Verify(id, hash[:], sig)
}

func (r Record) MarshalJSON() ([]byte, error) { return r.bytes(), nil }

func (r *Record) bytes() []byte {
	return fmt.Appendf(slices.Clip(r.payloadBytes[:len(r.payloadBytes)-1]), `,%q:"%s",%q:"%x"}`, memberPayloadHash, r.Hash, memberSignature, []byte(r.Signature))
}
