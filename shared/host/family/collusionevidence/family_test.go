package collusionevidence_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vacancy-host/vacancy/shared/host/family/collusionevidence"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// plans makes a vacant answer with its children. combiner combines the answers unless it is "".
func (h *fixture) plans(id identity.ID, combiner string, children ...identity.ID) {
	h.Helper()
	p := plan.Plan{OnFailure: plan.Abort, Aggregate: plan.Aggregate{Method: plan.Join}}
	if combiner != "" {
		p.Aggregate = plan.Aggregate{Method: plan.BySubstrate, Substrate: combiner}
	}
	for _, child := range children {
		p.Delegations = append(p.Delegations, plan.Delegation{Child: child.String(), Task: "{input}"})
	}
	_, _, err := h.vacants.SetPlan(h.Context(), vacants.OperatorAsker(), id, p)
	must(h, err)
}

func TestSpellingsOfAHostAreOneFamily(t *testing.T) {
	for spec, want := range map[string]string{
		"http:https://model.example/b":          "http:model.example",
		"https://model.example/b":               "http:model.example",
		"http:http://MODEL.Example/b?c=d":       "http:model.example",
		"http:https://model.example:443/a":      "http:model.example",
		"http:https://model.example:8443/a":     "http:model.example",
		"http:https://model.example./a":         "http:model.example",
		"http:https://model.example.:443/a":     "http:model.example",
		"http:https://[::ffff:192.0.2.1]/a":     "http:192.0.2.1",
		"http:https://192.0.2.1:80/a":           "http:192.0.2.1",
		"http:https://[2001:DB8:0::1]:443/a":    "http:2001:db8::1",
		"http:https://other.model.example/b":    "http:other.model.example",
		"http:https://model.example.evil.test/": "http:model.example.evil.test",
		"echo":                                  "echo",
	} {
		h := newFixture(t)
		parent := h.create("parent", "echo", "")
		child := h.spawn(parent.ID, "D2", "child", spec)
		if got := h.collect(child, parent.ID).Pairs[0].Child.Families; !cmp.Equal(got, []string{want}) {
			t.Errorf("Families of %s = %v, want %s", spec, got, want)
		}
	}
}

func TestACompositeIsOfTheFamiliesOfThoseWhoAnswerForIt(t *testing.T) {
	const model, other, third = "http:https://model.example/a", "http:https://other.example/a", "http:https://third.example/a"
	for name, tt := range map[string]struct {
		make    func(h *fixture, parent, child identity.ID)
		parent  string
		want    []string // of the child
		of      []string // of the parent
		why     string   // of the child
		refused bool
	}{
		"the parent's, one plan further down": {
			func(h *fixture, _, child identity.ID) {
				h.plans(child, "", h.spawn(child, "D2", "x", other), h.spawn(child, "D2", "y", "http:https://model.example:443/b"))
			}, model, []string{"http:model.example", "http:other.example"}, []string{"http:model.example"}, "", true,
		},
		"the parent's, two plans further down": {
			func(h *fixture, _, child identity.ID) {
				x := h.spawn(child, "D2", "x", "composite")
				h.plans(x, "", h.spawn(x, "D2", "y", model))
				h.plans(child, "", x)
			}, model, []string{"http:model.example"}, []string{"http:model.example"}, "", true,
		},
		"the parent's, as a combiner two plans down": {
			func(h *fixture, _, child identity.ID) {
				x := h.spawn(child, "D2", "x", "composite")
				h.plans(x, model, h.spawn(x, "D2", "y", third))
				h.plans(child, "", x)
			}, model, []string{"http:model.example", "http:third.example"}, []string{"http:model.example"}, "", true,
		},
		"all others": {
			func(h *fixture, _, child identity.ID) {
				h.plans(child, third, h.spawn(child, "D2", "x", other), h.spawn(child, "D2", "z", other))
			}, model, []string{"http:other.example", "http:third.example"}, []string{"http:model.example"}, "", false,
		},
		"no plan": {func(*fixture, identity.ID, identity.ID) {}, model, nil, []string{"http:model.example"}, "its children answer its calls", false},
		"a parent that combines by the same": {
			func(h *fixture, parent, child identity.ID) {
				h.plans(child, "", h.spawn(child, "D2", "x", model))
				h.plans(parent, model, child)
			}, "composite", []string{"http:model.example"}, []string{"http:model.example"}, "", true,
		},
		"a parent whose other child is of the same": {
			func(h *fixture, parent, child identity.ID) {
				h.plans(child, "", h.spawn(child, "D2", "x", model))
				h.plans(parent, third, child, h.spawn(parent, "D2", "y", model))
			}, "composite", []string{"http:model.example"}, []string{"http:third.example"}, "", false,
		},
		"a parent that combines by nobody": {
			func(h *fixture, parent, child identity.ID) {
				h.plans(child, "", h.spawn(child, "D2", "x", model))
				h.plans(parent, "", child)
			}, "composite", []string{"http:model.example"}, nil, "", false,
		},
		"a child of its that left": {
			func(h *fixture, _, child identity.ID) {
				gone := h.spawn(child, "D2", "x", model)
				h.plans(child, "", gone, h.spawn(child, "D2", "y", other))
				for _, end := range h.ends() {
					_, err := end(h.Context(), gone)
					must(h, err)
				}
			}, model, []string{"http:other.example"}, []string{"http:model.example"}, "", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t)
			parent := h.create("parent", tt.parent, "")
			child := h.spawn(parent.ID, "D2", "child", "composite")
			tt.make(h, parent.ID, child)
			e, _ := h.everywhere(child, parent.ID)
			p := e.Pairs[0]
			if diff := cmp.Diff([][]string{tt.want, tt.of}, [][]string{p.Child.Families, p.Other.Families}, cmpopts.EquateEmpty()); diff != "" || p.Child.MissingReasons[gate.Substrate] != tt.why {
				t.Errorf("Families are missing since %q, want %q (-want +got):\n%s", p.Child.MissingReasons[gate.Substrate], tt.why, diff)
			}
			found, err := gate.ObservationDetector{}.Detect(e, gate.DefaultPolicy())
			must(t, err)
			if err := found.CheckCollusion(); tt.refused != problem.Is(err, problem.CollusionFound) {
				t.Errorf("Judge() = %v, want a refusal: %v", err, tt.refused)
			}
		})
	}
}

// A sibling with a plan also has the families of its children. They can refuse only in strict mode,
// as for any sibling.
func TestACompositeSiblingIsOfTheFamiliesOfItsLeaves(t *testing.T) {
	h := newFixture(t)
	parent := h.create("parent", "echo", "")
	child := h.spawn(parent.ID, "D2", "child", "http:https://model.example/a")
	sibling := h.spawn(parent.ID, "D2", "sibling", "composite")
	h.plans(sibling, "", h.spawn(sibling, "D2", "x", "http:https://model.example/b"))
	e := h.collect(child, parent.ID)
	if diff := cmp.Diff([]string{"http:model.example"}, e.Pairs[1].Other.Families); diff != "" {
		t.Errorf("Families of the sibling (-want +got):\n%s", diff)
	}
}

// The largest tree that plans can form for a child is read completely if its plans have the usual
// length. A sibling's tree is read as far as its share of the budget allows.
func TestCostOfATreeIsBounded(t *testing.T) {
	h := newFixture(t)
	parent := h.create("parent", "http:https://model.example/a", "")
	grow := func(name string, task string) identity.ID {
		id := h.spawn(parent.ID, "D2", name, "composite")
		p := plan.Plan{OnFailure: plan.Abort, Aggregate: plan.Aggregate{Method: plan.First}}
		for i := range plan.MaxDelegations {
			x := h.spawn(id, "D2", fmt.Sprint(name, "-", i), "composite")
			q := plan.Plan{OnFailure: plan.Abort, Aggregate: plan.Aggregate{Method: plan.First}}
			for j := range plan.MaxCalls/plan.MaxDelegations - 1 {
				answers := "echo"
				if i == plan.MaxDelegations-1 { // the last
					answers = "http:https://model.example/b"
				}
				y := h.spawn(x, "D2", fmt.Sprint(name, "-", i, "-", j), answers)
				q.Delegations = append(q.Delegations, plan.Delegation{Child: y.String(), Task: task})
			}
			_, _, err := h.vacants.SetPlan(h.Context(), vacants.OperatorAsker(), x, q)
			must(t, err)
			p.Delegations = append(p.Delegations, plan.Delegation{Child: x.String(), Task: "{input}"})
		}
		_, _, err := h.vacants.SetPlan(h.Context(), vacants.OperatorAsker(), id, p)
		must(t, err)
		return id
	}
	usual, bloated := grow("usual", "weigh this: {input}"), grow("bloated", strings.Repeat("z", plan.MaxTaskBytes))
	for i := range 3 {
		grow(fmt.Sprint("s", i), strings.Repeat("z", plan.MaxTaskBytes))
	}
	e, units := h.everywhere(usual, parent.ID)
	if diff := cmp.Diff([]string{"echo", "http:model.example"}, e.Pairs[0].Child.Families); diff != "" || e.Pairs[0].Child.MissingReasons[gate.Substrate] != "" {
		t.Errorf("Families of the child are missing since %q, want all (-want +got):\n%s", e.Pairs[0].Child.MissingReasons[gate.Substrate], diff)
	}
	if units > collusionevidence.MaxUnits {
		t.Errorf("Collect() took %d read units, want at most %d", units, collusionevidence.MaxUnits)
	}
	t.Logf("%d read units for a tree of %d and those of 4 siblings", units, plan.MaxCalls)
	e, units = h.everywhere(bloated, parent.ID)
	if why := e.Pairs[0].Child.MissingReasons[gate.Substrate]; why != "its tree of plans is too large to read" || units > collusionevidence.MaxUnits {
		t.Errorf("of a tree of the largest plans others are missing since %q, at %d read units, want it too large, at %d at most", why, units, collusionevidence.MaxUnits)
	}
	strict := gate.DefaultPolicy()
	strict.Mode = gate.ModeStrict
	found, err := gate.ObservationDetector{}.Detect(e, strict)
	must(t, err)
	if err := found.CheckCollusion(); !problem.Is(err, problem.CollusionFound) {
		t.Errorf("Judge() in strict mode of what is too large = %v, want a refusal", err)
	}
}

// A fallback model can also answer. The same model at two servers has one family.
func TestAnAgentIsOfTheFamiliesOfBothItsModels(t *testing.T) {
	h := newFixture(t)
	parent := h.create("parent", "echo", "")
	for i, tt := range []struct {
		agent definition.Agent
		want  []string
	}{
		{definition.Agent{Model: "a"}, []string{"model:a"}},
		{definition.Agent{Model: "a", FallbackModel: "B"}, []string{"model:a", "model:b"}},
		{definition.Agent{Model: "b", FallbackModel: "a"}, []string{"model:a", "model:b"}},
		{definition.Agent{Model: "a", FallbackModel: "a"}, []string{"model:a"}},
		{definition.Agent{Provider: "openai", BaseURL: "https://model.example/v1", Model: "A"}, []string{"model:a"}},
		{definition.Agent{Provider: "http", BaseURL: "https://model.example/v1"}, []string{"http:model.example"}},
	} {
		r, _, err := h.vacants.Spawn(h.Context(), vacants.SpawnSpec{Parent: parent.ID, Path: "D2", Name: fmt.Sprint("child", i), Capability: "helps", Agent: &tt.agent})
		must(h, err)
		if diff := cmp.Diff(tt.want, h.collect(r.ID, parent.ID).Pairs[0].Child.Families); diff != "" {
			t.Errorf("Families of %+v (-want +got):\n%s", tt.agent, diff)
		}
	}
}

// A model that has answered is considered even if another model has replaced it.
func TestModelsThatAnsweredBeforeCount(t *testing.T) {
	h := newFixture(t)
	parent := h.create("parent", "echo", "")
	r, _, err := h.vacants.Spawn(h.Context(), vacants.SpawnSpec{Parent: parent.ID, Path: "D2", Name: "child", Capability: "helps", Agent: &definition.Agent{Model: "a"}})
	must(h, err)
	change := func(model string) {
		t.Helper()
		_, err := h.vacants.Update(h.Context(), r.ID, vacants.Changes{Agent: &definition.Agent{Model: model}})
		must(h, err)
		h.time = h.time.Add(2 * time.Second) // the record is remembered for a second
	}
	h.delegate(parent.ID, r.ID, 2)
	change("b") // which answers nothing
	change("c")
	h.delegate(parent.ID, r.ID, 1)
	if diff := cmp.Diff([]string{"model:a", "model:c"}, h.collect(r.ID, parent.ID).Pairs[0].Child.Families); diff != "" {
		t.Errorf("Families (-want +got):\n%s", diff)
	}
	h.time = h.time.Add(collusionevidence.MaxEvidenceAge)
	if diff := cmp.Diff([]string{"model:c"}, h.collect(r.ID, parent.ID).Pairs[0].Child.Families); diff != "" {
		t.Errorf("Families after the window (-want +got):\n%s", diff)
	}
	// If an agent replaces a substrate without an agent, the substrate is not stored.
	bare := h.spawn(parent.ID, "D2", "bare", "ollama:a")
	h.delegate(parent.ID, bare, 1)
	_, err = h.vacants.Update(h.Context(), bare, vacants.Changes{Agent: &definition.Agent{Model: "b"}})
	must(h, err)
	if o := h.collect(bare, parent.ID).Pairs[0].Child; o.MissingReasons[gate.Substrate] != "the substrate of an earlier version is not known" {
		t.Errorf("Why = %v, want that the former substrate is not known", o.MissingReasons)
	}
}
