//go:build unix

package kills

import (
	"bytes"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/tests/caller"
)

// slowly makes the vacant take minutes.
func slowly(s *stage) {
	s.t.Helper()
	server, _, done := s.target.aside(s.t, s.target.now)
	defer done()
	s.must(server.Texts.Warm(s.ctx))
	work := minutes
	_, err := server.Vacants.Update(s.ctx, s.caller.To, vacants.Changes{CallTimeout: &work})
	s.must(err)
}

// aMessageNotWaitedFor is a call in a message of A2A that is answered before its turn ends.
func aMessageNotWaitedFor(s *stage) request {
	r := aMessage(s)
	r.body = append(bytes.TrimSuffix(r.body, []byte("}}")), `,"configuration":{"returnImmediately":true}}}`...)
	return r
}

// decision sends a call of a slow vacant until it is decided.
func (s *stage) decision(p process, e *envelope.Envelope) (a caller.Answer) {
	s.t.Helper()
	await.Until(s.t, "the call is decided", func() bool {
		r, err := p.do(message(caller.SendPath, e))
		a = s.read(e, r, err)
		return a.State != string(call.Pending)
	})
	return a
}

// slowAgain sends a call of a slow vacant again, when the lease of a turn that had begun is over.
func slowAgain(s *stage, p process, r request, _ *response, then fate) {
	s.t.Helper()
	p.(*dev).later(2 * time.Minute)
	got := s.decision(p, r.envelope).State
	want := map[fate]call.State{fresh: call.Answered, waits: call.Answered, stored: call.Answered, pending: call.Unanswered}[then]
	if got != string(want) && (then != either || got != string(call.Answered) && got != string(call.Unanswered)) {
		s.t.Fatalf("sent again it is %q, want %q, %s", got, want, then)
	}
	s.caller.Accepted(r.envelope)
	next := s.caller.Call("next", s.target.now())
	if a := s.decision(p, next); a.State != string(call.Answered) {
		s.t.Fatalf("the next call is %q", a.State)
	}
}
