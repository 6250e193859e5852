package integration

import (
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/admin"
)

// slow calls a slow vacant: message hands the turn to worker, and the same bytes get the answer.
func (s *deployed) slow(t *testing.T) {
	t.Helper()
	v, work := s.vacant(t), "5m"
	if _, err := admin.UpdateVacant.Call(t.Context(), s.admin(t), admin.NewVacantRequest(v.String(), admin.Update{CallTimeout: &work})); err != nil {
		t.Fatal(err)
	}
	p := s.pair(t, v)
	e := p.Call("take your time", time.Now())
	var first heard
	await.Until(t, "the vacant is slow for message, which knows it for a second", func() bool {
		first = p.send(e)
		if first.Reply == nil || first.State != "" {
			return true
		}
		p.Accepted(e)
		e = p.Call("take your time", time.Now())
		return false
	})
	if first.State != "pending" {
		t.Fatalf("the call = %v, want it pending", first)
	}
	await.Until(t, "worker has run the turn", func() bool { return p.send(e).State == "answered" })
}

func TestASlowCallIsAnsweredByTheWorker(t *testing.T) { shared(t).slow(t) }
