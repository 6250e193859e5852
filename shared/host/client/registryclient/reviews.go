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

const MaxReviewsPerPage = 100

// Earned is the score by which hosts rank a vacant.
type Earned struct {
	Score    float64 `json:"score"`
	Evidence float64 `json:"evidence"`
}

// ReviewReceipt is a host's answer to a review that it has counted.
type ReviewReceipt struct {
	Target            identity.ID    `json:"target"`
	Position          uint64         `json:"position"`
	Duplicate         bool           `json:"duplicate,omitempty"`
	Class             review.Class   `json:"class"`
	PartyReviewNumber int64          `json:"nth"`
	Substrate         string         `json:"substrate"`
	Weights           review.Ratings `json:"weights"`
	ScoreBefore       Earned         `json:"before"`
	ScoreAfter        Earned         `json:"after"`
}

// Reputation is the answer of GET /v1/reputation/{id}.
type Reputation struct {
	ID identity.ID `json:"vacant_id"`
	Earned
	reputation.Book
}

// History is a page of GET /v1/reputation_history/{id}. The oldest reviews come first.
type History struct {
	Reviews []Review `json:"reviews"`
	Next    string   `json:"next,omitempty"`
}

// Review is a counted review in a history.
type Review struct {
	Position uint64          `json:"position"`
	Row      json.RawMessage `json:"row"`             // exact bytes of a review.Row
	Claim    *string         `json:"claim,omitempty"` // nil if absent or erased
}

func (c *Client) SubmitReview(ctx context.Context, r review.Record) (out ReviewReceipt, err error) {
	return out, c.postJSON(ctx, "/v1/submit_review", nil, r, &out)
}

func (c *Client) Reputation(ctx context.Context, id identity.ID) (r Reputation, err error) {
	if err = c.getJSON(ctx, "/v1/reputation/"+id.String(), nil, &r); err == nil && r.ID != id {
		err = problem.New(problem.Untrusted, "asked for the reputation of %s, the host answered with the reputation of %s", id.Short(), r.ID.Short())
	}
	return r, err
}

func (c *Client) ReputationHistory(ctx context.Context, id identity.ID, cursor string, limit int) (h History, err error) {
	v := url.Values{"limit": {strconv.Itoa(limit)}}
	if cursor != "" {
		v.Set("cursor", cursor)
	}
	return h, c.getJSON(ctx, "/v1/reputation_history/"+id.String(), v, &h)
}

// Recount verifies all reviews of a vacant and computes the reputation from them. If the host
// reports another reputation, the error has kind Untrusted. erasedClaims is the number of reviews
// whose claim was erased.
func (c *Client) Recount(ctx context.Context, id identity.ID) (out Reputation, erasedClaims int, err error) {
	if out, err = c.Reputation(ctx, id); err != nil {
		return out, 0, err
	}
	asUntrusted := func(err error) error { return problem.WithPlace(problem.Untrusted, "the reviews of "+id.Short(), err) }
	var recounted reputation.Book
	for cursor := ""; recounted.Rows < out.Rows; {
		page, err := c.ReputationHistory(ctx, id, cursor, MaxReviewsPerPage)
		if err != nil {
			return out, erasedClaims, err
		}
		// Skip reviews that the host has counted since it reported its reputation.
		for _, entry := range page.Reviews[:min(uint64(len(page.Reviews)), out.Rows-recounted.Rows)] {
			row, err := recounted.VerifyAndAdd(id, entry.Row, entry.Claim)
			if err != nil {
				return out, erasedClaims, asUntrusted(err)
			}
			if row.HasClaim && entry.Claim == nil {
				erasedClaims++
			}
		}
		if cursor = page.Next; recounted.Rows < out.Rows && (cursor == "" || len(page.Reviews) == 0) {
			return out, erasedClaims, asUntrusted(problem.New(problem.Damaged, "the host reports %d reviews, but returned only %d", out.Rows, recounted.Rows))
		}
	}
	if err := out.CheckEqual(&recounted); err != nil {
		return out, erasedClaims, asUntrusted(err)
	}
	if want := recounted.State().EarnedScore(); math.Abs(out.Score-want) > 1e-9 {
		return out, erasedClaims, asUntrusted(problem.New(problem.Damaged, "the host reports the score %g, but its reviews result in %g", out.Score, want))
	}
	return out, erasedClaims, nil
}
