package vacants

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// Manifest returns the document of child's manifest; false if there is none.
func (v *Directory) Manifest(ctx context.Context, child identity.ID) (registry.ManifestDocument, bool, error) {
	if v.Registry == nil {
		return registry.ManifestDocument{}, false, nil
	}
	return v.Registry.Manifest(ctx, child)
}

// Children returns a page of the records of parent's children that are hosted
// here, in the order of their ids, and the cursor of the next page, "" after the
// last. A page may be short, even empty, while its cursor is not: an edge may
// lead to a child that is elsewhere, or be left over from a manifest that was
// replaced.
func (v *Directory) Children(ctx context.Context, parent identity.ID, cursor string, n int) ([]Record, string, error) {
	if v.Registry == nil {
		return nil, "", nil
	}
	if err := checkPage(cursor, n); err != nil {
		return nil, "", err
	}
	ids, next, err := v.Registry.Children(ctx, parent, cursor, n)
	if err != nil {
		return nil, "", err
	}
	var children []Record
	for _, id := range ids {
		r, ok, err := v.read(ctx, id)
		if err != nil {
			return nil, "", err
		}
		if ok && r.Parent != nil && *r.Parent == parent {
			children = append(children, r)
		}
	}
	return children, next, nil
}

// StoreManifest keeps a manifest of a child that is hosted here, which parent
// and child have signed; see registry.AddManifest. One that has a parent keeps
// it: a manifest of another is refused with Conflict. The same again does
// nothing, successfully.
func (v *Directory) StoreManifest(ctx context.Context, m composite.Manifest) error {
	if v.Registry == nil {
		return problem.New(problem.Conflict, "this host keeps no registry")
	}
	r, err := v.Get(ctx, m.ChildID)
	if err != nil {
		return err
	}
	if r.IsDeleted() {
		return deleted(&r)
	}
	return v.Registry.AddManifest(ctx, m)
}

// kinWrites are what a manifest that the registry takes changes at this host:
// the child's record with an entry in its logbook, and the mark of a parent.
// They are about to be committed, so neither is answered for from memory until
// that is over.
func (v *Directory) kinWrites(ctx context.Context, m *composite.Manifest) ([]store.Write, error) {
	child, ok, err := v.read(ctx, m.ChildID)
	if err != nil {
		return nil, err
	}
	var writes []store.Write
	if ok {
		if child.IsDeleted() {
			return nil, deleted(&child)
		}
		if err := child.stays(m); err != nil {
			return nil, err
		}
		if v.Vault == nil {
			return nil, problem.New(problem.Conflict, "vacant %s is hosted here: its manifest goes to the control plane, POST /v1/admin/vacants/%s/manifest", m.ChildID.Short(), m.ChildID)
		}
		child.bind(m)
		if writes, err = v.writes(ctx, &child, &entry{logbook.KindManifest, logbook.ManifestTaken(m.Hash(), m.ParentID)}); err != nil {
			return nil, err
		}
	}
	if v.Vault == nil {
		return writes, nil
	}
	marked, err := v.markParent(ctx, m.ParentID)
	if err != nil {
		return nil, err
	}
	writes = append(writes, marked...)
	now := v.Now()
	for _, id := range []identity.ID{m.ChildID, m.ParentID} {
		v.memory.reloadKey(id, now, now.Add(store.DefaultPatience))
	}
	return writes, nil
}

// stays refuses m, if there is one, where it makes r the child of another parent
// than it has. Whoever has the key of a child could else shed all that its parent
// signed, by a parent of its own making.
func (r *Record) stays(m *composite.Manifest) error {
	if m == nil || r.Parent == nil || *r.Parent == m.ParentID {
		return nil
	}
	return problem.New(problem.Conflict, "vacant %s is hosted here as a child of %s: no manifest makes it another's", m.ChildID.Short(), r.Parent.Short())
}

// markParent records in a hosted parent's record that it has children. This is
// the host's own knowledge, so it has no logbook entry.
func (v *Directory) markParent(ctx context.Context, id identity.ID) ([]store.Write, error) {
	r, ok, err := v.read(ctx, id)
	if err != nil || !ok || r.Kin {
		return nil, err
	}
	r.Kin = true
	writeID, err := v.updater().NewWriteID()
	if err != nil {
		return nil, err
	}
	data, err := r.encode()
	return []store.Write{store.Put{Key: RecordKey(id), If: r.version, WriteID: writeID, Data: data}}, err
}
