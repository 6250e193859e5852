package delegation_test

import (
	"context"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func TestAnAgentAsksVacantsByItsOwnChain(t *testing.T) {
	s := newStore()
	h := open(t, s)
	archive := h.create("archive")
	clerk := h.agent("clerk", 3, "archive")
	got, failed := h.ask(clerk.ID, "find it")
	if want := "heard: " + strings.Repeat("archive(find it)", 3); failed != nil || got != want {
		t.Errorf("Send() = %q, %v, want %q", got, failed, want)
	}
	tip, err := s.Tip(t.Context(), call.Pair{Caller: clerk.ID, Vacant: archive.ID}.Requests())
	h.must(err)
	row, err := call.DecodeRequest(tip)
	h.must(err)
	if row.Seq != 3 {
		t.Errorf("the clerk's chain with the archive is at %d, want 3", row.Seq)
	}
	wantClean(t, h, s)
}

func TestAnAgentIsToldThatAnAnswerWasCut(t *testing.T) {
	h := open(t, newStore())
	h.create("archive")
	h.minds.set("archive", func(ctx context.Context, _ substrate.Request) (string, error) {
		call.RecordCutReason(ctx, call.CutLength)
		return "half", nil
	})
	got, failed := h.ask(h.agent("clerk", 1, "archive").ID, "find it")
	if want := "heard: half\n[This answer was cut off here: length.]"; failed != nil || got != want {
		t.Errorf("Send() = %q, %v, want %q", got, failed, want)
	}
}

// A model that asks for what it may not have is told, and its call goes on.
func TestWhatAnAgentMayNotAskIsTold(t *testing.T) {
	h := open(t, newStore())
	parent := h.create("firm")
	h.spawn(parent.ID, "closed")
	h.create("outside")
	asleep := h.create("asleep")
	h.create("broken")
	h.minds.set("broken", func(context.Context, substrate.Request) (string, error) { return "", errBroken })
	child := func(name string, asks string) vacants.Record {
		a := definition.Agent{Provider: substrate.KindMock, Model: "+", Vacants: []string{asks}}
		r, _, err := h.vacants.Spawn(t.Context(), vacants.SpawnSpec{Asker: vacants.OperatorAsker(), Parent: parent.ID, Path: "D2", Name: name, Capability: "asks", Agent: &a, OutboundPolicy: composite.ParentPermitted})
		h.must(err)
		return r
	}
	for _, tt := range []struct {
		what  string
		asker vacants.Record
		as    identity.ID // caller of the asker; zero is any caller
		want  string
	}{
		{"one that fails", h.agent("trusting", 1, "broken"), identity.ID{}, "heard: broken: the vacant failed to answer"},
		{"one that asks itself by way of another", h.agent("vain", 1, "asleep"), identity.ID{}, "heard: "},
	} {
		if tt.what == "one that asks itself by way of another" {
			a := definition.Agent{Provider: substrate.KindMock, Model: "+", Vacants: []string{"vain"}}
			_, err := h.vacants.Update(t.Context(), asleep.ID, vacants.Changes{Asker: vacants.OperatorAsker(), Agent: &a})
			h.must(err)
		}
		got, failed := h.ask(tt.asker.ID, "hi")
		if failed != nil || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, %v, want %q", tt.what, got, failed, tt.want)
		}
	}

	// Closed children may ask only their tree, even if another vacant would answer:
	// other vacants are not among their tools.
	askBy := func(child vacants.Record) string {
		t.Helper()
		h.set(parent.ID, `{"version":1,"aggregate":{"how":"first"},"delegate":[{"child":"`+child.Name+`"}]}`)
		got, failed := h.ask(parent.ID, "hi")
		if failed != nil {
			t.Errorf("%s: %v", child.Name, failed)
		}
		return got
	}
	if got, want := askBy(child("escapes", "outside")), "heard: "; got != want {
		t.Errorf("a closed child that asks outside of its tree hears %q, want %q", got, want)
	}
	if got, want := askBy(child("helps", "closed")), "heard: closed(hi)"; got != want {
		t.Errorf("a closed child that asks its sibling hears %q, want %q", got, want)
	}
}

// The calls that a call makes have a bound in all, however deep.
func TestVacantToolsAreBoundLikePlans(t *testing.T) {
	s := newStore()
	h := open(t, s)
	leaf := h.create("leaf")
	h.agent("one", 20, "leaf")
	top := h.agent("top", 20, "one")
	if got, failed := h.ask(top.ID, "hi"); failed != nil || !strings.Contains(got, "more than") {
		t.Errorf("Send() = %.80q, %v; want some told that it is too much", got, failed)
	}
	asked := uint64(0)
	for _, asker := range []string{"one"} {
		r, err := h.vacants.GetByName(t.Context(), vacants.OperatorAsker(), asker)
		h.must(err)
		tip, err := s.Tip(t.Context(), call.Pair{Caller: r.ID, Vacant: leaf.ID}.Requests())
		h.must(err)
		asked += tip.Position
	}
	if asked > plan.MaxCalls {
		t.Errorf("a call made %d calls of the leaf, want at most %d", asked, plan.MaxCalls)
	}
	// a asks b asks c asks d asks e: four may ask, the fifth is not asked.
	h.create("e")
	for i, name := range []string{"d", "c", "b", "a", "z"} {
		h.agent(name, 1, []string{"e", "d", "c", "b", "a"}[i])
	}
	z, err := h.vacants.GetByName(t.Context(), vacants.OperatorAsker(), "z")
	h.must(err)
	a, err := h.vacants.GetByName(t.Context(), vacants.OperatorAsker(), "a")
	h.must(err)
	if got, failed := h.ask(a.ID, "hi"); failed != nil || got != "heard: heard: heard: heard: e(hi)" {
		t.Errorf("four below each other say %q, %v", got, failed)
	}
	if got, failed := h.ask(z.ID, "hi"); failed != nil || !strings.Contains(got, "d: ") || strings.Contains(got, "e(hi)") {
		t.Errorf("five below each other say %q, %v; want the fifth told that it is too deep", got, failed)
	}
	wantClean(t, h, s)
}

// A tenant's agent is given, and offered, the vacants of its tenant and the public ones
// of others. What others hide is refused as what does not exist.
func TestAnAgentIsOfferedWhatItMayAsk(t *testing.T) {
	h := open(t, newStore())
	create := func(tenant, name string) vacants.Record {
		r, err := h.vacants.Create(t.Context(), vacants.CreateSpec{Name: name, Capability: "answers", Substrate: "test:" + name, Tenant: tenant})
		h.must(err)
		return r
	}
	own, shown, hidden, clerk := create("acme", "own"), create("other", "shown"), create("other", "hidden"), create("acme", "clerk")
	closed := h.spawn(shown.ID, "closed")[0]
	h.spawn(own.ID, "inside")
	_, _, err := h.vacants.Publish(t.Context(), shown.ID, vacants.PublishOptions{})
	h.must(err)
	give := func(by vacants.Asker, what ...string) error {
		_, err := h.vacants.Update(t.Context(), clerk.ID, vacants.Changes{Asker: by, Agent: &definition.Agent{Provider: substrate.KindMock, Model: "+", Vacants: what}})
		return err
	}
	hears := func(want string) {
		t.Helper()
		if got, failed := h.ask(clerk.ID, "hi"); failed != nil || got != want {
			t.Errorf("the clerk says %q, %v, want %q", got, failed, want)
		}
	}
	acme := vacants.TenantAsker("acme")
	for _, other := range []vacants.Record{hidden, closed} {
		for what, nobody := range map[string]string{
			other.Name: "nobody", other.ID.String(): identity.ID{9}.String(), other.ID.Short(): identity.ID{9}.Short(),
		} {
			err, missing := give(acme, what), give(acme, nobody)
			if !problem.Is(missing, problem.NotFound) || err == nil || strings.ReplaceAll(err.Error(), what, nobody) != missing.Error() {
				t.Errorf("%s = %v, want as of nobody: %v", what, err, missing)
			}
		}
		if err := give(vacants.OperatorAsker(), other.Name); !problem.Is(err, problem.Malformed) || problem.AsError(err).Field != "vacants[0]" {
			t.Errorf("%s, by the operator = %v, want the rule", other.Name, err)
		}
	}
	if err := give(acme, "inside"); !problem.Is(err, problem.Malformed) || problem.AsError(err).Field != "vacants[0]" {
		t.Errorf("a closed child of another vacant of the tenant = %v, want the rule", err)
	}
	h.must(give(acme, own.Name))
	hears("heard: own(hi)")
	h.must(give(acme, shown.ID.String()))
	hears("heard: shown(hi)")
	for _, step := range []struct {
		does func() error
		want string
	}{
		{func() error { _, _, err := h.vacants.Unpublish(t.Context(), shown.ID); return err }, "heard: "},
		{func() error {
			_, _, err := h.vacants.Publish(t.Context(), shown.ID, vacants.PublishOptions{})
			return err
		}, "heard: shown(hi)"},
		{func() error { _, err := h.vacants.Pause(t.Context(), shown.ID); return err }, "heard: "},
	} {
		h.must(step.does())
		hears(step.want)
	}
	if err := give(acme, "shown"); !problem.Is(err, problem.NotFound) {
		t.Errorf("one that another has paused = %v, want not found", err)
	}
}
