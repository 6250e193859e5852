package review

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const rowFormat = 1

// Class says how much a host counts a review.
type Class string

// The classes.
const (
	Full    Class = "full"
	Quarter Class = "quarter" // together limited by the day and in total
)

// Row is a counted review in the stream of its target. The row of a stream at position n contains
// the hash of the bytes of the row before, so a host cannot change or drop a review unnoticed. It
// does not contain the claim, which may be erased.
type Row struct {
	Format    int             `json:"format"`
	Prev      identity.Hash   `json:"prev"`
	At        time.Time       `json:"at"`       // when it was counted
	Answered  time.Time       `json:"answered"` // signed time of the answer
	Payload   json.RawMessage `json:"payload"`  // signed members without the claim
	Claimed   bool            `json:"claimed,omitempty"`
	Hash      identity.Hash   `json:"payload_hash_hex"`
	Signature string          `json:"signature_hex"`
	Reveal    *Reveal         `json:"reveal,omitempty"`
	Class     Class           `json:"class"`
	Nth       int64           `json:"nth"`       // number of the reviewer's reviews of the target, with this one
	Substrate string          `json:"substrate"` // what answered, as the host knows
	Weights   Ratings         `json:"weights"`
	record    Record          // parsed from Payload, with an empty claim
}

// Record returns the review without its claim.
func (r *Row) Record() Record { return r.record }

// Reviewer returns who has signed the review.
func (r *Row) Reviewer() identity.ID {
	if r.Reveal != nil {
		return r.Reveal.Reviewer
	}
	return r.record.Reviewer
}

// NewRow returns the row of a review. The caller sets the other fields.
func NewRow(rec Record, reveal *Reveal) Row {
	v := rec.value()
	r := Row{
		Format: rowFormat, Payload: withoutClaim(v).AppendCJA(nil), Claimed: rec.Claim != "", Hash: rec.Hash(), Signature: hex.EncodeToString(rec.Signature), Reveal: reveal,
		record: rec,
	}
	return r
}

func withoutClaim(v canon.Value) canon.Value {
	return canon.NewObject(slices.DeleteFunc(slices.Clone(v.Members()), func(m canon.Member) bool { return m.Key == memberClaim })...)
}

// Encode returns the bytes of a row, whose hash the next row contains.
func (r *Row) Encode() ([]byte, error) { return json.Marshal(r) }

// DecodeRow reads a row. It does not verify its signature.
func DecodeRow(data []byte) (r Row, err error) {
	if err := json.Unmarshal(data, &r); err != nil {
		return r, problem.Wrap(problem.Damaged, err, "the row of a review is not readable")
	}
	if r.Format != rowFormat {
		return r, problem.New(problem.Damaged, "the row of a review has format %d, and this program reads %d", r.Format, rowFormat)
	}
	v, err := canon.Parse(r.Payload, canon.DefaultLimits())
	if err == nil {
		r.record, err = fields(withClaim(v, ""))
	}
	if err == nil {
		r.record.Signature, err = hex.DecodeString(r.Signature)
	}
	for d, w := range r.Weights {
		if !slices.Contains(Dimensions(), d) || !(w >= 0) || math.IsInf(w, 1) {
			err = problem.Invalid("weights."+d, "a weight of at least 0", "another value")
		}
	}
	if err != nil {
		return r, problem.Within(problem.Damaged, "the row of a review", err)
	}
	return r, nil
}

func withClaim(v canon.Value, claim string) canon.Value {
	return canon.NewObject(append(slices.Clone(v.Members()), canon.Member{Key: memberClaim, Value: canon.NewString(claim)})...)
}

// Verify returns an error of kind BadSignature unless the reviewer has signed the row's review of
// target. If claim is nil and the review has a claim, the claim was erased, and only the signature
// of the hash is verified.
func (r *Row) Verify(target identity.ID, claim *string) error {
	bad := func(why string) error { return problem.New(problem.BadSignature, "%s", why) }
	if !r.Claimed {
		if claim != nil {
			return bad("a review without a claim has one")
		}
		claim = new(string)
	}
	switch {
	case r.record.Target != target:
		return bad("it is a review of another vacant")
	case !identity.Verify(r.Reviewer(), r.Hash[:], r.record.Signature):
		return bad("the review's signature does not verify")
	case r.Reveal != nil && !(r.Reveal.Verify() && r.Reveal.Commitment == r.record.Commitment && r.Reveal.Target == target):
		return bad("the reveal of a blinded review does not verify")
	case claim != nil && identity.Sum(withClaim(withoutClaim(r.record.value()), *claim).AppendCJA(nil)) != r.Hash:
		return bad("the review's members are not those that were signed")
	}
	return nil
}
