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

func (v *Directory) Manifest(ctx context.Context, child identity.ID) (registry.ManifestDocument, bool, error) {
	if v.Registry == nil {
		return registry.ManifestDocument{}, false, nil
	}
	return v.Registry.Manifest(ctx, child)
}

// Children returns a page of parent's children that are hosted here and that the Asker knows,
// ordered by id. The pages are as in List.
func (v *Directory) Children(ctx context.Context, asker Asker, parent identity.ID, cursor string, n int) ([]Record, string, error) {
	if v.Registry == nil {
		return nil, "", nil
	}
	if err := checkPage(cursor, n); err != nil {
		return nil, "", err
	}
	ids, next, err := v.Registry.ListChildIDs(ctx, parent, cursor, n)
	if err != nil {
		return nil, "", err
	}
	var children []Record
	for _, id := range ids {
		r, ok, err := v.readRecord(ctx, id)
		if err != nil {
			return nil, "", err
		}
		if ok && asker.MayKnow(&r) && r.Parent != nil && *r.Parent == parent {
			children = append(children, r)
		}
	}
	return children, next, nil
}

// StoreManifest works like AddManifest, but the child must be hosted here.
func (v *Directory) StoreManifest(ctx context.Context, m composite.Manifest) error {
	if v.Registry == nil {
		return problem.New(problem.Conflict, "this host has no registry")
	}
	r, err := v.getAsOperator(ctx, m.ChildID)
	if err != nil {
		return err
	}
	if r.IsDeleted() {
		return deletedError(&r)
	}
	return v.AddManifest(ctx, m)
}

// AddManifest stores a manifest in the registry. The same commit updates the records of a parent
// and a child that are hosted here.
func (v *Directory) AddManifest(ctx context.Context, m composite.Manifest) error {
	ctx, cancel := store.WithDefaultTimeout(ctx)
	defer cancel()
	unlock, err := v.logbookLocks.Lock(ctx, m.ParentID, m.ChildID)
	if err != nil {
		return err
	}
	defer unlock()
	return registry.WrapStoreError(v.commitTx(ctx, func(ctx context.Context, tx *store.Tx) error {
		added, err := v.Registry.AddManifest(ctx, tx, &m)
		if err != nil || !added {
			return err
		}
		child, ok, err := v.readRecord(ctx, m.ChildID)
		if err != nil {
			return err
		}
		if ok {
			if child.IsDeleted() {
				return deletedError(&child)
			}
			if err := child.checkParent(&m); err != nil {
				return err
			}
			if v.Vault == nil {
				return problem.New(problem.Conflict, "vacant %s is hosted here: send its manifest to the admin API, POST /v1/admin/vacants/%s/manifest", m.ChildID.Short(), m.ChildID)
			}
			child.applyManifest(&m)
			if err := v.addChange(ctx, tx, &child, &entry{logbook.KindManifestTaken, logbook.ManifestTakenPayload(m.Hash(), m.ParentID)}); err != nil {
				return err
			}
		}
		if v.Vault == nil {
			return nil
		}
		return v.markAsParent(ctx, tx, m.ParentID)
	}))
}

// checkParent returns an error if m names a different parent than r has. Otherwise, the holder of a
// child's key could escape the parent's manifest.
func (r *Record) checkParent(m *composite.Manifest) error {
	if m == nil || r.Parent == nil || *r.Parent == m.ParentID {
		return nil
	}
	return problem.New(problem.Conflict, "vacant %s is hosted here as a child of %s; a manifest cannot change its parent", m.ChildID.Short(), r.Parent.Short())
}

func (v *Directory) markAsParent(ctx context.Context, tx *store.Tx, id identity.ID) error {
	r, ok, err := v.readRecord(ctx, id)
	if err != nil || !ok || r.HasKin {
		return err
	}
	// The mark is the host's own data, so it has no logbook entry.
	r.HasKin = true
	return r.addTo(tx)
}
