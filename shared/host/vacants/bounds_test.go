package vacants_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
)

// What a child may call is signed; its own children may call no more.
func TestAChildOfAChildReachesNoMoreThanItsParent(t *testing.T) {
	const model, other = "https://model.example/a", "https://other.example/"
	v := fresh(t)
	demo := create(t, v, "demo")
	kid, _, err := v.Spawn(t.Context(), vacants.SpawnSpec{Parent: demo.ID, Path: "D1", Rule: "r", Name: "kid",
		Tools: []string{model}, OutboundPolicy: composite.ParentPermitted})
	must(t, err)
	for name, spec := range map[string]vacants.SpawnSpec{
		"D1":               {Path: "D1", Rule: "r", Tools: []string{other}},
		"D3":               {Path: "D3", Capability: "counts", Tools: []string{model, other}},
		"that shuts first": {Path: "D1", Rule: "r", Tools: []string{other}, OutboundPolicy: composite.NoExternal},
	} {
		spec.Parent, spec.Name = kid.ID, "grandkid"
		_, _, err := v.Spawn(t.Context(), spec)
		wantKind(t, "Spawn() of path "+name+" with another tool", err, problem.Forbidden)
	}
	_, m, err := v.Spawn(t.Context(), vacants.SpawnSpec{Parent: kid.ID, Path: "D1", Rule: "r", Name: "grandkid", Tools: []string{model}})
	if err != nil || m.CheckOutboundURL(model) != nil || m.CheckOutboundURL(other) == nil {
		t.Errorf("Spawn() with the parent's tool = %s with %v, %v, want it alone", m.OutboundPolicy, m.Tools(), err)
	}
	// A parent without bounds passes on any.
	free, _, err := v.Spawn(t.Context(), vacants.SpawnSpec{Parent: demo.ID, Path: "D1", Rule: "r", Name: "free"})
	must(t, err)
	_, m, err = v.Spawn(t.Context(), vacants.SpawnSpec{Parent: free.ID, Path: "D1", Rule: "r", Name: "freer", Tools: []string{other}})
	if err != nil || !slices.Equal(m.AddedTools, []string{other}) {
		t.Errorf("Spawn() of who is free = %v, %v, want the tool added", m.AddedTools, err)
	}
}

// A manifest of version 1 signs no policy. A closed child of it may call
// nobody.
func TestAClosedChildOfVersion1HasNoChildThatReachesMore(t *testing.T) {
	v, key := fresh(t), newKey(t)
	m := composite.Manifest{ParentID: elsewhere().ID(), ChildID: key.ID(), BirthPath: "D2", ClosedByDefault: true,
		Reachability: composite.PublicA2A, OutboundPolicy: composite.Unrestricted, SchemaVersion: composite.SchemaV1}
	must(t, errors.Join(m.SignParent(t.Context(), elsewhere()), m.SignChild(t.Context(), key)))
	kid, err := v.Create(t.Context(), vacants.CreateSpec{Name: "kid", Capability: "counts", Substrate: "echo", Key: key, Manifest: &m})
	must(t, err)
	for _, outbound := range []composite.OutboundPolicy{composite.ParentPermitted, composite.Unrestricted} {
		_, _, err := v.Spawn(t.Context(), vacants.SpawnSpec{Parent: kid.ID, Path: "D2", Name: "grandkid", OutboundPolicy: outbound})
		wantKind(t, "Spawn() with outbound "+string(outbound), err, problem.Forbidden)
	}
	_, birthEntry, err := v.Spawn(t.Context(), vacants.SpawnSpec{Parent: kid.ID, Path: "D2", Name: "grandkid"})
	if err != nil || birthEntry.OutboundPolicy != composite.NoExternal {
		t.Errorf("Spawn() = %s, %v, want %s", birthEntry.OutboundPolicy, err, composite.NoExternal)
	}
}
