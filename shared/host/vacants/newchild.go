package vacants

import (
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

// newChild is one attempt to make a child.
type newChild struct {
	spec SpawnSpec
	key  *identity.Key
	box  []byte // the child's sealed seed
	base string // the host's URL

	parent   Record
	above    *composite.Manifest // the parent's own manifest, or nil
	child    Record
	manifest composite.Manifest
	consent  *composite.Consent // only for path D4
	agent    *definition.Agent  // nil makes an agent of defaults
}

// makeChild adds the child to tx. Errors of the store are returned unchanged.
func (v *Directory) makeChild(ctx context.Context, tx *store.Tx, b *newChild) error {
	if err := v.readParent(ctx, b); err != nil {
		return err
	}
	allowed, err := v.planChild(b)
	if err == nil {
		err = v.Resources.CheckTenant(ctx, b.child.Tenant, b.child.Substrate, b.agent)
	}
	if err != nil {
		return err
	}
	if _, err := sign(ctx, &b.child, b.base, allowed, b.key); err != nil {
		return err
	}
	if err := v.signManifest(ctx, b); err != nil {
		return err
	}
	return v.addBirth(ctx, tx, b)
}

// readParent reads the parent, its agent if the child has it too, and its manifest.
func (v *Directory) readParent(ctx context.Context, b *newChild) (err error) {
	if b.parent, err = v.canSpawn(ctx, b.spec.Parent); err != nil {
		return err
	}
	if b.agent = b.spec.Agent; b.spec.Substrate == "" && b.parent.Agent > 0 {
		a, err := v.agentVersion(ctx, b.parent.ID, b.parent.Agent)
		if err != nil {
			return err
		}
		b.agent = &a
	}
	if b.parent.Parent == nil {
		return nil
	}
	d, ok, err := v.Registry.Manifest(ctx, b.parent.ID)
	if err == nil && !ok {
		err = problem.New(problem.Damaged, "vacant %s has a parent and no manifest", b.parent.Name)
	}
	if err != nil {
		return err
	}
	b.above = &d.Manifest
	if b.parent.Closed && b.spec.Path != closedPath {
		return problem.New(problem.Forbidden, "vacant %s is a closed child: until it has graduated its own children are closed, of path %s", b.parent.Name, closedPath)
	}
	return nil
}

// canSpawn reads the record of a vacant and checks that it may have children.
func (v *Directory) canSpawn(ctx context.Context, id identity.ID) (Record, error) {
	r, err := v.get(ctx, id)
	switch {
	case err != nil:
		return r, err
	case r.IsDeleted():
		return r, deleted(&r)
	case !r.State.CanBeCalled():
		return r, problem.New(problem.Conflict, "vacant %s is %s; only one that is %s or %s has children", r.Name, r.State, lifecycle.Local, lifecycle.Active)
	}
	gone, err := v.Registry.IsRevoked(ctx, id)
	if err == nil && gone {
		err = problem.New(problem.Revoked, "vacant %s: its key was revoked", r.Name)
	}
	return r, err
}

// planChild makes the child's record and its unsigned manifest.
func (v *Directory) planChild(b *newChild) (allowed []string, err error) {
	s := &b.spec
	if s.Substrate == "" && b.parent.Substrate == plan.Kind {
		return nil, problem.Invalid("substrate", "one of the child's own, as its parent answers by a plan", "none")
	}
	spec, err := v.Resources.ParseSubstrate(orElse(s.Substrate, b.parent.Substrate))
	if err != nil {
		return nil, err
	}
	capability := orElse(s.Capability, b.parent.Capability)
	switch {
	case s.Path == "D3" && capability == b.parent.Capability:
		return nil, problem.Invalid("capability", "a text other than the parent's, for path D3", "the parent's")
	case s.Path == "D5" && spec.String() == b.parent.Substrate:
		return nil, problem.Invalid("substrate", "a substrate other than the parent's, for path D5", "the parent's")
	}
	if err := b.planManifest(spec); err != nil {
		return nil, err
	}
	state := lifecycle.Active
	if b.manifest.ClosedByDefault {
		state = lifecycle.Local
	}
	b.child = Record{
		ID: b.key.ID(), Name: s.Name, State: state, Capability: capability, Substrate: spec.String(),
		Tenant: orElse(s.Tenant, b.parent.Tenant), Created: v.now(), seed: b.box,
	}
	b.child.By = ChooserOf(b.child.Tenant, s.By.chooser())
	if s.Agent == nil && b.child.Substrate == b.parent.Substrate {
		b.child.By = ChooserOf(b.child.Tenant, b.parent.By)
	}
	b.child.Changed, b.child.next = b.child.Created, b.agent
	b.child.bind(&b.manifest)
	return cardWords(spec, b.agent), nil
}

// bind makes r the child that m describes.
func (r *Record) bind(m *composite.Manifest) {
	parent := m.ParentID
	r.Parent, r.Closed, r.Kin, r.Reach, r.Outbound = &parent, m.ClosedByDefault, true, "", ""
	if m.Schema == composite.V2 {
		r.Reach, r.Outbound = m.Reachability, m.Outbound
	}
}

func orElse(s, other string) string {
	if s != "" {
		return s
	}
	return other
}

// planManifest fills in the manifest for both to sign.
func (b *newChild) planManifest(spec substrate.Spec) error {
	s := &b.spec
	closed := s.Path == closedPath
	m := composite.Manifest{
		ParentID: s.Parent, ChildID: b.key.ID(), BirthPath: s.Path, ClosedByDefault: closed,
		Reachability: composite.Reachability(orElse(string(s.Reach), string(composite.PublicA2A))), Outbound: s.Outbound, Schema: composite.V2,
	}
	tools := slices.Clone(s.Tools)
	if closed {
		m.Reachability = composite.Reachability(orElse(string(s.Reach), string(composite.ParentOnly)))
	}
	if m.Outbound == "" {
		m.Outbound = composite.Unrestricted
		if closed {
			m.Outbound = composite.NoExternal
		}
		if closed {
			for _, at := range endpoints(spec, b.agent) {
				m.Outbound = composite.ParentPermitted
				tools = appendOnce(tools, at)
			}
		}
		if !closed && b.limit() != "" {
			m.Outbound = b.limit()
		}
	}
	if limit := b.limit(); limit != "" && noExternal(m.Outbound) > noExternal(limit) {
		return problem.New(problem.Forbidden, "outbound_policy: expected %s at most, as the manifest of the parent %s says, got %s", limit, b.parent.Name, m.Outbound)
	}
	if err := b.planTools(&m, tools); err != nil {
		return err
	}
	b.manifest = m
	return m.Check()
}

// planTools fills in the three lists of tools. The tools of the parent's own
// manifest are inherited. No tool is added to a child of path D2, or if the
// parent itself is limited to its tools: the parent would reach the added tool
// through its child.
func (b *newChild) planTools(m *composite.Manifest, tools []string) error {
	var above []string
	if b.above != nil {
		above = b.above.Tools()
	}
	more := without(tools, above)
	bound := b.above != nil && m.ClosedByDefault || b.limit() == composite.ParentPermitted
	switch {
	case bound && len(more) > 0:
		return problem.New(problem.Forbidden, "tools: expected some of the parent's tools %s, got %s", b.parent.Name, clip(more[0]))
	case !m.ClosedByDefault:
		m.Inherited, m.Added = above, more
	case b.above == nil:
		m.Inherited = tools
	default:
		m.Inherited, m.Removed = above, without(above, tools)
	}
	return nil
}

// limit is the outbound policy of the parent by its own manifest, "" for no
// limit. A version 1 manifest signs no policy, but closes nevertheless.
func (b *newChild) limit() composite.Outbound {
	switch {
	case b.above == nil:
		return ""
	case b.above.Schema == composite.V2:
		return b.above.Outbound
	case b.above.ClosedByDefault:
		return composite.NoExternal
	}
	return ""
}

// noExternal orders policies from the strictest.
func noExternal(o composite.Outbound) int {
	return slices.Index([]composite.Outbound{composite.NoExternal, composite.ParentPermitted, composite.Unrestricted}, o)
}

// endpoints are the URLs that a substrate, or its agent if it has one, sends requests
// to.
func endpoints(s substrate.Spec, a *definition.Agent) []string {
	switch {
	case a != nil:
		return a.Endpoints()
	case s.Endpoint() != "":
		return []string{s.Endpoint()}
	}
	return nil
}

func appendOnce(list []string, one string) []string {
	if slices.Contains(list, one) {
		return list
	}
	return append(list, one)
}

// without returns the elements of list that are not in others.
func without(list, others []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(one string) bool { return slices.Contains(others, one) })
}

// signManifest signs the manifest as parent and child. For path D4 the second
// parent signs its consent.
func (v *Directory) signManifest(ctx context.Context, b *newChild) error {
	signer, err := v.signers.Signer(ctx, b.parent.ID, b.parent.seed)
	if err != nil {
		return err
	}
	if err := b.manifest.SignParent(ctx, signer); err != nil {
		return err
	}
	if err := b.manifest.SignChild(ctx, b.key); err != nil || b.spec.With == nil {
		return err
	}
	other, err := v.canSpawn(ctx, *b.spec.With)
	if err != nil {
		return err
	}
	nonce, err := composite.NewNonce(v.Rand)
	if err != nil {
		return err
	}
	b.consent = &composite.Consent{ParentID: b.parent.ID, SecondaryID: other.ID, ChildID: b.child.ID, Nonce: nonce}
	if signer, err = v.signers.Signer(ctx, other.ID, other.seed); err != nil {
		return err
	}
	return b.consent.Sign(ctx, signer)
}

// addBirth adds all writes of a birth to tx.
func (v *Directory) addBirth(ctx context.Context, tx *store.Tx, b *newChild) error {
	if _, err := v.Registry.AddManifest(ctx, tx, &b.manifest); err != nil {
		return err
	}
	b.parent.Kin = true
	if err := v.addChange(ctx, tx, &b.parent, &entry{logbook.KindSpawn, logbook.Spawn{
		Child: b.child.ID, Path: string(b.spec.Path), Secondary: b.spec.With,
	}.Payload()}); err != nil {
		return err
	}
	if err := v.addEntry(ctx, tx, b.key, &entry{logbook.KindBirth, b.payload().Payload()}); err != nil {
		return err
	}
	if err := v.claimFree(ctx, tx, b.spec.By, b.child.Name, &b.child); err != nil {
		return err
	}
	if err := v.useQuotas(ctx, tx, &b.child); err != nil {
		return err
	}
	return b.child.put(tx)
}

// payload is the child's first logbook entry.
func (b *newChild) payload() logbook.Birth {
	entry := logbook.Birth{
		Parent: b.parent.ID, Path: string(b.spec.Path), Rule: b.spec.Rule, Tools: b.manifest.Tools(), Capability: b.child.Capability,
		NewSubstrates: []string{b.child.Substrate}, OldSubstrates: []string{b.parent.Substrate},
	}
	if c := b.consent; c != nil {
		entry.Secondary, entry.Consent, entry.ChildConsent, entry.ConsentNonce = &c.SecondaryID, c.Reference, c.Signature, c.Nonce
	}
	return entry
}
