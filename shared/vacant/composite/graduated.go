package composite

import (
	"fmt"
	"slices"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// AfterGraduation returns the unsigned manifest that replaces m when the child graduates. The new
// manifest is open, public_a2a and of version V2. All other members are unchanged (PROTOCOL §13.4).
func (m *Manifest) AfterGraduation() Manifest {
	next := *m
	next.Inherited, next.Added, next.Removed = slices.Clone(m.Inherited), slices.Clone(m.Added), slices.Clone(m.Removed)
	next.ClosedByDefault, next.Reachability, next.Schema = false, PublicA2A, V2
	next.SignatureParent, next.SignatureChild = nil, nil
	return next
}

// CheckGraduation returns an error unless next is the graduated form of m with the signatures of
// both parties (PROTOCOL §13.4). The error names the first member with another value.
func (m *Manifest) CheckGraduation(next *Manifest) error {
	switch {
	case next.ParentID != m.ParentID:
		return problem.Invalid("parent_id", m.ParentID.String(), next.ParentID.String())
	case next.ChildID != m.ChildID:
		return problem.Invalid("child_id", m.ChildID.String(), next.ChildID.String())
	case next.ClosedByDefault:
		return problem.Invalid("closed_by_default", "false", "true")
	}
	if err := next.Verify(); err != nil {
		return err
	}
	want := m.AfterGraduation()
	for _, f := range []struct{ key, want, got string }{
		{"birth_path", string(want.BirthPath), string(next.BirthPath)},
		{"schema_version", string(want.Schema), string(next.Schema)},
		{"endpoint_reachability", string(want.Reachability), string(next.Reachability)},
		{"outbound_policy", string(want.Outbound), string(next.Outbound)},
	} {
		if f.want != f.got {
			return problem.Invalid(f.key, f.want, fmt.Sprintf("%.40q", f.got))
		}
	}
	lists, others := want.toolLists(), next.toolLists()
	for i, list := range lists {
		// The signatures do not cover the order of tools.
		if !slices.Equal(slices.Sorted(slices.Values(list.tools)), slices.Sorted(slices.Values(others[i].tools))) {
			return problem.Invalid(list.key, "the tools of the manifest before", "others")
		}
	}
	return nil
}

// Tools returns the tools that the child may use: inherited and added tools without duplicates and
// without removed tools.
func (m *Manifest) Tools() []string {
	var tools []string
	for _, tool := range slices.Concat(m.Inherited, m.Added) {
		if !slices.Contains(m.Removed, tool) && !slices.Contains(tools, tool) {
			tools = append(tools, tool)
		}
	}
	return tools
}
