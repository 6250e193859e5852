package composite

import (
	"slices"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// inTree reports whether other is m's parent or one of the siblings. Nobody is
// in its own tree: a call to oneself is none (PROTOCOL §14).
func (m *Manifest) inTree(other identity.ID, siblings []identity.ID) bool {
	return other != m.ChildID && (other == m.ParentID || slices.Contains(siblings, other))
}

// CheckCall is Tree-Only (PROTOCOL §14): a closed child calls its parent and its
// siblings, nobody else. An open child is not limited by it, whatever its axes
// say. A refusal is of kind TreeOnly, in the words of the reference.
func (m *Manifest) CheckCall(callee identity.ID, siblings []identity.ID) error {
	if !m.ClosedByDefault || m.inTree(callee, siblings) {
		return nil
	}
	return problem.New(problem.TreeOnly, "closed child %s cannot call %s (not parent / not sibling)", m.ChildID.Short(), callee.Short())
}

// CheckPolicy is the gate beside Tree-Only, which the reference has not (PROTOCOL
// §23 E8): whether the outbound policy that both have signed lets the child
// call that vacant. parent-permitted adds to the tree those whose id is among
// the child's tools. A manifest of version 1 has signed no policy, so it
// forbids nothing here. A refusal is of kind TreeOnly and names the policy.
func (m *Manifest) CheckPolicy(callee identity.ID, siblings []identity.ID) error {
	if m.Schema == V1 || m.Outbound == Unrestricted || m.inTree(callee, siblings) {
		return nil
	}
	if m.Outbound == ParentPermitted {
		if slices.Contains(m.Tools(), callee.String()) {
			return nil
		}
		return problem.New(problem.TreeOnly, "outbound_policy %s: child %s cannot call %s (not in its tree, not among its tools)", m.Outbound, m.ChildID.Short(), callee.Short())
	}
	return problem.New(problem.TreeOnly, "outbound_policy %s: child %s cannot call %s (not in its tree)", m.Outbound, m.ChildID.Short(), callee.Short())
}

// CheckEndpoint says whether the child may send to a URL that is no vacant's:
// that of a model. Its outbound policy decides: parent-permitted with exactly
// this URL among its tools, or unrestricted. A manifest of version 1 has signed
// no policy: an open child is free, a closed one reaches nothing outside its
// tree. A refusal is of kind TreeOnly and names the policy.
func (m *Manifest) CheckEndpoint(url string) error {
	policy := m.Outbound
	if m.Schema == V1 {
		if !m.ClosedByDefault {
			return nil
		}
		policy = NoExternal
	}
	switch {
	case policy == Unrestricted:
		return nil
	case policy == ParentPermitted && slices.Contains(m.Tools(), url):
		return nil
	case policy == ParentPermitted:
		return problem.New(problem.TreeOnly, "outbound_policy %s: child %s cannot reach %.200q (not among its tools)", policy, m.ChildID.Short(), url)
	}
	return problem.New(problem.TreeOnly, "outbound_policy %s: child %s cannot reach %.200q", policy, m.ChildID.Short(), url)
}

// Admits reports whether caller may call the child: its tree always, and
// anybody else an open child that is public_a2a, or whose manifest of version 1
// says nothing of it.
func (m *Manifest) Admits(caller identity.ID, siblings []identity.ID) bool {
	if m.inTree(caller, siblings) {
		return true
	}
	return !m.ClosedByDefault && caller != m.ChildID && (m.Schema == V1 || m.Reachability == PublicA2A)
}
