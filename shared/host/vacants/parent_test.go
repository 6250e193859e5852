package vacants_test

import (
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The holder of a child's key may find another parent for it, even make one.
// The host keeps what the child's own parent has signed.
func TestAChildIsNobodyElsesByAManifestThatItHasSigned(t *testing.T) {
	s := fresh(t)
	demo := create(t, s, "demo")
	kid, _, err := s.Spawn(t.Context(), vacants.SpawnSpec{Parent: demo.ID, Path: "D1", Rule: "r", Name: "kid",
		Reachability: composite.ParentOnly, OutboundPolicy: composite.NoExternal})
	must(t, err)
	m := composite.Manifest{ParentID: elsewhere().ID(), ChildID: kid.ID, BirthPath: "D1", ClosedByDefault: true,
		Reachability: composite.PublicA2A, OutboundPolicy: composite.Unrestricted, SchemaVersion: composite.SchemaV1}
	must(t, m.SignParent(t.Context(), elsewhere()))
	must(t, s.WithSigner(t.Context(), kid.ID, func(k identity.Signer) error { return m.SignChild(t.Context(), k) }))
	wantKind(t, "AddManifest() of another parent", s.AddManifest(t.Context(), m), problem.Conflict)
	wantKind(t, "TakeManifest() of another parent", s.StoreManifest(t.Context(), m), problem.Conflict)
	spec := moved(t, s, kid.ID)
	if r, err := s.Create(t.Context(), spec); err != nil || r.ID != kid.ID {
		t.Errorf("Create() of it again = %v, %v, want it", r, err)
	}
	spec.Manifest = &m
	_, err = s.Create(t.Context(), spec)
	wantKind(t, "Create() of it again with another parent", err, problem.Conflict)
	kept, err := s.Get(t.Context(), vacants.OperatorAsker(), kid.ID)
	if err != nil || *kept.Parent != demo.ID || kept.Closed || kept.Reachability != composite.ParentOnly || kept.OutboundPolicy != composite.NoExternal {
		t.Errorf("the child is of %v, closed %t, %s, %s, %v, want as it was born", kept.Parent, kept.Closed, kept.Reachability, kept.OutboundPolicy, err)
	}
}
