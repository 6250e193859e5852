package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
	"github.com/vacancy-host/vacancy/tests/caller"
	"github.com/vacancy-host/vacancy/tests/roundtrips"
)

// The promised units of a review.
const (
	maxReviewWrites = 24
	maxReviewReads  = 16
)

// A review is the row, the book, the marks of call and party, the limits of its reviewer, its claim, and
// the registration.
func TestAReviewConsumesFewUnits(t *testing.T) {
	h := newFixture(t)
	ctx := t.Context()
	server := h.money(h.Store(h.Endpoint), time.Now)
	r, err := server.Vacants.Create(ctx, vacants.CreateSpec{Name: "rated", Capability: "is rated", Substrate: "echo"})
	must(t, err)
	_, _, err = server.Vacants.Publish(ctx, r.ID, vacants.PublishOptions{})
	must(t, err)
	counter := &roundtrips.Counter{}
	for i := range 3 { // the third one finds a book and the limits of its reviewer
		c := caller.New(t, r.ID)
		for n := range 2 {
			e := c.Call("rate me", time.Now())
			out := server.Calls.Send(ctx, identity.ID{}, e)
			if out.Problem != nil {
				t.Fatal(out.Problem)
			}
			c.Accepted(e)
			rec := review.Record{Members: review.Members{
				Target: r.ID, Ratings: review.Ratings{"factual": 1, "logical": 1, "relevance": 1, "honesty": 1}, Substrate: "default", CallHash: e.Hash(),
				Claim: fmt.Sprintf("claim %d", n), IssuedAt: canon.FormatTime(time.Now()),
			}}
			must(t, rec.Sign(ctx, c.Key))
			counted := h.money(h.Store(h.Endpoint, counter.Option), time.Now) // with empty caches
			counter.Reset()
			_, err := counted.Reviews.Submit(ctx, rec)
			must(t, err)
			writes, reads := counter.WriteUnits(), counter.ReadUnits()
			t.Logf("review %d of reviewer %d: %v write units, %v read units, %v", n+1, i+1, writes, reads, counter.Operations())
			if writes > maxReviewWrites || reads > maxReviewReads {
				t.Errorf("a review consumed %v write and %v read units, want at most %d and %d", writes, reads, maxReviewWrites, maxReviewReads)
			}
		}
	}
}
