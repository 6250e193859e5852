package registry

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// childrenIndexPrefix and a parent's id are the partition of the sparse index
// that lists the manifests of the parent's children.
const childrenIndexPrefix = "children#"

// place is m's sort key in the index: graduated children first, then the
// latest.
func (m *ManifestDocument) place(at time.Time) store.Key {
	rank := 1
	if m.Graduated {
		rank = 0
	}
	return store.Key{
		Partition: childrenIndexPrefix + m.Manifest.ParentID.String(),
		Sort:      fmt.Sprintf("%d%016x", rank, math.MaxInt64-max(at.UnixMicro(), 0)),
	}
}

// ChildrenIndex returns up to n children of parent (1 to store.MaxPage) by
// their own manifests: graduated children first, the latest first. It reads two
// pages and at most n manifests, and what opened the graduated ones, whatever the
// number of children. The sparse
// index may lag behind; if it lists fewer than n children, children found by
// edges follow.
func (r *Registry) ChildrenIndex(ctx context.Context, parent identity.ID, n int) ([]ManifestDocument, error) {
	listed := store.Range{Partition: childrenIndexPrefix + parent.String(), Index: true}
	var siblings []ManifestDocument
	for cursor, more := "", true; more && len(siblings) < n; more = cursor != "" {
		var docs []store.Doc
		var err error
		if docs, cursor, err = r.Store.Docs(ctx, listed, n-len(siblings), cursor); err != nil {
			return nil, Problem(err)
		}
		for _, d := range docs {
			m, err := r.listedAs(ctx, parent, d)
			if err != nil {
				return nil, err
			}
			siblings = append(siblings, m)
		}
	}
	if len(siblings) == n {
		return siblings, nil
	}
	return r.fill(ctx, siblings, parent, n)
}

// fill appends children that are not in siblings, up to n in all.
func (r *Registry) fill(ctx context.Context, siblings []ManifestDocument, parent identity.ID, n int) ([]ManifestDocument, error) {
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

func (r *Registry) listedAs(ctx context.Context, parent identity.ID, d store.Doc) (ManifestDocument, error) {
	digits, ok := strings.CutPrefix(d.Key.Partition, registrationPrefix)
	child, err := identity.ParseID(digits)
	if !ok || err != nil || d.Key != ManifestKey(child) {
		return ManifestDocument{}, problem.New(problem.Damaged, "%s is listed as a manifest", clip(d.Key.String()))
	}
	m, err := r.decodeManifest(ctx, child, d)
	if err == nil && m.Manifest.ParentID != parent {
		err = problem.New(problem.Damaged, "manifest of %s is listed as another parent's", child.Short())
	}
	return m, err
}
