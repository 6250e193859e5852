package hosted

import (
	"context"
	"fmt"
	"slices"

	"github.com/vacancy-host/vacancy/shared/host/custody/sealed"
	"github.com/vacancy-host/vacancy/shared/host/settle"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// SpawnSpec says which child a vacant is to have.
type SpawnSpec struct {
	Parent identity.ID // hosted here
	Path   composite.BirthPath
	Name   string
	// Capability and Substrate are the parent's where they are "". Path D3 needs
	// another capability, D5 another substrate.
	Capability, Substrate string
	Tenant                string // the parent's where it is ""
	// Tools are, of path D2, all that the child may use, a subset of its parent's
	// where the parent has a manifest; of the others what it may use besides.
	Tools []string
	Rule  string       // D1: the rule of conduct that is added
	With  *identity.ID // D4: the second parent, hosted here
	// Reach and Outbound are by path where they are "": of a closed child
	// parent-only and no-external, or parent-permitted where its substrate is a
	// URL, which then is among its tools; of the others public_a2a, and
	// unrestricted or what the parent's own manifest signs.
	Reach    composite.Reachability
	Outbound composite.Outbound
}

// closedPath is the birth path of closed children.
const closedPath composite.BirthPath = "D2"

// Spawn makes a child with a key of its own. Record, name and BIRTH of the
// child, SPAWN of the parent, the manifest that both have signed, its edge and
// the registration that waits for the child's first publish are one commit. A
// child of path D2 is closed and LOCAL; the others are open and ACTIVE. The
// parent must be LOCAL or ACTIVE with a key that is good, and one that is closed
// itself has closed children only: through an open one it would pass by the
// gate. The same given again answers with the same child.
func (v *Vacants) Spawn(ctx context.Context, s SpawnSpec) (Record, composite.Manifest, error) {
	none := composite.Manifest{}
	if v.Registry == nil {
		return Record{}, none, problem.New(problem.Conflict, "this host keeps no registry")
	}
	if err := s.check(); err != nil {
		return Record{}, none, err
	}
	base, err := v.base(ctx)
	if err != nil {
		return Record{}, none, err
	}
	ctx, cancel := settle.WithPatience(ctx)
	defer cancel()
	// Of another host with this store, or of a command that was given again.
	if r, m, err := v.born(ctx, &s); err != nil || !r.ID.IsZero() {
		return r, m, err
	}
	key, err := identity.NewKey(v.Rand)
	if err != nil {
		return Record{}, none, err
	}
	defer key.Wipe()
	box, err := sealed.Seal(ctx, v.Vault, key)
	if err != nil {
		return Record{}, none, err
	}
	done, err := v.logs.take(ctx, s.Parent)
	if err != nil {
		return Record{}, none, err
	}
	defer done()
	for try := 1; ; try++ {
		b := birth{spec: s, key: key, box: box, base: base}
		err := v.bear(ctx, &b)
		if err == nil {
			r, err := v.currentChild(ctx, b.child, base)
			return r, b.manifest, err
		}
		if !settle.Overtaken(err) {
			return Record{}, none, fault(err)
		}
		if r, m, err := v.born(ctx, &s); err != nil || !r.ID.IsZero() {
			return r, m, err
		}
		if settle.BackOff(ctx, v.Wait, v.Rand, try) != nil {
			return Record{}, none, fault(err)
		}
	}
}

// currentChild is currentCard, where the host may have got another URL.
func (v *Vacants) currentChild(ctx context.Context, r Record, base string) (Record, error) {
	if v.URL != "" {
		return r, nil
	}
	return v.currentCard(ctx, r, base)
}

// check checks all that can be checked without the store.
func (s *SpawnSpec) check() error {
	if err := CheckName(s.Name); err != nil {
		return err
	}
	if s.Capability != "" || s.Path == "D3" {
		if err := checkCapability(s.Capability); err != nil {
			return err
		}
	}
	if !slices.Contains(composite.BirthPaths(), s.Path) {
		return problem.Invalid("path", "D1 to D5", clip(string(s.Path)))
	}
	for _, only := range []struct {
		field, path string
		given       bool
	}{{"rule", "D1", s.Rule != ""}, {"with", "D4", s.With != nil}} {
		if given := string(s.Path) == only.path; given != only.given {
			want := "none"
			if given {
				want = "one"
			}
			return problem.Invalid(only.field, fmt.Sprintf("%s for path %s", want, s.Path), "otherwise")
		}
	}
	if s.Path == "D5" && s.Substrate == "" {
		return problem.Invalid("substrate", "another than the parent's, for path D5", "none")
	}
	if s.With != nil && *s.With == s.Parent {
		return problem.Invalid("with", "another vacant than the parent", "the same")
	}
	if s.Path == closedPath && s.Reach == composite.PublicA2A {
		return problem.Invalid("endpoint_reachability", "parent-only or parent-bridged, for a closed child", string(s.Reach))
	}
	return checkTenant(s.Tenant)
}

// born is the child that s asks for, if it is there; the zero Record if its name
// is free.
func (v *Vacants) born(ctx context.Context, s *SpawnSpec) (Record, composite.Manifest, error) {
	none := composite.Manifest{}
	r, err := v.ByName(ctx, s.Name)
	if problem.Is(err, problem.NotFound) {
		return Record{}, none, nil
	}
	if err != nil {
		return Record{}, none, err
	}
	same, m, err := v.isThat(ctx, &r, s)
	switch {
	case err != nil:
		return Record{}, none, err
	case r.IsDeleted():
		return Record{}, none, deleted(&r)
	case !same:
		return Record{}, none, problem.New(problem.Conflict, "the name %s belongs to vacant %s", r.Name, r.ID.Short())
	}
	return r, m, nil
}

// isThat reports whether r is the child that s asks for, and returns its
// manifest as it is. What has changed since its birth is not compared.
func (v *Vacants) isThat(ctx context.Context, r *Record, s *SpawnSpec) (same bool, m composite.Manifest, err error) {
	if r.IsDeleted() || r.Parent == nil || *r.Parent != s.Parent {
		return false, m, nil
	}
	d, ok, err := v.Registry.Manifest(ctx, r.ID)
	if err != nil || !ok {
		return false, m, err
	}
	born := d.Born()
	first, err := v.Logbook(ctx, r.ID, 1, 1)
	if err != nil || len(first) == 0 || first[0].Entry.Kind != logbook.KindBirth {
		return false, m, err
	}
	b, err := logbook.ParseBirth(first[0].Entry.Payload)
	if err != nil {
		return false, m, problem.Wrap(problem.Damaged, err, "logbook of vacant %s: its birth is not readable", r.ID.Short())
	}
	same = born.BirthPath == s.Path && b.Path == string(s.Path) && b.Rule == s.Rule &&
		(s.Capability == "" || d.Graduated || s.Capability == r.Capability) &&
		(s.Substrate == "" || isSubstrate(r.Substrate, s.Substrate)) &&
		(s.Reach == "" || s.Reach == born.Reachability) && (s.Outbound == "" || s.Outbound == born.Outbound) &&
		(s.With == nil || b.Secondary != nil && *b.Secondary == *s.With) && isSubset(s.Tools, born.Tools())
	return same, d.Manifest, nil
}

func isSubstrate(kept, asked string) bool {
	spec, err := substrate.Parse(asked)
	return err == nil && spec.String() == kept
}

func isSubset(some, all []string) bool {
	return !slices.ContainsFunc(some, func(one string) bool { return !slices.Contains(all, one) })
}

// birth is one try at making a child.
type birth struct {
	spec SpawnSpec
	key  *identity.Key
	box  []byte // the child's seed, sealed
	base string // the host's URL

	parent   Record
	above    *composite.Manifest // the parent's own; nil if it has none
	child    Record
	manifest composite.Manifest
	consent  *composite.Consent // D4
}

// bear decides and commits. Errors of the store are as they come.
func (v *Vacants) bear(ctx context.Context, b *birth) error {
	if err := v.readParent(ctx, b); err != nil {
		return err
	}
	kind, err := v.planChild(b)
	if err != nil {
		return err
	}
	if _, err := sign(ctx, &b.child, b.base, kind, b.key); err != nil {
		return err
	}
	if err := v.bind(ctx, b); err != nil {
		return err
	}
	writes, err := v.birthWrites(ctx, b)
	if err != nil {
		return err
	}
	err = settle.Commit(ctx, v.Store, v.Wait, writes...)
	v.memory.forget() // also when the outcome is unknown
	if err != nil {
		return err
	}
	b.child.version = 1
	return nil
}

// readParent reads what the child is to be born of.
func (v *Vacants) readParent(ctx context.Context, b *birth) (err error) {
	if b.parent, err = v.fertile(ctx, b.spec.Parent); err != nil {
		return err
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

// fertile reads the record of a vacant that may have a child.
func (v *Vacants) fertile(ctx context.Context, id identity.ID) (Record, error) {
	r, err := v.Get(ctx, id)
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

// planChild makes the child's record and the manifest, unsigned.
func (v *Vacants) planChild(b *birth) (kind string, err error) {
	s := &b.spec
	spec, err := substrate.Parse(orElse(s.Substrate, b.parent.Substrate))
	if err != nil {
		return "", err
	}
	if _, err := v.Substrates.Open(spec); err != nil {
		return "", err
	}
	capability := orElse(s.Capability, b.parent.Capability)
	switch {
	case s.Path == "D3" && capability == b.parent.Capability:
		return "", problem.Invalid("capability", "another than the parent's, for path D3", "the same")
	case s.Path == "D5" && spec.String() == b.parent.Substrate:
		return "", problem.Invalid("substrate", "another than the parent's, for path D5", "the same")
	}
	if err := b.planManifest(spec); err != nil {
		return "", err
	}
	state := lifecycle.Active
	if b.manifest.ClosedByDefault {
		state = lifecycle.Local
	}
	b.child = Record{
		ID: b.key.ID(), Name: s.Name, State: state, Capability: capability, Substrate: spec.String(),
		Tenant: orElse(s.Tenant, b.parent.Tenant), Created: v.now(), seed: b.box,
	}
	b.child.Changed = b.child.Created
	b.child.bind(&b.manifest)
	return cardWord(spec.Kind), nil
}

// bind has r be the child that m says.
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

// planManifest decides what parent and child are to sign.
func (b *birth) planManifest(spec substrate.Spec) error {
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
		if closed && spec.Kind == substrate.KindHTTP {
			m.Outbound = composite.ParentPermitted
			tools = appendOnce(tools, spec.Argument)
		}
		if !closed && b.limit() != "" {
			m.Outbound = b.limit()
		}
	}
	if limit := b.limit(); limit != "" && freedom(m.Outbound) > freedom(limit) {
		return problem.New(problem.Forbidden, "outbound_policy: expected %s at most, as the manifest of the parent %s says, got %s", limit, b.parent.Name, m.Outbound)
	}
	if err := b.planTools(&m, tools); err != nil {
		return err
	}
	b.manifest = m
	return m.Check()
}

// planTools fills in the three lists: what the parent's own manifest lets it use
// is inherited, and of path D2 nothing can be added to that.
func (b *birth) planTools(m *composite.Manifest, tools []string) error {
	var above []string
	if b.above != nil {
		above = b.above.Tools()
	}
	if !m.ClosedByDefault {
		m.Inherited = above
		m.Added = without(tools, above)
		return nil
	}
	if b.above == nil {
		m.Inherited = tools
		return nil
	}
	if more := without(tools, above); len(more) > 0 {
		return problem.New(problem.Forbidden, "tools: expected some of those of the parent %s, got %s", b.parent.Name, clip(more[0]))
	}
	m.Inherited, m.Removed = above, without(above, tools)
	return nil
}

// limit is what the parent itself has signed of whom it calls; "" if nothing.
func (b *birth) limit() composite.Outbound {
	if b.above == nil || b.above.Schema != composite.V2 {
		return ""
	}
	return b.above.Outbound
}

// freedom puts the policies in order.
func freedom(o composite.Outbound) int {
	return slices.Index([]composite.Outbound{composite.NoExternal, composite.ParentPermitted, composite.Unrestricted}, o)
}

func appendOnce(list []string, one string) []string {
	if slices.Contains(list, one) {
		return list
	}
	return append(list, one)
}

// without is what of list is not among others.
func without(list, others []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(one string) bool { return slices.Contains(others, one) })
}

// bind has parent and child sign the manifest, and of path D4 the second parent
// its consent.
func (v *Vacants) bind(ctx context.Context, b *birth) error {
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
	other, err := v.fertile(ctx, *b.spec.With)
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

// birthWrites are all that a birth is made of.
func (v *Vacants) birthWrites(ctx context.Context, b *birth) ([]store.Write, error) {
	writes, err := v.Registry.PlanManifest(ctx, b.manifest)
	if err != nil {
		return nil, err
	}
	b.parent.Kin = true
	above, err := v.writes(ctx, &b.parent, &entry{logbook.KindSpawn, logbook.Spawn{
		Child: b.child.ID, Path: string(b.spec.Path), Secondary: b.spec.With,
	}.Payload()})
	if err != nil {
		return nil, err
	}
	attempt, err := v.attempt()
	if err != nil {
		return nil, err
	}
	row, err := v.row(ctx, b.key, &entry{logbook.KindBirth, b.payload().Payload()})
	if err != nil {
		return nil, err
	}
	row.Attempt = attempt
	data, err := b.child.encode()
	if err != nil {
		return nil, err
	}
	writes = append(append(writes, above...), row,
		store.Put{Key: RecordKey(b.child.ID), Attempt: attempt, Data: data},
		store.Put{Key: NameKey(b.child.Name), Attempt: attempt, Data: encodeName(b.child.ID)})
	return writes, nil
}

// payload is what the child's first entry says.
func (b *birth) payload() logbook.Birth {
	entry := logbook.Birth{
		Parent: b.parent.ID, Path: string(b.spec.Path), Rule: b.spec.Rule, Tools: b.manifest.Tools(), Capability: b.child.Capability,
		NewSubstrates: []string{b.child.Substrate}, OldSubstrates: []string{b.parent.Substrate},
	}
	if c := b.consent; c != nil {
		entry.Secondary, entry.Consent, entry.ChildConsent, entry.ConsentNonce = &c.SecondaryID, c.Reference, c.Signature, c.Nonce
	}
	return entry
}
