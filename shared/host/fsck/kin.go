package fsck

import (
	"context"
	"slices"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

func (r *run) manifest(ctx context.Context, k store.Key, g *registry.Registration) error {
	manifestKey := registry.ManifestKey(g.ID)
	d, err := r.document(ctx, manifestKey)
	if err != nil {
		return err
	}
	if d.Version == 0 {
		if g.ParentProven {
			r.addFinding(inDocument(k, Manifest, "a manifest, as its parent is proven", "none"))
		}
		return nil
	}
	m, err := registry.ManifestDocs.Parse(d)
	if err != nil {
		return r.reportDamage(manifestKey, Manifest, "a manifest that parent and child have signed", err)
	}
	if m.Graduated {
		r.gate.opened[m.Manifest.ChildID] = m.Manifest.Hash()
		if err := r.opening(ctx, &m); err != nil {
			return err
		}
	}
	if wrong := manifestDifference(k, g, &m); wrong != nil {
		r.addFinding(*wrong)
	}
	return r.checkEdgesOf(ctx, &m)
}

func (r *run) opening(ctx context.Context, m *registry.ManifestDocument) error {
	k := registry.OpenedKey(m.Manifest.ChildID)
	d, err := r.document(ctx, k)
	if err != nil {
		return err
	}
	if err := m.CheckOpened(d); err != nil {
		r.addFinding(inDocument(k, Graduation, "the hash of the manifest by which the gate opened the child", problem.AsError(err).Text()))
	}
	return nil
}

func manifestDifference(k store.Key, g *registry.Registration, m *registry.ManifestDocument) *Finding {
	var f Finding
	switch closed := m.IsClosed(); {
	case !g.ParentProven || g.Parent == nil || *g.Parent != m.Manifest.ParentID:
		f = inDocument(k, Manifest, "the parent "+m.Manifest.ParentID.String()+", as both have signed", "another, or none that is proven")
	case closed && (!g.Closed || g.FirstSeq > 0 && g.Visibility != lifecycle.Hidden):
		f = inDocument(k, Manifest, "a closed child with visibility NONE, according to its manifest", "one that is open")
	case !closed && g.Closed:
		f = inDocument(k, Manifest, "an open child, according to its manifest", "one that is closed")
	default:
		return nil
	}
	return &f
}

func (r *run) checkEdgesOf(ctx context.Context, m *registry.ManifestDocument) error {
	// Hosts never delete an edge, so the edges of replaced manifests must also exist.
	child := m.Manifest.ChildID
	for _, parent := range m.Parents() {
		kin := registry.KinKey(parent, child)
		d, err := r.document(ctx, kin)
		if err != nil {
			return err
		}
		if d.Version == 0 {
			r.addFinding(inDocument(kin, Manifest, "the edge that a manifest proves", "none"))
		}
	}
	return nil
}

// edges checks that the child's manifest, or a manifest that it replaced, proves each edge from a
// parent. A replaced manifest has no effect, but its edge cannot be created without the child's
// signature.
func (r *run) edges(ctx context.Context, parent identity.ID) error {
	return r.each(ctx, registry.KinDocs.Range(parent.String()), func(d store.Doc) error { return r.edge(ctx, parent, d.Key) })
}

func (r *run) edge(ctx context.Context, parent identity.ID, k store.Key) error {
	if err := r.flushIfFull(); err != nil {
		return err
	}
	child, err := identity.ParseID(k.Sort)
	if err != nil {
		r.addFinding(inDocument(k, Document, "the key of a child", "another"))
		return nil
	}
	manifestKey := registry.ManifestKey(child)
	d, err := r.document(ctx, manifestKey)
	if err != nil {
		return err
	}
	want := "an edge that the child has signed, or none"
	if d.Version == 0 {
		r.addFinding(inDocument(k, Manifest, want, "one without a manifest"))
		return nil
	}
	m, err := registry.ManifestDocs.Parse(d)
	switch {
	case err != nil: // reported with the child if it has events or is on this host
		if some, err := r.hasRows(ctx, registry.ActorStream(child)); some || err != nil {
			return err
		}
		if d, err := r.view.Doc(ctx, vacants.RecordKey(child)); d.Version > 0 || err != nil && !isDamaged(err) {
			return err
		}
		return r.reportDamage(manifestKey, Manifest, "a manifest that parent and child have signed", err)
	case !slices.Contains(m.Parents(), parent):
		r.addFinding(inDocument(k, Manifest, want, "one to a child of "+m.Manifest.ParentID.String()))
	}
	return nil
}
