//go:build unix

package kills

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

// prepareReview sends a call and signs a review of its answer.
func prepareReview(s *stage) {
	s.t.Helper()
	server, _, done := s.target.aside(s.t, s.target.now)
	defer done()
	e := s.caller.Call("rate me", s.target.now())
	out := server.Calls.Send(s.ctx, identity.ID{}, e)
	if out.Problem != nil {
		s.t.Fatal(out.Problem)
	}
	s.caller.Accepted(e)
	r := review.Record{Members: review.Members{
		Target: s.caller.To, Ratings: review.Ratings{"factual": 1, "logical": 1, "relevance": 1}, Substrate: "default",
		CallHash: e.Hash(), Position: int64(out.Position), Claim: "good", IssuedAt: canon.FormatTime(s.target.now()),
	}}
	s.must(r.Sign(s.ctx, s.caller.Key))
	b, err := json.Marshal(r)
	s.must(err)
	s.body = b
}

func submitReview(s *stage) request { return request{path: "/v1/submit_review", body: s.body} }

// submitReviewAgain finds the review counted or not, and counted once after it was sent again.
func submitReviewAgain(s *stage, p process, r request, _ *response, then fate) {
	s.t.Helper()
	rows := func() uint64 {
		s.t.Helper()
		got, err := p.do(request{method: http.MethodGet, path: fmt.Sprintf("/v1/reputation/%s", s.caller.To)})
		s.must(err)
		return decode[registryclient.Reputation](s.t, got).Rows
	}
	if got, want := rows(), map[fate]uint64{fresh: 0, done: 1}[then]; got != want {
		s.t.Fatalf("%d reviews are counted, want %d, %s", got, want, then)
	}
	got, err := p.do(r)
	s.must(err)
	if receipt := decode[registryclient.ReviewReceipt](s.t, got); got.status != 200 || receipt.Position != 1 || receipt.Duplicate != (then == done) || rows() != 1 {
		s.t.Fatalf("again: %d %s, want 200 and the first review", got.status, got.body)
	}
}
