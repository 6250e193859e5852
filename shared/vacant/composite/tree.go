package composite

import (
	"slices"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func (m *Manifest) isInTree(other identity.ID, siblings []identity.ID) bool {
	// A vacant cannot call itself (PROTOCOL §14).
	return other != m.ChildID && (other == m.ParentID || slices.Contains(siblings, other))
}

// CheckTreeOnly returns an error of kind TreeOnly if the child is closed and callee is neither its
// parent nor one of its siblings (PROTOCOL §14).
func (m *Manifest) CheckTreeOnly(callee identity.ID, siblings []identity.ID) error {
	if !m.ClosedByDefault || m.isInTree(callee, siblings) {
		return nil
	}
	return problem.New(problem.TreeOnly, "closed child %s cannot call %s (not parent / not sibling)", m.ChildID.Short(), callee.Short())
}

// CheckOutboundCall returns an error of kind TreeOnly unless the outbound policy allows a call of
// callee:
//
//   - Every policy allows the parent and the siblings.
//   - ParentPermitted also allows vacants whose ids are among the child's tools.
//   - V1 does not sign the policy, so the child may call all vacants.
func (m *Manifest) CheckOutboundCall(callee identity.ID, siblings []identity.ID) error {
	if m.SchemaVersion == SchemaV1 || m.OutboundPolicy == Unrestricted || m.isInTree(callee, siblings) {
		return nil
	}
	if m.OutboundPolicy == ParentPermitted {
		if slices.Contains(m.Tools(), callee.String()) {
			return nil
		}
		return problem.New(problem.TreeOnly, "outbound_policy %s: child %s cannot call %s (not in its tree, not among its tools)", m.OutboundPolicy, m.ChildID.Short(), callee.Short())
	}
	return problem.New(problem.TreeOnly, "outbound_policy %s: child %s cannot call %s (not in its tree)", m.OutboundPolicy, m.ChildID.Short(), callee.Short())
}

// CheckOutboundURL returns an error of kind TreeOnly unless the child may send requests to url. The
// policy must be Unrestricted, or ParentPermitted with url among the tools. An open child of V1 may
// use all URLs, and a closed child of V1 may use no URL.
func (m *Manifest) CheckOutboundURL(url string) error {
	policy := m.OutboundPolicy
	if m.SchemaVersion == SchemaV1 {
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

// CanBeCalledBy reports whether caller may call the child. The parent and the siblings always may.
// Other vacants may call an open child if its reachability is PublicA2A or its manifest is V1.
func (m *Manifest) CanBeCalledBy(caller identity.ID, siblings []identity.ID) bool {
	if m.isInTree(caller, siblings) {
		return true
	}
	return !m.ClosedByDefault && caller != m.ChildID && (m.SchemaVersion == SchemaV1 || m.Reachability == PublicA2A)
}
