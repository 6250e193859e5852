package review

import (
	"encoding/json"
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

// Row is a counted review in the stream of its target. It contains the hash of the bytes of the row
// before, so a host cannot change or drop a review unnoticed. It does not contain the claim, which may
// be erased.
type Row struct {
	Format    int             `json:"format"`
	Prev      identity.Hash   `json:"prev"`
	At        time.Time       `json:"at"`       // when it was counted
	Answered  time.Time       `json:"answered"` // signed time of the answer
	Review    json.RawMessage `json:"review"`   // the signed record without the claim
	Claimed   bool            `json:"claimed,omitempty"`
	Reveal    *Reveal         `json:"reveal,omitempty"`
	Class     Class           `json:"class"`
	Nth       int64           `json:"nth"`       // number of its party's reviews of the target, with this one
	Substrate string          `json:"substrate"` // what answered, as the host knows
	Weights   Ratings         `json:"weights"`

	Record Record `json:"-"` // Review with an empty claim
}

// Reviewer returns who has signed the review.
func (r *Row) Reviewer() identity.ID {
	if r.Reveal != nil {
		return r.Reveal.Reviewer
	}
	return r.Record.Reviewer
}

// NewRow returns the row of a review. The caller sets the other fields.
func NewRow(rec Record, reveal *Reveal) Row {
	return Row{Format: rowFormat, Review: rec.WithoutClaim(), Claimed: rec.Claim != "", Reveal: reveal, Record: rec}
}

// WithoutClaim returns a signed record without its claim, which may be erased.
func (r *Record) WithoutClaim() []byte {
	v, _ := canon.Parse(r.bytes(), canon.DefaultLimits()) // bytes that were parsed before
	return without(v, memberClaim).AppendCJ(nil)
}

// DecodeRow reads a row. It does not verify its signature.
func DecodeRow(data []byte) (r Row, err error) {
	if err := json.Unmarshal(data, &r); err != nil {
		return r, problem.Wrap(problem.Damaged, err, "the row of a review is not readable")
	}
	if r.Format != rowFormat {
		return r, problem.New(problem.Damaged, "the row of a review has format %d, and this program reads %d", r.Format, rowFormat)
	}
	v, err := canon.Parse(r.Review, canon.DefaultLimits())
	if err == nil {
		r.Record, err = read(withClaim(v, ""))
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
	if claim == nil && !r.Claimed {
		claim = new(string)
	}
	v, err := canon.Parse(r.Review, canon.DefaultLimits())
	switch {
	case err != nil:
		return err
	case r.Record.Target != target:
		return problem.New(problem.BadSignature, "it is a review of another vacant")
	case r.Reveal == nil && !r.Record.Verify(r.Record.Reviewer) || r.Reveal != nil && !r.Reveal.Reveals(&r.Record):
		return problem.New(problem.BadSignature, "the review's signature does not verify")
	case claim != nil && (*claim != "") != r.Claimed || claim != nil && identity.Sum(Payload(withClaim(v, *claim))) != r.Record.Hash:
		return problem.New(problem.BadSignature, "the review's members are not those that were signed")
	}
	return nil
}
