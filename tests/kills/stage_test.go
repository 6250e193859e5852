//go:build unix

package kills

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/caller"
)

// target is a place for hosts, one at a time, and for what they leave when they
// die.
type target interface {
	now() time.Time
	vacant(t *testing.T, name string) identity.ID
	// aside opens the host in the test's own process, with a clock, over a
	// store that takes prepared steps. The last value ends that.
	aside(t *testing.T, now func() time.Time) (*serve.Server, *calltest.Script, func())
	// start runs a host in its own process and returns when it serves, or has
	// died before.
	start(t *testing.T, kill *place) process
}

// process is a host that can die.
type process interface {
	do(request) (response, error)
	// arm sets the place to die from now on (or nil) and returns the calls made
	// since it was last called.
	arm(kill *place) []string
	// killed waits for the planned death.
	killed() error
	stop()
	// later is how to ask the host so much later.
	later(d time.Duration) func(request) (response, error)
}

// request is a signed message, a page, or a command through the admin socket.
type request struct {
	path     string
	body     []byte
	envelope *envelope.Envelope // or nil
	control  bool
	method   string // "" means GET without a body, else POST
	header   http.Header
}

type response struct {
	status int
	body   []byte
}

// stage is one target with one caller, before the request dies on it.
type stage struct {
	t      *testing.T
	ctx    context.Context
	target target
	caller *caller.Caller
	before *envelope.Envelope // accepted before, answered or not; in scenarios that need one
	body   []byte             // of the request, in scenarios that prepare one
	// account is the id of the account of acme, claim what links the caller to it, paid the
	// webhook of a payment to it, key one of its keys, booking one of its bookings, in
	// scenarios of money.
	account, claim, paid, key, booking string
	issuer                             string   // id of an issuer of the account
	root                               string   // id of the key that made key
	team                               teamwork // in scenarios of dispatched tasks
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func message(path string, e *envelope.Envelope) request {
	return request{path: path, body: caller.Body(e), envelope: e}
}

// past is long enough for a call to be due.
const past = call.DefaultCallTimeout + call.GracePeriod + 25*time.Second

// answered has a call of the caller answered before the process starts.
func answered(s *stage) {
	s.t.Helper()
	server, _, done := s.target.aside(s.t, s.target.now)
	defer done()
	e := s.caller.Call("before", s.target.now())
	if out := server.Calls.Send(s.ctx, identity.ID{}, e); out.Problem != nil {
		s.t.Fatal(out.Problem)
	}
	s.before = e
	s.caller.Accepted(e)
}

// undecided leaves a call of the caller accepted and nothing more, so long ago
// that anybody may void it.
func undecided(s *stage) {
	s.t.Helper()
	earlier := func() time.Time { return s.target.now().Add(-past) }
	server, script, done := s.target.aside(s.t, earlier)
	script.PrepareNext("Commit rsp", func(context.Context, func(context.Context) error) error {
		return errors.New("the process ends here")
	})
	e := s.caller.Call("before", earlier())
	if out := server.Calls.Send(s.ctx, identity.ID{}, e); out.Problem == nil {
		s.t.Fatal("the call is answered, want it undecided")
	}
	s.before = e
	s.caller.Accepted(e)
	done()
	warmed(s) // a minute ago may have been yesterday
}

// thinking makes the caller call a vacant with an agent.
func thinking(s *stage) {
	s.t.Helper()
	server, _, done := s.target.aside(s.t, s.target.now)
	defer done()
	s.must(server.Texts.Warm(s.ctx))
	sage, err := server.Vacants.Create(s.ctx, vacants.CreateSpec{Name: "sage", Capability: "knows", Agent: &definition.Agent{Provider: substrate.KindMock}})
	s.must(err)
	s.caller.To = sage.ID
}

// paying is thinking with an agent whose model costs money.
func paying(s *stage) {
	s.t.Helper()
	server, _, done := s.target.aside(s.t, s.target.now)
	defer done()
	s.must(server.Texts.Warm(s.ctx))
	agent := &definition.Agent{Provider: substrate.KindMock, System: "```mock\ntext: yes\nusage: 100 10\n```", Price: &models.Price{InputPrice: money.Dollar, OutputPrice: money.Dollar}}
	sage, err := server.Vacants.Create(s.ctx, vacants.CreateSpec{Name: "sage", Capability: "knows", Agent: agent})
	s.must(err)
	s.caller.To = sage.ID
}

// composed makes the caller call a vacant that asks its own closed child.
func composed(s *stage) {
	s.t.Helper()
	server, _, done := s.target.aside(s.t, s.target.now)
	defer done()
	s.must(server.Texts.Warm(s.ctx))
	parent, err := server.Vacants.Create(s.ctx, vacants.CreateSpec{Name: "firm", Capability: "answers", Substrate: "echo"})
	s.must(err)
	_, _, err = server.Vacants.Spawn(s.ctx, vacants.SpawnSpec{Parent: parent.ID, Path: "D2", Name: "clerk"})
	s.must(err)
	p, err := plan.Parse([]byte(`{"version":1,"delegate":[{"child":"clerk","kind":"answer"}],"aggregate":{"how":"first"}}`))
	s.must(err)
	_, _, err = server.Vacants.SetPlan(s.ctx, vacants.OperatorAsker(), parent.ID, p)
	s.must(err)
	s.caller.To = parent.ID
}

// consented makes a vacant and its closed child sign the child's graduation
// request. Their substrates differ: equal ones would be refused.
func consented(s *stage) {
	s.t.Helper()
	server, _, done := s.target.aside(s.t, s.target.now)
	defer done()
	v := server.Vacants
	parent, err := v.Create(s.ctx, vacants.CreateSpec{Name: "firm", Capability: "answers", Substrate: "echo"})
	s.must(err)
	child, _, err := v.Spawn(s.ctx, vacants.SpawnSpec{Parent: parent.ID, Path: "D2", Name: "clerk", Substrate: unreachable})
	s.must(err)
	sub := graduation.Submission{Request: composite.GraduationRequest{ParentID: parent.ID, ChildID: child.ID, CapabilityText: "drafts contracts"}}
	s.must(v.WithSigner(s.ctx, parent.ID, func(k identity.Signer) error { return sub.Request.SignParent(s.ctx, k) }))
	s.must(v.WithSigner(s.ctx, child.ID, func(k identity.Signer) error { return sub.Request.SignChild(s.ctx, k) }))
	s.body, err = sub.Blob()
	s.must(err)
}

// warmed makes the day's key.
func warmed(s *stage) {
	s.t.Helper()
	server, _, done := s.target.aside(s.t, s.target.now)
	defer done()
	s.must(server.Texts.Warm(s.ctx))
}

// read parses an answer to e, which must be honest.
func (s *stage) read(e *envelope.Envelope, r response, err error) caller.Answer {
	s.t.Helper()
	s.must(err)
	a, err := caller.Read(e, r.status, r.body)
	s.must(err)
	return a
}

// whole is `vacancy verify`'s report about the host.
func (s *stage) whole() {
	s.t.Helper()
	if s.t.Failed() {
		return
	}
	var found []string
	switch h := s.target.(type) {
	case *devTarget:
		// By the host's clock: the last minutes need not be folded into usage yet.
		out, err := commandAt(s.ctx, h.now, h.dir, "verify", "--data", h.data(), "--json")
		if err != nil {
			found = append(found, err.Error(), out)
		}
	case *lambdaTarget:
		_, err := fsck.Run(s.ctx, fsck.Config{
			Source: h.Store(h.Endpoint), Vault: h.Vault, Now: time.Now,
			ReportFinding: func(f fsck.Finding) error { found = append(found, f.String()); return nil },
		})
		s.must(err)
	}
	if len(found) > 0 {
		s.t.Errorf("verify finds:\n%s", strings.Join(found, "\n"))
	}
}

// decode parses an answer of the admin socket.
func decode[T any](t *testing.T, r response) (v T) {
	t.Helper()
	if err := json.Unmarshal(r.body, &v); err != nil {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	return v
}
