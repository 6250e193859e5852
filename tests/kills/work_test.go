//go:build unix

package kills

import (
	"context"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/workapi"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/worker"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
)

// offering makes a turn that waits for a worker, and a key with the scope work. The process of the call dies, so the turn
// stays as it is.
func offering(s *stage) {
	s.t.Helper()
	rich(s)
	server, data, done := s.target.aside(s.t, s.target.now)
	defer done()
	r, err := server.Vacants.Create(s.ctx, vacants.CreateSpec{Name: "mole", Capability: "digs", Substrate: substrate.KindWorker, Tenant: "acme"})
	s.must(err)
	_, s.key, err = server.Billing.MakeKey(s.ctx, s.account, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeWork}})
	s.must(err)
	remote, err := server.Workers.Kinds()[substrate.KindWorker]("")
	s.must(err)
	ctx, die := context.WithCancel(s.ctx)
	s.t.Cleanup(die)
	go func() {
		_, _ = substrate.ReadAnswer(remote.Infer(ctx, substrate.NewTextRequest(s.caller.Key.ID(), r.ID, "dig")))
	}()
	await.Until(s.t, "the turn waits", func() bool {
		found, _, err := data.Docs(s.ctx, worker.WaitingDocs.Range("acme", "live"), 1, "")
		return err == nil && len(found) == 1
	})
	s.body = []byte(`{"vacant":"` + r.ID.String() + `"}`)
}

func (s *stage) work(path, body string) request {
	return request{path: workapi.Path + path, body: []byte(body), header: http.Header{"Authorization": {"Bearer " + s.key}}}
}

func aLease(s *stage) request { return s.work("/lease", string(s.body)) }

// leased leases the turn.
func leased(s *stage, p process) {
	s.t.Helper()
	got, err := p.do(aLease(s))
	s.must(err)
	turn := decode[workapi.Offer](s.t, got).Turn
	if turn == nil {
		s.t.Fatalf("lease = %d %s", got.status, got.body)
	}
	s.body = []byte("/" + turn.Lease)
}

// leaseAgain wants the turn, unless the dead host has given it to a worker.
func leaseAgain(s *stage, p process, r request, _ *response, then fate) {
	s.t.Helper()
	got, err := p.do(r)
	s.must(err)
	if turn := decode[workapi.Offer](s.t, got).Turn; got.status != http.StatusOK || (turn != nil) != (then == fresh) {
		s.t.Fatalf("leased again: %d %s, %s", got.status, got.body, then)
	}
}

func someEvents(s *stage) request {
	return s.work(string(s.body)+"/events", `{"batch":1,"events":[{"type":"text","text":"deep"}]}`)
}

func aResult(s *stage) request { return s.work(string(s.body)+"/result", `{"text":"er"}`) }

// workAgain repeats a request about a lease, which counts once, and ends the turn.
func workAgain(s *stage, p process, r request, _ *response, _ fate) {
	s.t.Helper()
	for _, next := range []request{r, aResult(s)} {
		if got, err := p.do(next); err != nil || got.status != http.StatusNoContent {
			s.t.Fatalf("%s = %d %s, %v", next.path, got.status, got.body, err)
		}
	}
}
