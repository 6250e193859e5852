package vacants

import (
	"cmp"
	"context"
	"slices"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// prepareChild completes r as the child that s describes, signs its manifest, and adds the manifest
// and the parent's changes to tx.
func (v *Directory) prepareChild(ctx context.Context, tx *store.Tx, s *SpawnSpec, r *Record, key *identity.Key, base string) (m composite.Manifest, firstEntry entry, err error) {
	parent, err := v.getSpawnParent(ctx, s.Parent)
	if err != nil {
		return m, firstEntry, err
	}
	r.nextAgent = s.Agent
	if s.Substrate == "" && parent.AgentVersion > 0 {
		a, err := v.agentVersion(ctx, parent.ID, parent.AgentVersion)
		if err != nil {
			return m, firstEntry, err
		}
		r.nextAgent = &a
	}
	var parentManifest *composite.Manifest
	if parent.Parent != nil {
		d, ok, err := v.Registry.Manifest(ctx, parent.ID)
		switch {
		case err != nil:
			return m, firstEntry, err
		case !ok:
			return m, firstEntry, problem.New(problem.Damaged, "vacant %s has a parent but no manifest", parent.Name)
		case parent.Closed && s.Path != closedPath:
			return m, firstEntry, problem.New(problem.Forbidden, "vacant %s is a closed child: until it graduates, it can have only closed children, of path %s", parent.Name, closedPath)
		}
		parentManifest = &d.Manifest
	}
	if s.Substrate == "" && parent.Substrate == plan.Kind {
		return m, firstEntry, problem.Invalid("substrate", "the child's own substrate, because the parent answers with a plan", "none")
	}
	spec, err := v.Resources.ParseSubstrate(cmp.Or(s.Substrate, parent.Substrate))
	if err != nil {
		return m, firstEntry, err
	}
	r.Name, r.Capability, r.Substrate = s.Name, cmp.Or(s.Capability, parent.Capability), spec.String()
	switch {
	case s.Path == "D3" && r.Capability == parent.Capability:
		return m, firstEntry, problem.Invalid("capability", "a text other than the parent's, for path D3", "the parent's")
	case s.Path == "D5" && r.Substrate == parent.Substrate:
		return m, firstEntry, problem.Invalid("substrate", "a substrate other than the parent's, for path D5", "the parent's")
	}
	if m, err = buildManifest(s, r, spec, &parent, parentManifest); err != nil {
		return m, firstEntry, err
	}
	r.Tenant, r.CreatedAt = cmp.Or(s.Tenant, parent.Tenant), v.now()
	r.Chooser = ChooserOf(r.Tenant, s.Asker.chooser())
	if s.Agent == nil && r.Substrate == parent.Substrate {
		r.Chooser = ChooserOf(r.Tenant, parent.Chooser)
	}
	if r.applyManifest(&m); r.Closed {
		r.State = lifecycle.Local
	} else {
		r.State = lifecycle.Active
	}
	if err := v.Resources.CheckAgentOfTenant(ctx, r.Tenant, r.Substrate, r.nextAgent); err != nil {
		return m, firstEntry, err
	}
	if _, err := signCard(ctx, r, base, listCardSubstrates(spec, r.nextAgent), key); err != nil {
		return m, firstEntry, err
	}
	signer, err := v.signers.Signer(ctx, parent.ID, parent.sealedSeed)
	if err != nil {
		return m, firstEntry, err
	}
	if err := m.SignParent(ctx, signer); err != nil {
		return m, firstEntry, err
	}
	if err := m.SignChild(ctx, key); err != nil {
		return m, firstEntry, err
	}
	birth := logbook.Birth{
		Parent: parent.ID, BirthPath: string(s.Path), PolicyMutation: s.Rule, Tools: m.Tools(), Capability: r.Capability,
		NewSubstrates: []string{r.Substrate}, OldSubstrates: []string{parent.Substrate},
	}
	if s.SecondParent != nil {
		other, err := v.getSpawnParent(ctx, *s.SecondParent)
		if err != nil {
			return m, firstEntry, err
		}
		nonce, err := composite.NewNonce(v.Rand)
		if err != nil {
			return m, firstEntry, err
		}
		c := composite.Consent{ParentID: parent.ID, SecondParentID: other.ID, ChildID: r.ID, Nonce: nonce}
		if signer, err = v.signers.Signer(ctx, other.ID, other.sealedSeed); err != nil {
			return m, firstEntry, err
		}
		if err := c.Sign(ctx, signer); err != nil {
			return m, firstEntry, err
		}
		birth.SecondParent, birth.ReferenceConsent, birth.ChildConsent, birth.ConsentNonce = &c.SecondParentID, c.ReferenceSignature, c.Signature, c.Nonce
	}
	if _, err := v.Registry.AddManifest(ctx, tx, &m); err != nil {
		return m, firstEntry, err
	}
	parent.HasKin = true
	spawn := logbook.Spawn{Child: r.ID, BirthPath: string(s.Path), SecondParent: s.SecondParent}
	return m, entry{logbook.KindBirth, birth.Payload()}, v.addChange(ctx, tx, &parent, &entry{logbook.KindSpawn, spawn.Payload()})
}

func (v *Directory) getSpawnParent(ctx context.Context, id identity.ID) (Record, error) {
	r, err := v.getAsOperator(ctx, id)
	switch {
	case err != nil:
		return r, err
	case r.IsDeleted():
		return r, deletedError(&r)
	case !r.State.CanBeCalled():
		return r, problem.New(problem.Conflict, "vacant %s is %s; only a vacant that is %s or %s can have children", r.Name, r.State, lifecycle.Local, lifecycle.Active)
	}
	isRevoked, err := v.Registry.IsRevoked(ctx, id)
	if err == nil && isRevoked {
		err = problem.New(problem.Revoked, "the key of vacant %s was revoked", r.Name)
	}
	return r, err
}

func (r *Record) applyManifest(m *composite.Manifest) {
	parent := m.ParentID
	r.Parent, r.Closed, r.HasKin, r.Reachability, r.OutboundPolicy = &parent, m.ClosedByDefault, true, "", ""
	if m.SchemaVersion == composite.SchemaV2 {
		r.Reachability, r.OutboundPolicy = m.Reachability, m.OutboundPolicy
	}
}

// buildManifest returns the unsigned manifest of r. A parent that is limited to its own tools
// cannot give the child other tools, because it could use them through the child.
func buildManifest(s *SpawnSpec, r *Record, spec substrate.Spec, parent *Record, parentManifest *composite.Manifest) (composite.Manifest, error) {
	isClosed := s.Path == closedPath
	m := composite.Manifest{
		ParentID: s.Parent, ChildID: r.ID, BirthPath: s.Path, ClosedByDefault: isClosed,
		Reachability: composite.Reachability(cmp.Or(string(s.Reachability), string(composite.PublicA2A))), OutboundPolicy: s.OutboundPolicy, SchemaVersion: composite.SchemaV2,
	}
	if isClosed {
		m.Reachability = composite.Reachability(cmp.Or(string(s.Reachability), string(composite.ParentOnly)))
	}
	var parentTools []string
	parentLimit := composite.OutboundPolicy("")
	if parentManifest != nil {
		parentTools, parentLimit = parentManifest.Tools(), parentManifest.OutboundPolicy
		// A version 1 manifest contains no policy, but may be closed.
		if parentManifest.SchemaVersion != composite.SchemaV2 {
			if parentLimit = ""; parentManifest.ClosedByDefault {
				parentLimit = composite.NoExternal
			}
		}
	}
	tools := slices.Clone(s.Tools)
	switch {
	case m.OutboundPolicy != "":
	case isClosed:
		m.OutboundPolicy = composite.NoExternal
		for _, endpointURL := range listEndpoints(spec, r.nextAgent) {
			m.OutboundPolicy = composite.ParentPermitted
			tools = appendOnce(tools, endpointURL)
		}
	default:
		m.OutboundPolicy = composite.OutboundPolicy(cmp.Or(string(parentLimit), string(composite.Unrestricted)))
	}
	if parentLimit != "" && policyRank(m.OutboundPolicy) > policyRank(parentLimit) {
		return m, problem.New(problem.Forbidden, "outbound_policy: expected at most %s, the policy of the parent %s, got %s", parentLimit, parent.Name, m.OutboundPolicy)
	}
	addedTools := subtract(tools, parentTools)
	switch isLimited := parentManifest != nil && isClosed || parentLimit == composite.ParentPermitted; {
	case isLimited && len(addedTools) > 0:
		return m, problem.New(problem.Forbidden, "tools: expected only tools of the parent %s, got %s", parent.Name, quoteTruncated(addedTools[0]))
	case !isClosed:
		m.InheritedTools, m.AddedTools = parentTools, addedTools
	case parentManifest == nil:
		m.InheritedTools = tools
	default:
		m.InheritedTools, m.RemovedTools = parentTools, subtract(parentTools, tools)
	}
	return m, m.Check()
}

func policyRank(policy composite.OutboundPolicy) int {
	return slices.Index([]composite.OutboundPolicy{composite.NoExternal, composite.ParentPermitted, composite.Unrestricted}, policy)
}

func listEndpoints(s substrate.Spec, a *definition.Agent) []string {
	switch {
	case a != nil:
		return a.Endpoints()
	case s.Endpoint() != "":
		return []string{s.Endpoint()}
	}
	return nil
}

func appendOnce(list []string, item string) []string {
	if slices.Contains(list, item) {
		return list
	}
	return append(list, item)
}

func subtract(list, others []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(item string) bool { return slices.Contains(others, item) })
}
