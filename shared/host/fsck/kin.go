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

func (r *run) checkRegisteredManifest(ctx context.Context, k store.Key, reg *registry.Registration) error {
	manifestKey := registry.ManifestKey(reg.ID)
	d, err := r.readDocument(ctx, manifestKey)
	if err != nil {
		return err
	}
	if d.Version == 0 {
		if reg.ParentProven {
			r.addFinding(newDocumentFinding(k, Manifest, "a manifest, as its parent is proven", "none"))
		}
		return nil
	}
	m, err := registry.ManifestDocs.Parse(d)
	if err != nil {
		return r.reportDamage(manifestKey, Manifest, "a manifest that parent and child have signed", err)
	}
	if m.Graduated {
		r.attempts.graduatedManifests[m.Manifest.ChildID] = m.Manifest.Hash()
		if err := r.checkOpeningDocument(ctx, &m); err != nil {
			return err
		}
	}
	if finding := compareManifest(k, reg, &m); finding != nil {
		r.addFinding(*finding)
	}
	return r.checkManifestEdges(ctx, &m)
}

func (r *run) checkOpeningDocument(ctx context.Context, m *registry.ManifestDocument) error {
	k := registry.OpeningKey(m.Manifest.ChildID)
	d, err := r.readDocument(ctx, k)
	if err != nil {
		return err
	}
	if err := m.CheckOpeningDocument(d); err != nil {
		r.addFinding(newDocumentFinding(k, Graduation, "the hash of the manifest by which the gate opened the child", problem.AsError(err).Text()))
	}
	return nil
}

func compareManifest(k store.Key, reg *registry.Registration, m *registry.ManifestDocument) *Finding {
	var f Finding
	switch isClosed := m.IsClosed(); {
	case !reg.ParentProven || reg.Parent == nil || *reg.Parent != m.Manifest.ParentID:
		f = newDocumentFinding(k, Manifest, "the parent "+m.Manifest.ParentID.String()+", as both have signed", "another, or none that is proven")
	case isClosed && (!reg.Closed || reg.FirstSeq > 0 && reg.Visibility != lifecycle.Hidden):
		f = newDocumentFinding(k, Manifest, "a closed child with visibility NONE, according to its manifest", "one that is open")
	case !isClosed && reg.Closed:
		f = newDocumentFinding(k, Manifest, "an open child, according to its manifest", "one that is closed")
	default:
		return nil
	}
	return &f
}

func (r *run) checkManifestEdges(ctx context.Context, m *registry.ManifestDocument) error {
	// Hosts never delete an edge, so the edges of replaced manifests must also exist.
	child := m.Manifest.ChildID
	for _, parent := range m.Parents() {
		edgeKey := registry.ChildEdgeKey(parent, child)
		d, err := r.readDocument(ctx, edgeKey)
		if err != nil {
			return err
		}
		if d.Version == 0 {
			r.addFinding(newDocumentFinding(edgeKey, Manifest, "the edge that a manifest proves", "none"))
		}
	}
	return nil
}

// checkEdges checks that a current or replaced manifest of the child proves each edge.
func (r *run) checkEdges(ctx context.Context, parent identity.ID) error {
	return r.eachDocument(ctx, registry.ChildEdgeDocs.Range(parent.String()), func(d store.Doc) error { return r.checkEdge(ctx, parent, d.Key) })
}

func (r *run) checkEdge(ctx context.Context, parent identity.ID, k store.Key) error {
	if err := r.flushIfFull(); err != nil {
		return err
	}
	child, err := identity.ParseID(k.Sort)
	if err != nil {
		r.addFinding(newDocumentFinding(k, Document, "the key of a child", "another"))
		return nil
	}
	manifestKey := registry.ManifestKey(child)
	d, err := r.readDocument(ctx, manifestKey)
	if err != nil {
		return err
	}
	want := "an edge that the child has signed, or none"
	if d.Version == 0 {
		r.addFinding(newDocumentFinding(k, Manifest, want, "one without a manifest"))
		return nil
	}
	m, err := registry.ManifestDocs.Parse(d)
	switch {
	case err != nil: // reported with the child
		if hasRows, err := r.hasRows(ctx, registry.ActorStream(child)); hasRows || err != nil {
			return err
		}
		if d, err := r.view.Doc(ctx, vacants.RecordKey(child)); d.Version > 0 || err != nil && !isDamaged(err) {
			return err
		}
		return r.reportDamage(manifestKey, Manifest, "a manifest that parent and child have signed", err)
	case !slices.Contains(m.Parents(), parent):
		r.addFinding(newDocumentFinding(k, Manifest, want, "one to a child of "+m.Manifest.ParentID.String()))
	}
	return nil
}
