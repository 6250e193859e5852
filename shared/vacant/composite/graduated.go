package composite

import (
	"fmt"
	"slices"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// AfterGraduation returns the unsigned manifest that replaces m when the child graduates (PROTOCOL
// §13.4).
func (m *Manifest) AfterGraduation() Manifest {
	graduated := *m
	graduated.InheritedTools, graduated.AddedTools, graduated.RemovedTools = slices.Clone(m.InheritedTools), slices.Clone(m.AddedTools), slices.Clone(m.RemovedTools)
	graduated.ClosedByDefault, graduated.Reachability, graduated.SchemaVersion = false, PublicA2A, SchemaV2
	graduated.SignatureParent, graduated.SignatureChild = nil, nil
	return graduated
}

// CheckGraduation returns an error unless graduated has the members of m.AfterGraduation() and both
// signatures.
func (m *Manifest) CheckGraduation(graduated *Manifest) error {
	switch {
	case graduated.ParentID != m.ParentID:
		return problem.Invalid("parent_id", m.ParentID.String(), graduated.ParentID.String())
	case graduated.ChildID != m.ChildID:
		return problem.Invalid("child_id", m.ChildID.String(), graduated.ChildID.String())
	case graduated.ClosedByDefault:
		return problem.Invalid("closed_by_default", "false", "true")
	}
	if err := graduated.Verify(); err != nil {
		return err
	}
	want := m.AfterGraduation()
	for _, f := range []struct{ key, want, got string }{
		{"birth_path", string(want.BirthPath), string(graduated.BirthPath)},
		{"schema_version", string(want.SchemaVersion), string(graduated.SchemaVersion)},
		{"endpoint_reachability", string(want.Reachability), string(graduated.Reachability)},
		{"outbound_policy", string(want.OutboundPolicy), string(graduated.OutboundPolicy)},
	} {
		if f.want != f.got {
			return problem.Invalid(f.key, f.want, fmt.Sprintf("%.40q", f.got))
		}
	}
	wantLists, gotLists := want.toolLists(), graduated.toolLists()
	for i, list := range wantLists {
		// The signatures do not cover the order of tools.
		if !slices.Equal(slices.Sorted(slices.Values(list.tools)), slices.Sorted(slices.Values(gotLists[i].tools))) {
			return problem.Invalid(list.key, "the tools of the previous manifest", "other tools")
		}
	}
	return nil
}

// Tools returns the inherited and added tools without duplicates and removed tools.
func (m *Manifest) Tools() []string {
	var tools []string
	for _, tool := range slices.Concat(m.InheritedTools, m.AddedTools) {
		if !slices.Contains(m.RemovedTools, tool) && !slices.Contains(tools, tool) {
			tools = append(tools, tool)
		}
	}
	return tools
}
