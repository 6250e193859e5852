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

func (m *ManifestDocument) indexKey(now time.Time) store.Key {
	rank := 1
	if m.Graduated {
		rank = 0
	}
	return ManifestDocs.IndexKey(fmt.Sprintf("%d%016x", rank, math.MaxInt64-max(now.UnixMicro(), 0)), m.Manifest.ParentID.String())
}

// ListChildManifests returns up to limit manifests (1 to store.MaxPage) that name parent, graduated
// children first and then the latest.
func (r *Registry) ListChildManifests(ctx context.Context, parent identity.ID, limit int) ([]ManifestDocument, error) {
	indexRange := ManifestDocs.IndexRange(parent.String())
	var children []ManifestDocument
	for docs, err := range store.Pages(ctx, r.Store, indexRange, limit) {
		if err != nil {
			return nil, WrapStoreError(err)
		}
		for _, d := range docs {
			if !ManifestDocs.Matches(d.Key) {
				return nil, problem.New(problem.Damaged, "the index of manifests contains %s, which is not a manifest", quoteTruncated(d.Key.String()))
			}
			m, err := ManifestDocs.Parse(d)
			if err == nil {
				err = r.checkGraduationProof(ctx, &m)
			}
			if err == nil && m.Manifest.ParentID != parent {
				err = problem.New(problem.Damaged, "manifest of %s is listed under another parent", m.Manifest.ChildID.Short())
			}
			if err != nil {
				return nil, err
			}
			if children = append(children, m); len(children) == limit {
				return children, nil
			}
		}
	}
	ids, _, err := r.ListChildIDs(ctx, parent, "", limit)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if len(children) == limit || slices.ContainsFunc(children, func(m ManifestDocument) bool { return m.Manifest.ChildID == id }) {
			continue
		}
		m, ok, err := r.Manifest(ctx, id)
		if err != nil {
			return nil, err
		}
		if ok && m.Manifest.ParentID == parent {
			children = append(children, m)
		}
	}
	return children, nil
}
