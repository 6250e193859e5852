package graduation_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

func TestRequestRefusedByTheRateLimitIsAcceptedADayLater(t *testing.T) {
	h := newFixture(t)
	p := gate.DefaultPolicy()
	p.DailyLimit = 1
	must(t, h.gate.SetPolicy(t.Context(), "", p))
	parent := h.vacant(t)
	children := h.children(t, parent, 2)
	first, err := h.gate.Submit(t.Context(), h.request(t, parent, children[0], "drafts contracts"))
	if err != nil || first.Phase != graduation.Accepted {
		t.Fatalf("Submit() = %s, %v, want accepted", first.Phase, err)
	}
	second := h.request(t, parent, children[1], "reads contracts")
	blob, err := second.Blob()
	must(t, err)
	send := func(want graduation.Phase, position uint64) {
		t.Helper()
		sub, err := graduation.ParseSubmission(blob)
		must(t, err)
		st, err := h.gate.Submit(t.Context(), sub)
		if err != nil || st.Phase != want || st.Position != position {
			t.Errorf("Submit() = %s at %d, %v, want %s at %d", st.Phase, st.Position, err, want, position)
		}
	}
	send(graduation.Refused, 1)
	h.clock.Advance(graduation.AttemptPeriod - time.Microsecond)
	send(graduation.Refused, 2) // a moment less than 24 hours ago
	h.clock.Advance(time.Microsecond)
	send(graduation.Accepted, 3) // exactly 24 hours old has expired
	h.clock.Advance(time.Hour)
	send(graduation.Accepted, 3)
	h.wantClean(t)
}

func TestTheSameRequestJoinsItsOpenAttemptAndAnotherWaits(t *testing.T) {
	h := newFixture(t)
	sub := h.family(t)
	one, err := h.gate.Begin(t.Context(), sub)
	must(t, err)
	same, err := h.gate.Begin(t.Context(), sub)
	if err != nil || same.ID != one.ID {
		t.Errorf("Begin() again = %v, %v, want %v", same.ID, err, one.ID)
	}
	other := h.request(t, sub.Request.ParentID, sub.Request.ChildID, "drafts wills")
	if _, err = h.gate.Begin(t.Context(), other); !problem.Is(err, problem.Conflict) || !strings.Contains(err.Error(), one.ID.String()) {
		t.Errorf("Begin() of another request = %v, want a conflict that names %s", err, one.ID)
	}
	h.clock.Advance(graduation.AttemptTimeout)
	if _, err := h.gate.RunTask(t.Context(), gate.StepConsent, one.InitialState()); !problem.Is(err, problem.DeadlineExceeded) {
		t.Errorf("Task() of what is due = %v, want deadline", err)
	}
	next, err := h.gate.Begin(t.Context(), other)
	if err != nil || next.Position != 2 {
		t.Errorf("Begin() when the first is due = %d, %v, want 2", next.Position, err)
	}
	was, err := h.gate.Status(t.Context(), one.Child, one.Position)
	if err != nil || was.Phase != graduation.Failed || was.Refusal.Kind != problem.DeadlineExceeded.String() {
		t.Errorf("Status() of the first = %s, %v, want failed", was.Phase, err)
	}
	if _, err := h.gate.RunTask(t.Context(), gate.StepConsent, one.InitialState()); !problem.Is(err, problem.Conflict) {
		t.Errorf("Task() of what is over = %v, want conflict", err)
	}
	if latest, ok, err := h.gate.Latest(t.Context(), one.Child); err != nil || !ok || latest.ID != next.ID {
		t.Errorf("Latest() = %v, %v, %v, want %v", latest.ID, ok, err, next.ID)
	}
}

func TestResentSubmissionReturnsItsAttempt(t *testing.T) {
	h := newFixture(t)
	sub := h.family(t)
	first, err := h.gate.Submit(t.Context(), sub)
	must(t, err)
	for _, text := range []string{"drafts wills", "drafts leases"} {
		st, err := h.gate.Submit(t.Context(), h.request(t, sub.Request.ParentID, sub.Request.ChildID, text))
		if err != nil || st.Phase != graduation.Refused || st.Refusal.Error != "GraduationError" {
			t.Errorf("Submit() of %s = %s, %v, want refused by GraduationError", text, st.Phase, err)
		}
	}
	again, err := h.gate.Submit(t.Context(), sub)
	if err != nil || again.ID != first.ID {
		t.Errorf("Submit() again = %v, %v, want %v", again.ID, err, first.ID)
	}
}

func TestAChildBeginsAtMost32AttemptsADay(t *testing.T) {
	h := newFixture(t)
	parent, stranger := h.vacant(t), h.vacant(t)
	child := h.children(t, parent, 1)[0]
	sub := h.request(t, stranger, child, "drafts contracts")
	for range graduation.MaxAttempts {
		st, err := h.gate.Submit(t.Context(), sub)
		if err != nil || st.Phase != graduation.Refused {
			t.Fatalf("Submit() = %s, %v, want refused", st.Phase, err)
		}
		h.clock.Advance(time.Minute)
	}
	_, err := h.gate.Submit(t.Context(), sub)
	wantKind(t, "Submit() once more", err, problem.TooManyRequests)
	h.clock.Advance(graduation.AttemptPeriod - graduation.MaxAttempts*time.Minute)
	if _, err := h.gate.Submit(t.Context(), sub); err != nil {
		t.Errorf("Submit() a day later = %v, want nil", err)
	}
	_, err = h.gate.Submit(t.Context(), sub)
	wantKind(t, "Submit() before the second is a day old", err, problem.TooManyRequests)
}

func TestAVerdictCountsForItsOwnAttemptAlone(t *testing.T) {
	h := newFixture(t)
	sub := h.family(t)
	first, err := h.gate.Begin(t.Context(), sub)
	must(t, err)
	passed := first.InitialState()
	for _, step := range gate.Steps()[:3] {
		passed, err = h.gate.RunTask(t.Context(), step.Name, passed)
		must(t, err)
	}
	h.clock.Advance(graduation.AttemptTimeout)
	second, err := h.gate.Begin(t.Context(), sub)
	must(t, err)
	for name, change := range map[string]func(*graduation.RunState){
		"those of the attempt before": func(s *graduation.RunState) { s.Passed = passed.Passed },
		"none":                        func(*graduation.RunState) {},
		"of another request":          func(s *graduation.RunState) { s.RequestHash[0]++ },
		"of consent alone":            func(s *graduation.RunState) { s.Passed = stamp(passed.Passed[:1], h.clock.NowFunc(0)()) },
		"in another order": func(s *graduation.RunState) {
			s.Passed = stamp(passed.Passed, h.clock.NowFunc(0)())
			s.Passed[0], s.Passed[1] = s.Passed[1], s.Passed[0]
		},
		"one too many": func(s *graduation.RunState) {
			s.Passed = append(stamp(passed.Passed, h.clock.NowFunc(0)()), graduation.Verdict{Step: gate.StepCommit, PassedAt: h.clock.NowFunc(0)().UnixMicro()})
		},
	} {
		t.Run(name, func(t *testing.T) {
			state := second.InitialState()
			change(&state)
			_, err := h.gate.RunTask(t.Context(), gate.StepCommit, state)
			wantKind(t, "Task(commit)", err, problem.Untrusted)
		})
	}
	state := second.InitialState()
	state.Position = 9
	if _, err := h.gate.RunTask(t.Context(), gate.StepConsent, state); !problem.Is(err, problem.NotFound) {
		t.Errorf("Task() of no attempt = %v, want not found", err)
	}
	state = second.InitialState()
	state.RequestHash[0]++
	if _, err := h.gate.Record(t.Context(), state, graduation.NewRefusal(gate.StepConsent, problem.New(problem.ConsentRequired, "no"))); !problem.Is(err, problem.Untrusted) {
		t.Errorf("Record() of another request = %v, want untrusted", err)
	}
	if h.wantWhole(t, second.Child, sub.Request.ParentID) {
		t.Error("the child has graduated")
	}
}

// stamp returns verdicts with the current time.
func stamp(passed []graduation.Verdict, now time.Time) []graduation.Verdict {
	out := append([]graduation.Verdict(nil), passed...)
	for i := range out {
		out[i].PassedAt = now.UnixMicro()
	}
	return out
}

func TestFamilyHostedElsewhereIsNotFound(t *testing.T) {
	h := newFixture(t)
	parent, child := newKey(t), newKey(t)
	m := manifestOf(t, parent, child)
	must(t, h.vacants.AddManifest(t.Context(), m))
	r := composite.GraduationRequest{ParentID: parent.ID(), ChildID: child.ID(), CapabilityText: "drafts contracts"}
	must(t, r.SignParent(t.Context(), parent))
	must(t, r.SignChild(t.Context(), child))
	_, err := h.gate.Begin(t.Context(), graduation.Submission{Request: r})
	if want := "unknown child " + child.ID().Short(); !problem.Is(err, problem.NotFound) || problem.AsError(err).Text() != want {
		t.Errorf("Begin() = %v, want %s", err, want)
	}
}

func TestAPartyThatSleepsTakesPartInNoGraduation(t *testing.T) {
	h := newFixture(t)
	sub := h.family(t)
	_, err := h.vacants.Pause(t.Context(), sub.Request.ParentID)
	must(t, err)
	_, err = h.gate.Submit(t.Context(), sub)
	wantKind(t, "Submit()", err, problem.Conflict)
	_, err = h.vacants.Resume(t.Context(), sub.Request.ParentID)
	must(t, err)
	h.wantAcceptedInTheEnd(t, sub)
}

func TestACompositeGraduatesAfterItHasAPlan(t *testing.T) {
	h := newFixture(t)
	// The child answers with a substrate family other than the clerk's.
	r, err := h.vacants.Create(t.Context(), vacants.CreateSpec{Name: "parent", Capability: "drafts", Substrate: "http:https://parent.example/answer"})
	must(t, err)
	parent := r.ID
	child := h.child(t, parent, plan.Kind)
	sub := h.request(t, parent, child, "drafts contracts")
	_, err = h.gate.Begin(t.Context(), sub)
	if !problem.Is(err, problem.Conflict) || !strings.Contains(err.Error(), "vacancy plan set") {
		t.Errorf("Begin() of a composite without a plan = %v, want a conflict that names vacancy plan set", err)
	}
	if tip, err := h.sound.Tip(t.Context(), graduation.Stream(child)); err != nil || tip.Position != 0 {
		t.Errorf("Begin() keeps an attempt: %d, %v, want none", tip.Position, err)
	}
	clerk := h.child(t, child, "echo")
	p, err := plan.Parse([]byte(`{"version":1,"delegate":[{"child":"` + clerk.String() + `","kind":"answer"}],"aggregate":{"how":"first"}}`))
	must(t, err)
	_, _, err = h.vacants.SetPlan(t.Context(), vacants.OperatorAsker(), child, p)
	must(t, err)
	h.wantAcceptedInTheEnd(t, sub)
}

func newKey(t testing.TB) *identity.Key {
	t.Helper()
	key, err := identity.NewKey(rand.Reader)
	must(t, err)
	return key
}

func manifestOf(t testing.TB, parent, child identity.Signer) composite.Manifest {
	t.Helper()
	m := composite.Manifest{
		ParentID: parent.ID(), ChildID: child.ID(), BirthPath: "D2", ClosedByDefault: true,
		Reachability: composite.ParentOnly, OutboundPolicy: composite.NoExternal, SchemaVersion: composite.SchemaV2,
	}
	must(t, m.SignParent(t.Context(), parent))
	must(t, m.SignChild(t.Context(), child))
	return m
}

// The key of this child is not on this host.
func TestAChildThatRunsElsewhereGraduatesByWhatItHasSigned(t *testing.T) {
	h := newFixture(t)
	child := newKey(t)
	parent := h.vacant(t)
	var m composite.Manifest
	must(t, h.vacants.WithSigner(t.Context(), parent, func(s identity.Signer) error { m = manifestOf(t, s, child); return nil }))
	must(t, h.vacants.AddManifest(t.Context(), m))
	r := composite.GraduationRequest{ParentID: parent, ChildID: child.ID(), CapabilityText: "drafts contracts"}
	must(t, h.vacants.WithSigner(t.Context(), parent, func(s identity.Signer) error { return r.SignParent(t.Context(), s) }))
	must(t, r.SignChild(t.Context(), child))
	sub := graduation.Submission{Request: r}

	_, err := h.gate.Submit(t.Context(), sub)
	wantKind(t, "Submit() without the child's signatures", err, problem.Malformed)
	next := m.AfterGraduation()
	must(t, next.SignChild(t.Context(), child))
	sub.Artefacts.ManifestChild = next.SignatureChild
	_, err = h.gate.Submit(t.Context(), sub)
	wantKind(t, "Submit() without a card", err, problem.Malformed)

	c := card.Card{VacantID: child.ID(), CapabilityText: r.CapabilityText, Endpoint: "https://child.example/v/" + child.ID().String(), HaloVersion: 1}
	must(t, c.Sign(t.Context(), child))
	e := event.Event{
		Type: event.Register, Actor: child.ID(), Time: h.clock.NowFunc(0)().UnixMilli(), ActorSeq: 1, IdempotencyKey: "graduate:1",
		Payload: event.RegisterPayload(c.Hash(), c.HaloVersion, child.ID(), lifecycle.Public),
	}
	must(t, e.Sign(t.Context(), child))
	sub.Artefacts.Card, sub.Artefacts.Time, sub.Artefacts.ActorSeq, sub.Artefacts.IdempotencyKey, sub.Artefacts.Signature = c.Blob(), e.Time, 1, e.IdempotencyKey, e.Signature
	st, err := h.gate.Submit(t.Context(), sub)
	if err != nil || st.Phase != graduation.Accepted {
		t.Fatalf("Submit() = %s %+v, %v, want accepted", st.Phase, st.Refusal, err)
	}
	registrytest.ProbeEndpoints(t, h.registry)
	g, ok, err := h.registry.Get(t.Context(), child.ID())
	if err != nil || !ok || !g.IsListed() {
		t.Errorf("Get() = %+v, %v, %v, want one that is listed", g, ok, err)
	}
	blob, err := sub.Blob()
	must(t, err)
	back, err := graduation.ParseSubmission(blob)
	if diff := cmp.Diff(sub, back); err != nil || diff != "" {
		t.Errorf("ParseSubmission(Blob()) = %v (-want +got):\n%s", err, diff)
	}
	h.wantClean(t)
}

func TestTheTenantsPolicyHoldsAndTheHostsWhereThereIsNone(t *testing.T) {
	h := newFixture(t)
	strict, one := gate.DefaultPolicy(), gate.DefaultPolicy()
	strict.Mode, one.DailyLimit = gate.ModeStrict, 1
	must(t, h.gate.SetPolicy(t.Context(), "", one))
	must(t, h.gate.SetPolicy(t.Context(), "acme", strict))
	for tenant, want := range map[string]gate.Policy{"": one, "other": one, "acme": strict} {
		if got, _, err := h.gate.Policy(t.Context(), tenant); err != nil || got != want {
			t.Errorf("Policy(%q) = %+v, %v, want %+v", tenant, got, err, want)
		}
		r, err := h.vacants.Create(t.Context(), vacants.CreateSpec{Name: "parent-of-" + tenant + "x", Capability: "says what it hears", Substrate: "echo", Tenant: tenant})
		must(t, err)
		st, err := h.gate.Begin(t.Context(), h.request(t, r.ID, h.children(t, r.ID, 1)[0], "drafts contracts"))
		if err != nil || st.Policy != want {
			t.Errorf("Begin() of tenant %q = %+v, %v, want %+v", tenant, st.Policy, err, want)
		}
	}
	warnings, err := h.gate.Warnings(t.Context())
	if err != nil || len(warnings) != 0 {
		t.Errorf("Warnings() = %q, %v, want none", warnings, err)
	}
	zeros := gate.DefaultPolicy()
	zeros.Detector = gate.DetectorZeros
	must(t, h.gate.SetPolicy(t.Context(), "acme", zeros))
	if warnings, err = h.gate.Warnings(t.Context()); err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "tenant acme") {
		t.Errorf("Warnings() = %q, %v, want one of tenant acme", warnings, err)
	}
	for name, change := range map[string]func(*gate.Policy){
		"a limit of 0":          func(p *gate.Policy) { p.DailyLimit = 0 },
		"a threshold above 1":   func(p *gate.Policy) { p.Threshold = 1.1 },
		"a mode that is none":   func(p *gate.Policy) { p.Mode = "lax" },
		"a detector of another": func(p *gate.Policy) { p.Detector = "oracle" },
	} {
		p := gate.DefaultPolicy()
		change(&p)
		wantKind(t, "SetPolicy() of "+name, h.gate.SetPolicy(t.Context(), "", p), problem.Malformed)
	}
	wantKind(t, "SetPolicy() of a long tenant", h.gate.SetPolicy(t.Context(), strings.Repeat("t", 129), strict), problem.Malformed)
}

func TestAChildOfAClosedChildGraduatesAfterItsParent(t *testing.T) {
	h := newFixture(t)
	sub := h.family(t)
	child := sub.Request.ChildID
	below := h.request(t, child, h.children(t, child, 1)[0], "drafts letters")
	_, err := h.gate.Begin(t.Context(), below)
	wantKind(t, "Begin()", err, problem.Conflict)
	h.wantAcceptedInTheEnd(t, sub)
	_, err = h.gate.Begin(t.Context(), below)
	must(t, err)
}
