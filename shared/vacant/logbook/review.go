package logbook

import (
	"slices"

	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

// KindReviewIssued is the kind of an entry about a review that the owner of the logbook has signed.
const KindReviewIssued = "REVIEW_ISSUED"

// ReviewIssued returns the payload for a signed review: its members without the claim, which may be
// erased.
func ReviewIssued(r *review.Record) ([]byte, error) {
	b, err := r.MarshalJSON()
	if err != nil {
		return nil, err
	}
	v, err := canon.Parse(b, canon.DefaultLimits())
	return object(slices.DeleteFunc(slices.Clone(v.Members()), func(m canon.Member) bool { return m.Key == "claim" })...), err
}
