package composite_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func TestTreeOnlyAllowsWhatTheReferenceAllows(t *testing.T) {
	data, err := os.ReadFile("testdata/tree_only.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Name   string
			Input  struct{ Manifests []manifestVector }
			Expect struct {
				Calls []struct {
					Caller, Callee identity.ID
					Allowed        bool
					Message        string
				}
			}
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			var manifests []composite.Manifest
			for _, v := range c.Input.Manifests {
				manifests = append(manifests, v.manifest(t))
			}
			for _, call := range c.Expect.Calls {
				calls++
				i := slices.IndexFunc(manifests, func(m composite.Manifest) bool { return m.ChildID == call.Caller })
				err := manifests[i].CheckTreeOnly(call.Callee, siblings(call.Caller, manifests))
				if call.Allowed != (err == nil) || err != nil && (problem.AsError(err).Text() != call.Message || !problem.Is(err, problem.TreeOnly)) {
					t.Errorf("CheckTreeOnly(%s to %s) = %v, want %v %s", call.Caller.Short(), call.Callee.Short(), err, call.Allowed, call.Message)
				}
			}
		})
	}
	if len(file.Cases) != 40 || calls < 400 {
		t.Errorf("%d forests with %d calls, want 40 with at least 400", len(file.Cases), calls)
	}
}

// siblings returns the other children of the parent in child's first manifest, in the order of the
// manifests. If child has no manifest, it has no siblings. A graduated child is still a sibling
// (PROTOCOL §14).
func siblings(child identity.ID, manifests []composite.Manifest) []identity.ID {
	i := slices.IndexFunc(manifests, func(m composite.Manifest) bool { return m.ChildID == child })
	if i < 0 {
		return nil
	}
	var siblings []identity.ID
	for _, m := range manifests {
		if m.ParentID == manifests[i].ParentID && m.ChildID != child && !slices.Contains(siblings, m.ChildID) {
			siblings = append(siblings, m.ChildID)
		}
	}
	return siblings
}

// gates contains the expected results of a manifest's checks, with one sign for each peer or URL. +
// means allowed.
type gates struct {
	name     string
	schema   composite.SchemaVersion
	closed   bool
	reach    composite.Reachability
	outbound composite.OutboundPolicy
	policy   string // CheckOutboundCall for parent, sibling, vacant among the tools, stranger
	endpoint string // CheckOutboundURL for a URL among the tools, another URL
	admits   string // Admits for parent, sibling, stranger, the child itself
}

func TestTheAxesAreAGateOfTheirOwn(t *testing.T) {
	parent, _, base := pair(t)
	ids := map[string]identity.ID{"parent": parent.ID()}
	for name, seed := range map[string]string{"sibling": "44", "tool": "55", "stranger": "66"} {
		ids[name] = keyOf(t, strings.Repeat(seed, 32)).ID()
	}
	const url, other = "https://models.example/v1", "https://models.example/v1/"
	for _, g := range []gates{
		{"closed, no external", composite.SchemaV2, true, composite.ParentOnly, composite.NoExternal, "++--", "--", "++--"},
		{"closed, permitted", composite.SchemaV2, true, composite.ParentBridged, composite.ParentPermitted, "+++-", "+-", "++--"},
		{"closed, unrestricted", composite.SchemaV2, true, composite.PublicA2A, composite.Unrestricted, "++++", "++", "++--"},
		{"open, no external", composite.SchemaV2, false, composite.ParentOnly, composite.NoExternal, "++--", "--", "++--"},
		{"open, permitted", composite.SchemaV2, false, composite.ParentBridged, composite.ParentPermitted, "+++-", "+-", "++--"},
		{"open to all", composite.SchemaV2, false, composite.PublicA2A, composite.Unrestricted, "++++", "++", "+++-"},
		{"closed of version 1", composite.SchemaV1, true, composite.PublicA2A, composite.Unrestricted, "++++", "--", "++--"},
		{"open of version 1", composite.SchemaV1, false, composite.ParentOnly, composite.NoExternal, "++++", "++", "+++-"},
	} {
		t.Run(g.name, func(t *testing.T) {
			m := base
			m.SchemaVersion, m.ClosedByDefault, m.Reachability, m.OutboundPolicy = g.schema, g.closed, g.reach, g.outbound
			m.AddedTools = []string{url, ids["tool"].String()}
			siblings := []identity.ID{ids["sibling"]}
			sign := func(ok bool) string {
				if ok {
					return "+"
				}
				return "-"
			}
			var policy, endpoint, admits string
			for _, who := range []string{"parent", "sibling", "tool", "stranger"} {
				err := m.CheckOutboundCall(ids[who], siblings)
				policy += sign(err == nil)
				if err != nil && (!problem.Is(err, problem.TreeOnly) || !strings.Contains(problem.AsError(err).Text(), "outbound_policy "+string(g.outbound))) {
					t.Errorf("CheckOutboundCall(%s) = %v, want a refusal that names %s", who, err, g.outbound)
				}
			}
			for _, u := range []string{url, other} {
				err := m.CheckOutboundURL(u)
				endpoint += sign(err == nil)
				if err != nil && (!problem.Is(err, problem.TreeOnly) || !strings.Contains(problem.AsError(err).Text(), "outbound_policy ")) {
					t.Errorf("CheckOutboundURL(%s) = %v, want a refusal that names the policy", u, err)
				}
			}
			for _, who := range []identity.ID{ids["parent"], ids["sibling"], ids["stranger"], m.ChildID} {
				admits += sign(m.CanBeCalledBy(who, siblings))
			}
			if policy != g.policy || endpoint != g.endpoint || admits != g.admits {
				t.Errorf("CheckOutbound, CheckEndpoint, Admits = %s %s %s, want %s %s %s", policy, endpoint, admits, g.policy, g.endpoint, g.admits)
			}
		})
	}
}
