// Package review implements signed reviews of answered calls (PROTOCOL §20), blinded reviews, and the
// rows in which a host records the reviews that it has counted.
//
// A signature covers the second canonical form of all members but payload_hash_hex and
// signature_hex. A record that was parsed keeps its number literals, because 1 and 1.0 hash
// differently.
package review

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The limits of a review's texts in bytes.
const (
	MaxClaim     = 1 << 10
	MaxSubstrate = 256
)

// Members of a record.
const (
	memberReviewer    = "reviewer"
	memberCommitment  = "reviewer_commitment"
	memberScheme      = "commitment_scheme"
	memberTarget      = "target"
	memberRatings     = "dimensions"
	memberSubstrate   = "substrate"
	memberCall        = "call_envelope_id_hex"
	memberPosition    = "call_position"
	memberClaim       = "claim"
	memberIssued      = "issued_at"
	memberPayloadHash = "payload_hash_hex"
	memberSignature   = "signature_hex"
)

// Ratings are signals or weights from 0 to 1 by the name of their dimension.
type Ratings map[string]float64

// Dimensions lists the names of the dimensions. A review rates the first three and may rate the
// others.
func Dimensions() []string { return []string{"factual", "logical", "relevance", "honesty", "adoption"} }

const required = 3 // dimensions

// Record is a review of an answered call. In a blinded record, Commitment takes the place of
// Reviewer.
type Record struct {
	Reviewer   identity.ID
	Commitment identity.Hash
	Target     identity.ID
	Ratings    Ratings
	Substrate  string        // in the reviewer's words
	Call       identity.Hash // hash of the call's envelope
	Position   uint64        // of the call in the pair's stream of requests, an extension. It may be 0.
	Claim      string
	IssuedAt   time.Time
	Signature  []byte

	parsed *canon.Value // payload of a record that was parsed
}

// Shape describes a record as JSON.
type Shape struct {
	Reviewer  identity.ID        `json:"reviewer"`
	Target    identity.ID        `json:"target"`
	Ratings   map[string]float64 `json:"dimensions"`
	Substrate string             `json:"substrate"`
	Call      identity.Hash      `json:"call_envelope_id_hex"`
	// Position is an extension: the position of the call in the pair's stream of requests.
	Position    uint64             `json:"call_position,omitempty"`
	Claim       string             `json:"claim"`
	IssuedAt    string             `json:"issued_at"`
	PayloadHash identity.Hash      `json:"payload_hash_hex"`
	Signature   identity.Signature `json:"signature_hex"`
}

// Parse reads a record strictly and verifies its hash. It does not verify the signature. Its errors
// name the member.
func Parse(data []byte) (Record, error) {
	v, err := canon.Parse(data, canon.DefaultLimits())
	if err != nil {
		return Record{}, err
	}
	return Of(v)
}

// Of is Parse for a document that was parsed.
func Of(v canon.Value) (r Record, err error) {
	if v.Kind() != canon.Object {
		return r, problem.New(problem.NotJSON, "body: expected one JSON object, got %s", v.Kind())
	}
	payload := Payload(v)
	if r, err = fields(payload); err != nil {
		return r, err
	}
	if r.Signature, err = signatureOf(v); err != nil {
		return r, err
	}
	if got := text(v, memberPayloadHash); got != r.Hash().String() {
		return r, problem.Invalid(memberPayloadHash, r.Hash().String()+", the hash of the other members", fmt.Sprintf("%.80q", got))
	}
	return r, nil
}

// Payload returns the members of a record that its signature covers.
func Payload(v canon.Value) canon.Value {
	return canon.NewObject(slices.DeleteFunc(slices.Clone(v.Members()), func(m canon.Member) bool {
		return m.Key == memberPayloadHash || m.Key == memberSignature
	})...)
}

func text(v canon.Value, member string) string {
	m, _ := v.Get(member)
	return m.Text()
}

func signatureOf(v canon.Value) ([]byte, error) {
	got := text(v, memberSignature)
	sig, err := hex.DecodeString(got)
	if err != nil || len(sig) != identity.SignatureSize {
		return nil, problem.Invalid(memberSignature, "128 lowercase hex digits", fmt.Sprintf("%.80q", got))
	}
	return sig, nil
}

func fields(v canon.Value) (r Record, err error) {
	r.parsed = &v
	members := []string{memberReviewer, memberTarget, memberRatings, memberSubstrate, memberCall, memberClaim, memberIssued}
	if _, blinded := v.Get(memberCommitment); blinded {
		members = append(members[1:], memberCommitment, memberScheme)
	}
	for _, m := range members {
		if _, ok := v.Get(m); !ok {
			return r, problem.Invalid(m, "a value", "nothing")
		}
	}
	for _, m := range v.Members() {
		if !slices.Contains(members, m.Key) && m.Key != memberPosition {
			return r, problem.Invalid(fmt.Sprintf("%.40q", m.Key), "a member of a review", "another member")
		}
		if err := r.set(m.Key, m.Value); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (r *Record) set(member string, v canon.Value) (err error) {
	got := fmt.Sprintf("%.80s", v.AppendCJ(nil))
	if want := canon.String; v.Kind() != want && member != memberRatings && member != memberPosition {
		return problem.Invalid(member, want.String(), got)
	}
	hexed := func(to *[identity.Size]byte, want string) error {
		b, err := hex.DecodeString(v.Text())
		if err != nil || len(b) != identity.Size || hex.EncodeToString(b) != v.Text() {
			return problem.Invalid(member, want+" of 64 lowercase hex digits", got)
		}
		*to = [identity.Size]byte(b)
		return nil
	}
	switch member {
	case memberReviewer, memberTarget:
		id := &r.Reviewer
		if member == memberTarget {
			id = &r.Target
		}
		if err = hexed((*[identity.Size]byte)(id), "an id"); err == nil && id.Check() != nil {
			err = problem.Invalid(member, "the id of a vacant", got)
		}
	case memberCommitment:
		err = hexed((*[identity.Size]byte)(&r.Commitment), "a commitment")
	case memberScheme:
		if v.Text() != Scheme {
			err = problem.Invalid(member, Scheme, got)
		}
	case memberCall:
		if v.Text() != "" { // the record of a review without a call
			err = hexed((*[identity.Size]byte)(&r.Call), "a hash")
		}
	case memberRatings:
		r.Ratings, err = ratings(v)
	case memberPosition:
		n, ok := v.Int64()
		if r.Position = uint64(n); !ok || n < 1 {
			err = problem.Invalid(member, "a position from 1", got)
		}
	case memberSubstrate:
		r.Substrate, err = v.Text(), checkText(member, v.Text(), MaxSubstrate)
	case memberClaim:
		r.Claim, err = v.Text(), checkText(member, v.Text(), MaxClaim)
	case memberIssued:
		if r.IssuedAt, err = canon.ParseTime(v.Text()); err != nil {
			err = problem.Invalid(member, "a time such as 2026-12-31T00:00:00+00:00", got)
		}
	}
	return err
}

// checkText allows control characters, as the reference does. Programs that print a claim remove them.
func checkText(member, s string, limit int) error {
	if len(s) > limit {
		return problem.Invalid(member, fmt.Sprintf("at most %d bytes", limit), strconv.Itoa(len(s)))
	}
	return nil
}

func ratings(v canon.Value) (Ratings, error) {
	if v.Kind() != canon.Object {
		return nil, problem.Invalid(memberRatings, "an object", fmt.Sprintf("%.80s", v.AppendCJ(nil)))
	}
	all := Ratings{}
	for _, m := range v.Members() {
		f, ok := Number(m.Value)
		if !slices.Contains(Dimensions(), m.Key) || !ok || !(f >= 0 && f <= 1) {
			return nil, problem.Invalid(fmt.Sprintf("%s.%.40s", memberRatings, m.Key), "a number from 0 to 1 for factual, logical, relevance, honesty or adoption", fmt.Sprintf("%.80s", m.Value.AppendCJ(nil)))
		}
		all[m.Key] = f + 0 // -0.0 becomes 0
	}
	return all, all.Check()
}

// Number returns the value of a JSON number.
func Number(v canon.Value) (float64, bool) {
	if v.Kind() != canon.Int && v.Kind() != canon.Float {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v.AppendCJ(nil)), 64)
	return f, err == nil
}

// Check returns an error unless r has the required dimensions and only values from 0 to 1.
func (r Ratings) Check() error {
	for i, d := range Dimensions() {
		if f, ok := r[d]; i < required && !ok || ok && !(f >= 0 && f <= 1) {
			got := "nothing"
			if ok {
				got = strconv.FormatFloat(f, 'g', -1, 64)
			}
			return problem.Invalid(memberRatings+"."+d, "a number from 0 to 1", got)
		}
	}
	return nil
}

// value returns the signed members.
func (r *Record) value() canon.Value {
	if r.parsed != nil {
		return *r.parsed
	}
	of := make([]canon.Member, 0, len(r.Ratings))
	for d, f := range r.Ratings {
		literal, _ := canon.Parse(canon.AppendFloat(nil, f), canon.DefaultLimits())
		of = append(of, canon.Member{Key: d, Value: literal})
	}
	all := []canon.Member{
		{Key: memberTarget, Value: canon.NewString(r.Target.String())},
		{Key: memberRatings, Value: canon.NewObject(of...)},
		{Key: memberSubstrate, Value: canon.NewString(r.Substrate)},
		{Key: memberCall, Value: canon.NewString(hexOrNone(r.Call))},
		{Key: memberClaim, Value: canon.NewString(r.Claim)},
		{Key: memberIssued, Value: canon.NewString(canon.FormatTime(r.IssuedAt))},
	}
	if r.Commitment.IsZero() {
		all = append(all, canon.Member{Key: memberReviewer, Value: canon.NewString(r.Reviewer.String())})
	} else {
		all = append(all, canon.Member{Key: memberCommitment, Value: canon.NewString(r.Commitment.String())}, canon.Member{Key: memberScheme, Value: canon.NewString(Scheme)})
	}
	if r.Position > 0 {
		all = append(all, canon.Member{Key: memberPosition, Value: canon.NewInt(int64(r.Position))})
	}
	return canon.NewObject(all...)
}

func hexOrNone(h identity.Hash) string {
	if h.IsZero() {
		return ""
	}
	return h.String()
}

// Hash returns the hash of the signed members, which the signature covers.
func (r *Record) Hash() identity.Hash { return identity.Sum(r.value().AppendCJA(nil)) }

// Sign checks the record and signs it as signer's, or for a blinded record as the commitment's.
func (r *Record) Sign(ctx context.Context, signer identity.Signer) error {
	r.parsed = nil
	if r.Commitment.IsZero() {
		r.Reviewer = signer.ID()
	}
	checked, err := fields(r.value())
	if err != nil {
		return err
	}
	hash := checked.Hash()
	r.Signature, err = signer.Sign(ctx, hash[:])
	return err
}

// Verify reports whether reviewer has signed r.
func (r *Record) Verify(reviewer identity.ID) bool {
	hash := r.Hash()
	return identity.Verify(reviewer, hash[:], r.Signature)
}

// VerifyLax reports whether the member reviewer of a record has signed its other members, whatever
// they are, as the reference does.
func VerifyLax(v canon.Value) bool {
	hash := identity.Sum(Payload(v).AppendCJA(nil))
	id, err := identity.ParseID(text(v, memberReviewer))
	sig, sigErr := identity.ParseHex(text(v, memberSignature))
	return err == nil && sigErr == nil && text(v, memberPayloadHash) == hash.String() && identity.Verify(id, hash[:], sig)
}

// MarshalJSON returns the record as it is posted.
func (r Record) MarshalJSON() ([]byte, error) {
	return canon.NewObject(append(slices.Clone(r.value().Members()),
		canon.Member{Key: memberPayloadHash, Value: canon.NewString(r.Hash().String())},
		canon.Member{Key: memberSignature, Value: canon.NewString(hex.EncodeToString(r.Signature))},
	)...).AppendCJA(nil), nil
}
