//go:build unix

package lambda

import (
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
	"github.com/vacancy-host/vacancy/tests/caller"
)

// The registry counts an open review, and blinded ones at the third reviewer, with the rights of its role.
func TestTheRegistryCountsReviews(t *testing.T) {
	// A vacant whose key was made elsewhere refuses calls of its first minutes.
	host := registeredAt(t, func() time.Time { return time.Now().Add(-10 * time.Minute) })
	server := host.Open(t, host.Store(host.Endpoint), time.Now, nil)
	registry := run(t, "registry", host)
	publish(t, registry, sampleHalo(time.Now()), 200, "")
	post := func(path string, v any, want string) {
		t.Helper()
		body, err := json.Marshal(v)
		must(t, err)
		r, err := registry.Post(t.Context(), path, body)
		if err != nil || r.Status != 200 || !strings.Contains(r.Body, want) {
			t.Fatalf("POST %s = %d %s, %v; want 200 with %s\n%s", path, r.Status, r.Body, err, want, registry.Log())
		}
	}
	id := sampleVacant.ID()
	for _, waiting := range []string{"", `"buffered":1`, `"buffered":2`, `"flushed_count":3`} {
		c := caller.New(t, id)
		e := c.Call("rate me", time.Now())
		out := server.Calls.Send(t.Context(), identity.ID{}, e)
		if out.Problem != nil {
			t.Fatal(out.Problem)
		}
		rec := review.Record{Members: review.Members{
			Target: id, Ratings: review.Ratings{"factual": 1, "logical": 1, "relevance": 1}, Substrate: "default", CallHash: e.Hash(), Position: int64(out.Position),
			Claim: "good", IssuedAt: canon.FormatTime(time.Now()),
		}}
		if waiting == "" {
			must(t, rec.Sign(t.Context(), c.Key))
			post("/v1/submit_review", rec, `"position":1`)
			post("/v1/submit_review", rec, `"duplicate":true`)
			continue
		}
		blinded, err := rec.Blind(t.Context(), c.Key, rand.Reader)
		must(t, err)
		post("/v/"+id.String()+"/reviews/blinded_ingest", blinded, waiting)
	}
	r, err := server.Reviews.Reputation(t.Context(), id)
	if err != nil || r.Rows != 4 || r.Score <= 0 {
		t.Errorf("Reputation() = %+v, %v, want 4 reviews", r, err)
	}
}
