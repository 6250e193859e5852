package registryclient

import (
	"context"
	"encoding/json"
	"math"
	"net/url"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/reputation"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

// MaxReviews is the largest page of a reputation history.
const MaxReviews = 100

// Earned is the score by which hosts rank a vacant, and the evidence that it is made of.
type Earned struct {
	Score    float64 `json:"score"`
	Evidence float64 `json:"evidence"`
}

// ReviewReceipt is the answer to a review that was counted.
type ReviewReceipt struct {
	Target    identity.ID    `json:"target"`
	Position  uint64         `json:"position"`            // of the review in the target's history
	Duplicate bool           `json:"duplicate,omitempty"` // whether the same review was counted before
	Class     review.Class   `json:"class"`
	Nth       int64          `json:"nth"`       // number of the reviewer's reviews of the target, with this one
	Substrate string         `json:"substrate"` // what answered
	Weights   review.Ratings `json:"weights"`
	// Before and After are the target's standing. They are equal for a duplicate.
	Before Earned `json:"before"`
	After  Earned `json:"after"`
}

// Reputation is the answer of GET /v1/reputation/{id}.
type Reputation struct {
	ID identity.ID `json:"vacant_id"`
	Earned
	reputation.Book
}

// History is a page of GET /v1/reputation_history/{id}, the oldest reviews first.
type History struct {
	Reviews []Review `json:"reviews"`
	// Next is the cursor of the next page, or "". A cursor is the position of the page's first
	// review.
	Next string `json:"next,omitempty"`
}

// Review is a counted review in a history.
type Review struct {
	Position uint64          `json:"position"`
	Row      json.RawMessage `json:"row"`             // a review.Row, byte for byte
	Claim    *string         `json:"claim,omitempty"` // nil without a claim, or if it was erased
}

// SubmitReview posts a signed review to the host of its target. The same review may be sent again.
func (c *Client) SubmitReview(ctx context.Context, r review.Record) (out ReviewReceipt, err error) {
	return out, c.post(ctx, "/v1/submit_review", nil, r, &out)
}

// Reputation returns a vacant's reputation as its host tells it. It rejects an answer for another id.
func (c *Client) Reputation(ctx context.Context, id identity.ID) (r Reputation, err error) {
	if err = c.get(ctx, "/v1/reputation/"+id.String(), nil, &r); err == nil && r.ID != id {
		err = problem.New(problem.Untrusted, "asked for the reputation of %s, the host answered with the reputation of %s", id.Short(), r.ID.Short())
	}
	return r, err
}

// ReputationHistory returns a page of a vacant's reviews from a cursor on, or from the first one for
// the cursor "". It does not verify them.
func (c *Client) ReputationHistory(ctx context.Context, id identity.ID, cursor string, limit int) (h History, err error) {
	v := url.Values{"limit": {strconv.Itoa(limit)}}
	if cursor != "" {
		v.Set("cursor", cursor)
	}
	return h, c.get(ctx, "/v1/reputation_history/"+id.String(), v, &h)
}

// Recount reads all reviews of a vacant, verifies their signatures and their chain, and folds them.
// The error is Untrusted unless the result is the reputation that the host tells. It keeps one page
// in memory. erased is the number of claims that were erased, so that only their hash is signed.
func (c *Client) Recount(ctx context.Context, id identity.ID) (out Reputation, erased int, err error) {
	if out, err = c.Reputation(ctx, id); err != nil {
		return out, 0, err
	}
	bad := func(err error) error { return problem.Within(problem.Untrusted, "the reviews of "+id.Short(), err) }
	var again reputation.Book
	for cursor := ""; again.Rows < out.Rows; {
		page, err := c.ReputationHistory(ctx, id, cursor, MaxReviews)
		if err != nil {
			return out, erased, err
		}
		// Reviews that were counted since then are left out.
		for _, one := range page.Reviews[:min(uint64(len(page.Reviews)), out.Rows-again.Rows)] {
			row, err := again.Verify(id, one.Row, one.Claim)
			if err != nil {
				return out, erased, bad(err)
			}
			if row.Claimed && one.Claim == nil {
				erased++
			}
		}
		if cursor = page.Next; again.Rows < out.Rows && (cursor == "" || len(page.Reviews) == 0) {
			return out, erased, bad(problem.New(problem.Damaged, "the host tells %d, and shows %d", out.Rows, again.Rows))
		}
	}
	if err := out.Compare(&again); err != nil {
		return out, erased, bad(err)
	}
	if want := again.State().Earned(); math.Abs(out.Score-want) > 1e-9 {
		return out, erased, bad(problem.New(problem.Damaged, "the host tells the score %g, and they make %g", out.Score, want))
	}
	return out, erased, nil
}
