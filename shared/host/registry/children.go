package registry

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func (m *ManifestDocument) place(now time.Time) store.Key {
	// The index lists graduated children first, and then the latest manifest first.
	rank := 1
	if m.Graduated {
		rank = 0
	}
	return ManifestDocs.IndexKey(fmt.Sprintf("%d%016x", rank, math.MaxInt64-max(now.UnixMicro(), 0)), m.Manifest.ParentID.String())
}

// ChildrenIndex returns up to n children of parent (1 to store.MaxPage) whose own manifests name
// parent, graduated children first and then the latest. Its cost does not depend on the number of
// children. If the index, which may lag behind, has fewer than n children, children found by their
// edges (KinDocs) follow.
func (r *Registry) ChildrenIndex(ctx context.Context, parent identity.ID, n int) ([]ManifestDocument, error) {
	listed := ManifestDocs.IndexRange(parent.String())
	var siblings []ManifestDocument
	for docs, err := range store.Pages(ctx, r.Store, listed, n) {
		if err != nil {
			return nil, WrapStoreError(err)
		}
		for _, d := range docs {
			if !ManifestDocs.Matches(d.Key) {
				return nil, problem.New(problem.Damaged, "%s is listed as a manifest", clip(d.Key.String()))
			}
			m, err := ManifestDocs.Parse(d)
			if err == nil {
				err = r.checkOpened(ctx, &m)
			}
			if err == nil && m.Manifest.ParentID != parent {
				err = problem.New(problem.Damaged, "manifest of %s is listed under another parent", m.Manifest.ChildID.Short())
			}
			if err != nil {
				return nil, err
			}
			if siblings = append(siblings, m); len(siblings) == n {
				return siblings, nil
			}
		}
	}
	ids, _, err := r.Children(ctx, parent, "", n)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if len(siblings) == n || slices.ContainsFunc(siblings, func(m ManifestDocument) bool { return m.Manifest.ChildID == id }) {
			continue
		}
		m, ok, err := r.Manifest(ctx, id)
		if err != nil {
			return nil, err
		}
		if ok && m.Manifest.ParentID == parent {
			siblings = append(siblings, m)
		}
	}
	return siblings, nil
}
