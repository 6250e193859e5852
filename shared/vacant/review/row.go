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

type Class string

const (
	ClassFull    Class = "full"
	ClassQuarter Class = "quarter"
)

// Row is an accepted review in the stream of its target. The hash of the previous row shows if a
// host has changed or dropped a review. The row omits the claim, which the reviewer may erase.
type Row struct {
	Format       int             `json:"format"`
	Prev         identity.Hash   `json:"prev"`
	At           time.Time       `json:"at"`
	AnsweredAt   time.Time       `json:"answered"` // signing time of the answer
	Review       json.RawMessage `json:"review"`   // signed record without its claim
	HasClaim     bool            `json:"claimed,omitempty"`
	Reveal       *Reveal         `json:"reveal,omitempty"`
	Class        Class           `json:"class"`
	ReviewNumber int64           `json:"nth"` // 1 for the first review by the same party
	Substrate    string          `json:"substrate"`
	Weights      Ratings         `json:"weights"`

	Record Record `json:"-"`
}

func (r *Row) Reviewer() identity.ID {
	if r.Reveal != nil {
		return r.Reveal.Reviewer
	}
	return r.Record.Reviewer
}

func NewRow(rec Record, reveal *Reveal) Row {
	return Row{Format: rowFormat, Review: rec.WithoutClaim(), HasClaim: rec.Claim != "", Reveal: reveal, Record: rec}
}

func (r *Record) WithoutClaim() []byte {
	v, _ := canon.Parse(r.bytes(), canon.DefaultLimits()) // Parse and Sign have parsed these bytes
	return omitMembers(v, memberClaim).AppendCJ(nil)
}

// DecodeRow does not verify the signature.
func DecodeRow(data []byte) (r Row, err error) {
	if err := json.Unmarshal(data, &r); err != nil {
		return r, problem.Wrap(problem.Damaged, err, "the row of a review is not readable")
	}
	if r.Format != rowFormat {
		return r, problem.New(problem.Damaged, "the row of a review has format %d, and this program reads %d", r.Format, rowFormat)
	}
	v, err := canon.Parse(r.Review, canon.DefaultLimits())
	if err == nil {
		r.Record, err = decodeRecord(addClaim(v, ""))
	}
	if err != nil {
		return r, problem.WithPlace(problem.Damaged, "the row of a review", err)
	}
	return r, nil
}

func addClaim(v canon.Value, claim string) canon.Value {
	return canon.NewObject(append(slices.Clone(v.Members()), canon.Member{Key: memberClaim, Value: canon.NewString(claim)})...)
}

// Verify returns an error of kind BadSignature unless the reviewer has signed a review of target.
// If the claim was erased, claim is nil, and the hash of the record is not verified.
func (r *Row) Verify(target identity.ID, claim *string) error {
	if claim == nil && !r.HasClaim {
		claim = new(string)
	}
	v, err := canon.Parse(r.Review, canon.DefaultLimits())
	switch {
	case err != nil:
		return err
	case r.Record.Target != target:
		return problem.New(problem.BadSignature, "the review is about another vacant")
	case r.Reveal == nil && !r.Record.Verify(r.Record.Reviewer) || r.Reveal != nil && !r.Reveal.ProvesReviewer(&r.Record):
		return problem.New(problem.BadSignature, "the review's signature does not verify")
	case claim != nil && (*claim != "") != r.HasClaim || claim != nil && identity.Sum(Payload(addClaim(v, *claim))) != r.Record.Hash:
		return problem.New(problem.BadSignature, "the review differs from the review that was signed")
	}
	return nil
}
