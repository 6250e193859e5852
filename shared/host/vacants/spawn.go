package vacants

import (
	"context"
	"fmt"
	"slices"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody/sealed"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// SpawnSpec says which child a vacant is to have.
type SpawnSpec struct {
	Parent identity.ID // hosted here
	Path   composite.BirthPath
	Name   string
	// Capability and Substrate are the parent's where they are "", but for the
	// substrate of a parent that answers by a plan. Path D3 needs another
	// capability, D5 another substrate.
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
func (v *Directory) Spawn(ctx context.Context, s SpawnSpec) (Record, composite.Manifest, error) {
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
	ctx, cancel := store.WithPatience(ctx)
	defer cancel()
	// Of another host with this store, or of a command that was given again.
	if r, m, err := v.birthEntry(ctx, &s); err != nil || !r.ID.IsZero() {
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
	r, m, err := v.spawn(ctx, newChild{spec: s, key: key, box: box, base: base})
	if err == nil && v.URL == "" {
		r, err = v.currentCard(ctx, r, base)
	}
	return r, m, err
}

// spawn tries b until nobody else is in the way, or ctx ends.
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

// birthEntry is the child that s asks for, if it is there; the zero Record if its name
// is free.
func (v *Directory) birthEntry(ctx context.Context, s *SpawnSpec) (Record, composite.Manifest, error) {
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
func (v *Directory) isThat(ctx context.Context, r *Record, s *SpawnSpec) (same bool, m composite.Manifest, err error) {
	if r.IsDeleted() || r.Parent == nil || *r.Parent != s.Parent {
		return false, m, nil
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
	same = birthEntry.BirthPath == s.Path && b.Path == string(s.Path) && b.Rule == s.Rule &&
		(s.Capability == "" || d.Graduated || s.Capability == r.Capability) &&
		(s.Substrate == "" || isSubstrate(r.Substrate, s.Substrate)) &&
		(s.Reach == "" || s.Reach == birthEntry.Reachability) && (s.Outbound == "" || s.Outbound == birthEntry.Outbound) &&
		(s.With == nil || b.Secondary != nil && *b.Secondary == *s.With) && s.hasTools(birthEntry, r.Substrate)
	return same, d.Manifest, nil
}

// hasTools reports whether m, of a child with a substrate, lists the tools that
// s asks for, and no others.
func (s *SpawnSpec) hasTools(m *composite.Manifest, thinks string) bool {
	asked, got := s.Tools, m.Added
	if s.Path == closedPath {
		got = m.Tools()
		if spec, err := substrate.Parse(thinks); err == nil && spec.Kind == substrate.KindHTTP && s.Outbound == "" {
			asked = appendOnce(slices.Clone(asked), spec.Argument)
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
