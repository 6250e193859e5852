package vacants

import (
	"context"
	"fmt"
	"slices"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody/sealed"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/tenant"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// SpawnSpec describes a child to create.
type SpawnSpec struct {
	// By makes the child, and so chose Substrate and Agent, unless they are the
	// parent's. The Vacants of the agent are some that By knows, or public ones.
	By     Asker
	Parent identity.ID // hosted here
	Path   composite.BirthPath
	Name   string
	// Capability and Substrate default to the parent's. A parent that answers
	// by a plan has no substrate to inherit. Path D3 needs another capability,
	// D5 another substrate.
	Capability, Substrate string
	// Agent is the child's own, whose Vacants may be names. Without one and without a
	// Substrate it has its parent's.
	Agent  *definition.Agent
	Tenant string // defaults to the parent's
	// Tools of a D2 child are all tools that it may use, a subset of the
	// parent's if the parent has a manifest. For the other paths they are added
	// to the inherited tools.
	Tools []string
	Rule  string       // D1: the added rule of conduct
	With  *identity.ID // D4: the second parent, hosted here
	// Reach and Outbound default by path. A closed child gets parent-only and
	// no-external, or parent-permitted if its substrate is a URL, which is then
	// one of its tools. Other children get public_a2a, and unrestricted or the
	// policy of the parent's own manifest.
	Reach    composite.Reachability
	Outbound composite.Outbound
}

// closedPath is the birth path of closed children.
const closedPath composite.BirthPath = "D2"

// Spawn creates a child with its own key. Record, name and BIRTH entry of the
// child, SPAWN entry of the parent, the manifest signed by both, its edge and
// the registration that awaits the child's first publication are one commit. A
// D2 child is closed and LOCAL; the others are open and ACTIVE. The parent must
// be LOCAL or ACTIVE, with a key that is not revoked. A closed parent can only
// have closed children, because an open child would bypass the gate. Repeating
// the call returns the same child.
func (v *Directory) Spawn(ctx context.Context, s SpawnSpec) (Record, composite.Manifest, error) {
	none := composite.Manifest{}
	if v.Registry == nil {
		return Record{}, none, problem.New(problem.Conflict, "this host keeps no registry")
	}
	var err error
	if s.Substrate, err = v.substrateText(s.Substrate, s.Agent); err != nil {
		return Record{}, none, err
	}
	if err := s.check(); err != nil {
		return Record{}, none, err
	}
	if s.Agent != nil {
		parent, err := v.get(ctx, s.Parent)
		if err != nil {
			return Record{}, none, err
		}
		self := Record{Tenant: orElse(s.Tenant, parent.Tenant), Parent: &s.Parent}
		next, err := v.resolved(ctx, s.By, &self, *s.Agent)
		if err != nil {
			return Record{}, none, err
		}
		s.Agent = &next
	}
	base, err := v.base(ctx)
	if err != nil {
		return Record{}, none, err
	}
	ctx, cancel := store.WithPatience(ctx)
	defer cancel()
	// Another host with this store, or an earlier run of this command, may have
	// created the child.
	if r, m, err := v.birthEntry(ctx, &s); err != nil || !r.ID.IsZero() {
		return r, m, err
	}
	key, err := identity.NewKey(v.Rand)
	if err != nil {
		return Record{}, none, err
	}
	defer key.Wipe()
	box, err := sealed.Vacant.Seal(ctx, v.Vault, key)
	if err != nil {
		return Record{}, none, err
	}
	r, m, err := v.spawn(ctx, newChild{spec: s, key: key, box: box, base: base})
	if err == nil && v.URL == "" {
		r, err = v.currentCard(ctx, r, base)
	}
	return r, m, err
}

// spawn attempts the commit until it succeeds or ctx ends.
func (v *Directory) spawn(ctx context.Context, first newChild) (Record, composite.Manifest, error) {
	none := composite.Manifest{}
	done, err := v.logs.Lock(ctx, first.spec.Parent)
	if err != nil {
		return Record{}, none, err
	}
	defer done()
	var r Record
	var m composite.Manifest
	retried := false
	err = v.update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if retried { // another host may have made this child meanwhile
			if r, m, err = v.birthEntry(ctx, &first.spec); err != nil || !r.ID.IsZero() {
				return err
			}
		}
		retried = true
		b := first
		if err = v.makeChild(ctx, tx, &b); err == nil {
			r, m = b.child, b.manifest
		}
		return err
	})
	if err != nil {
		return Record{}, none, err
	}
	return r, m, nil
}

// check makes the checks that need no store.
func (s *SpawnSpec) check() error {
	if err := registry.CheckNewName(s.Name); err != nil {
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
	with := ""
	if s.With != nil {
		with = s.With.Short()
	}
	for _, only := range []struct{ field, path, given string }{{"rule", "D1", s.Rule}, {"with", "D4", with}} {
		switch needed := string(s.Path) == only.path; {
		case needed && only.given == "":
			return problem.Invalid(only.field, "one for path "+only.path, "none")
		case !needed && only.given != "":
			return problem.Invalid(only.field, fmt.Sprintf("none for path %s", s.Path), clip(only.given))
		}
	}
	if s.Path == "D5" && s.Substrate == "" {
		return problem.Invalid("substrate", "a substrate other than the parent's, for path D5", "none")
	}
	if s.With != nil && *s.With == s.Parent {
		return problem.Invalid("with", "a vacant other than the parent", "the parent")
	}
	if s.Path == closedPath && s.Reach == composite.PublicA2A {
		return problem.Invalid("endpoint_reachability", "parent-only or parent-bridged, for a closed child", string(s.Reach))
	}
	return tenant.Check(s.Tenant)
}

// birthEntry returns the child that s describes if it exists, or the zero
// Record if its name is free for it.
func (v *Directory) birthEntry(ctx context.Context, s *SpawnSpec) (Record, composite.Manifest, error) {
	none := composite.Manifest{}
	parent, err := v.get(ctx, s.Parent)
	if err != nil {
		return Record{}, none, err
	}
	// Before the vacant of the name is read, which may be this child, made concurrently.
	_, taken := v.checkName(ctx, v.Store, s.By, s.Name, &Record{Tenant: orElse(s.Tenant, parent.Tenant)})
	r, err := v.ByName(ctx, Operator(), s.Name)
	if problem.Is(err, problem.NotFound) || err == nil && r.IsDeleted() {
		return Record{}, none, store.Problem(taken)
	}
	if err != nil {
		return Record{}, none, err
	}
	same, m, err := v.isThat(ctx, &r, s)
	switch {
	case err != nil:
		return Record{}, none, err
	case !same:
		return Record{}, none, registry.NameTaken(r.Name)
	}
	return r, m, nil
}

// isThat reports whether r is the child that s describes, and returns its
// current manifest. What changed since the birth is not compared.
func (v *Directory) isThat(ctx context.Context, r *Record, s *SpawnSpec) (same bool, m composite.Manifest, err error) {
	if r.Parent == nil || *r.Parent != s.Parent {
		return false, m, nil
	}
	if parent, err := v.get(ctx, s.Parent); err != nil || r.Tenant != orElse(s.Tenant, parent.Tenant) {
		return false, m, err
	}
	d, ok, err := v.Registry.Manifest(ctx, r.ID)
	if err != nil || !ok {
		return false, m, err
	}
	birthEntry := d.Born()
	first, err := v.Logbook(ctx, r.ID, 1, 1)
	if err != nil || len(first) == 0 || first[0].Entry.Kind != logbook.KindBirth {
		return false, m, err
	}
	b, err := logbook.ParseBirth(first[0].Entry.Payload)
	if err != nil {
		return false, m, problem.Wrap(problem.Damaged, err, "logbook of vacant %s: its birth is not readable", r.ID.Short())
	}
	reached, err := v.reachedAtBirth(ctx, r)
	if err != nil {
		return false, m, err
	}
	same = birthEntry.BirthPath == s.Path && b.Path == string(s.Path) && b.Rule == s.Rule &&
		(s.Capability == "" || d.Graduated || s.Capability == r.Capability) &&
		(s.Substrate == "" || isSubstrate(r.Substrate, s.Substrate)) &&
		(s.Reach == "" || s.Reach == birthEntry.Reachability) && (s.Outbound == "" || s.Outbound == birthEntry.Outbound) &&
		(s.With == nil || b.Secondary != nil && *b.Secondary == *s.With) && s.hasTools(birthEntry, reached)
	return same, d.Manifest, nil
}

// reachedAtBirth are the endpoints of r's first agent, or of its substrate.
func (v *Directory) reachedAtBirth(ctx context.Context, r *Record) ([]string, error) {
	spec, err := substrate.Parse(r.Substrate)
	if err != nil || r.Agent == 0 {
		return endpoints(spec, nil), err
	}
	a, err := v.agentVersion(ctx, r.ID, 1)
	return endpoints(spec, &a), err
}

// hasTools reports whether m lists exactly the tools that s describes, and those that
// the child reaches.
func (s *SpawnSpec) hasTools(m *composite.Manifest, reached []string) bool {
	asked, got := s.Tools, m.Added
	if s.Path == closedPath {
		got = m.Tools()
		for _, at := range reached {
			if s.Outbound == "" {
				asked = appendOnce(slices.Clone(asked), at)
			}
		}
	} else {
		asked = without(asked, m.Inherited)
	}
	return len(without(asked, got)) == 0 && len(without(got, asked)) == 0
}

func isSubstrate(kept, asked string) bool {
	spec, err := substrate.Parse(asked)
	return err == nil && spec.String() == kept
}
