package delegation_test

import (
	"context"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/family/plan"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
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
		r, _, err := h.vacants.Spawn(t.Context(), vacants.SpawnSpec{Parent: parent.ID, Path: "D2", Name: name, Capability: "asks", Agent: &a, Outbound: composite.ParentPermitted})
		h.must(err)
		return r
	}
	for _, tt := range []struct {
		what  string
		asker vacants.Record
		as    identity.ID // who calls the asker; zero: anybody
		want  string
	}{
		{"a closed child of another", h.agent("nosy", 1, "closed"), identity.ID{}, "heard: closed: envelope addressed to"},
		{"one that fails", h.agent("trusting", 1, "broken"), identity.ID{}, "heard: broken: the vacant failed to answer"},
		{"one that asks itself by way of another", h.agent("vain", 1, "asleep"), identity.ID{}, "heard: "},
	} {
		if tt.what == "one that asks itself by way of another" {
			a := definition.Agent{Provider: substrate.KindMock, Model: "+", Vacants: []string{"vain"}}
			_, err := h.vacants.Update(t.Context(), asleep.ID, vacants.Changes{Agent: &a})
			h.must(err)
		}
		got, failed := h.ask(tt.asker.ID, "hi")
		if failed != nil || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, %v, want %q", tt.what, got, failed, tt.want)
		}
	}

	// Closed children reach their tree alone, though the other side would answer.
	askBy := func(child vacants.Record) string {
		t.Helper()
		h.set(parent.ID, `{"version":1,"aggregate":{"how":"first"},"delegate":[{"child":"`+child.Name+`"}]}`)
		got, failed := h.ask(parent.ID, "hi")
		if failed != nil {
			t.Errorf("%s: %v", child.Name, failed)
		}
		return got
	}
	if got := askBy(child("escapes", "outside")); !strings.Contains(got, "not parent / not sibling") {
		t.Errorf("a closed child that asks outside of its tree hears %q, want the rule", got)
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
		r, err := h.vacants.ByName(t.Context(), asker)
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
	z, err := h.vacants.ByName(t.Context(), "z")
	h.must(err)
	a, err := h.vacants.ByName(t.Context(), "a")
	h.must(err)
	if got, failed := h.ask(a.ID, "hi"); failed != nil || got != "heard: heard: heard: heard: e(hi)" {
		t.Errorf("four below each other say %q, %v", got, failed)
	}
	if got, failed := h.ask(z.ID, "hi"); failed != nil || !strings.Contains(got, "d: ") || strings.Contains(got, "e(hi)") {
		t.Errorf("five below each other say %q, %v; want the fifth told that it is too deep", got, failed)
	}
	wantClean(t, h, s)
}
