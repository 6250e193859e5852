package registry

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/reputation"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// PutListing stores a signed listing if it is newer than the stored signed one.
// The same listing again changes nothing.
func (r *Registry) PutListing(ctx context.Context, l listing.Listing) (Registration, error) {
	// Before anything is read: a forged one is refused alike for a closed child and
	// for nobody.
	if err := checkSignedListing(&l); err != nil {
		return Registration{}, err
	}
	return r.edit(ctx, l.VacantID, func(g *Registration) (bool, error) {
		was := g.listingVersion
		if err := g.applyListing(l); err != nil {
			return false, err
		}
		return g.listingVersion != was, nil
	})
}

// SetListing stores a listing by the operator of this host, marked as such. A
// signed listing replaces it only if it is newer than earlier signed ones. The
// operator cannot set version or signature.
func (r *Registry) SetListing(ctx context.Context, id identity.ID, l listing.Listing) (Registration, error) {
	return r.edit(ctx, id, func(g *Registration) (bool, error) {
		l.VacantID, l.Version, l.Signature = id, max(g.listingVersion, 1), nil
		if err := checkListing(&l); err != nil {
			return false, err
		}
		if g.ListingSource == SourceOperator && g.Listing.Equal(&l) {
			return false, nil
		}
		g.Listing, g.ListingSource = &l, SourceOperator
		g.mayFollow = func(context.Context, identity.ID) (bool, error) { return true, nil }
		return true, nil
	})
}

// applyListing makes the signed listing l g's listing. An older version is refused, or
// anybody who recorded it could restore it.
func (g *Registration) applyListing(l listing.Listing) error {
	if l.VacantID != g.ID {
		return problem.New(problem.Malformed, "listing: expected the listing of %s, got the listing of %s", g.ID, l.VacantID)
	}
	if err := checkSignedListing(&l); err != nil {
		return err
	}
	same := g.ListingSource == SourceSigned && g.Listing.Version == l.Version && g.Listing.Hash() == l.Hash()
	switch {
	case same:
		return nil
	case l.Version <= g.listingVersion:
		return problem.New(problem.Conflict, "listing: version: expected one above %d, got %d", g.listingVersion, l.Version)
	}
	g.Listing, g.ListingSource, g.listingVersion = &l, SourceSigned, l.Version
	return nil
}

func checkSignedListing(l *listing.Listing) error {
	if err := checkListing(l); err != nil {
		return err
	}
	if !l.Verify() {
		return problem.New(problem.BadSignature, "listing signature did not verify")
	}
	return nil
}

func checkListing(l *listing.Listing) error {
	if err := l.Check(); err != nil {
		return problem.Wrap(problem.Malformed, err, "listing: %s", problem.Of(err).Text())
	}
	return nil
}

// SetReputation stores the reputation that reviews amount to.
func (r *Registry) SetReputation(ctx context.Context, id identity.ID, s reputation.State) (Registration, error) {
	if err := s.Check(); err != nil {
		return Registration{}, err
	}
	return r.edit(ctx, id, func(g *Registration) (bool, error) {
		if g.Reputation != nil && *g.Reputation == s {
			return false, nil
		}
		g.Reputation = &s
		return true, nil
	})
}

// edit changes the parts of a registration that the host itself vouches for.
// Nothing is written if fn reports no change. fn runs again after a conflict.
func (r *Registry) edit(ctx context.Context, id identity.ID, fn func(*Registration) (bool, error)) (Registration, error) {
	var g Registration
	written := false
	err := r.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		written = false // an earlier try may have set it
		g, err = r.registration(ctx, id)
		switch {
		case err != nil:
			return err
		case g.Joined == 0:
			return notRegistered(id)
		case g.Status == StatusRevoked:
			return revoked(id)
		}
		changed, err := fn(&g)
		if err != nil || !changed {
			return err
		}
		g.change(r.now())
		writes, err := r.writes(ctx, &g, tx.ID)
		tx.Add(writes...)
		written = true
		return err
	})
	if err != nil {
		return Registration{}, Problem(err)
	}
	if written {
		g.DocVersion++
	}
	return g, nil
}

// change records when g changed. Its position in the feed never moves back,
// even if the clock does.
func (g *Registration) change(now time.Time) {
	if now.After(g.Changed) {
		g.Changed = now
	}
	g.ChangeKey = ChangeKeyAt(g.Changed)
}

// AddManifest adds to tx the writes that store a manifest, which parent and
// child must have signed, and reports whether there are any: the same manifest
// again changes nothing. A manifest may come before or after the child's first
// publication. A closed child that is listed is hidden in the same commit.
//
// A closed manifest replaces an open one of any parent; otherwise a child could
// escape by first signing an open manifest with a parent of its own making.
// Every other manifest of the same child is refused with Conflict: a closed
// manifest opens by graduation only, and a graduated child stays open.
func (r *Registry) AddManifest(ctx context.Context, tx *store.Tx, m *composite.Manifest) (added bool, err error) {
	if err := m.Check(); err != nil {
		return false, err
	}
	if err := m.Verify(); err != nil {
		return false, err
	}
	known, d, err := ManifestDocs.Get(ctx, tx, ManifestKey(m.ChildID))
	if err != nil {
		return false, err
	}
	doc := ManifestDocument{Manifest: *m}
	if d.Version > 0 {
		if same(&known.Manifest, m) || same(known.Born(), m) {
			return false, nil
		}
		if err := known.checkReplace(m); err != nil {
			return false, err
		}
		doc.Replaced = &known.Manifest
	}
	for _, id := range []identity.ID{m.ParentID, m.ChildID} {
		gone, err := r.IsRevoked(ctx, id)
		if err != nil {
			return false, err
		}
		if gone {
			return false, revoked(id)
		}
	}
	g, err := r.registration(ctx, m.ChildID)
	if err != nil {
		return false, err
	}
	parent := m.ParentID
	g.Parent, g.ParentProven, g.Closed = &parent, true, m.ClosedByDefault
	if g.Closed && g.Joined > 0 {
		g.Visibility = lifecycle.Hidden
	}
	if g.Joined > 0 {
		g.change(r.now())
	}
	// The registration is written even if it did not exist, so that a
	// concurrent first publication conflicts with this manifest.
	writes, err := r.writes(ctx, &g, tx.ID)
	if err != nil {
		return false, err
	}
	tx.Add(writes...)
	ManifestDocs.Put(tx, store.Doc{Key: d.Key, Index: doc.place(r.now())}, doc)
	// The edge of the replaced manifest stays, because nothing here is deleted.
	// It does not count: the registration names another parent.
	if doc.Replaced == nil || doc.Replaced.ParentID != m.ParentID {
		KinDocs.Put(tx, store.Doc{Key: KinKey(m.ParentID, m.ChildID)}, struct{}{})
	}
	return true, nil
}

// AddGuard adds a write to tx that changes nothing in the registration of id,
// and conflicts if a manifest of id or a publication comes before it.
func (r *Registry) AddGuard(ctx context.Context, tx *store.Tx, id identity.ID) error {
	g, err := r.registration(ctx, id)
	if err != nil {
		return err
	}
	writes, err := r.writes(ctx, &g, tx.ID)
	tx.Add(writes...)
	return err
}

// Manifest returns the document of child's manifest, strongly consistent; false
// if there is none.
func (r *Registry) Manifest(ctx context.Context, child identity.ID) (ManifestDocument, bool, error) {
	m, d, err := ManifestDocs.Get(ctx, r.Store, ManifestKey(child))
	if err == nil {
		err = r.checkOpened(ctx, &m)
	}
	if err != nil || d.Version == 0 {
		return ManifestDocument{}, false, Problem(err)
	}
	return m, true, nil
}

// checkOpened reads the document that the gate wrote for a graduated child.
func (r *Registry) checkOpened(ctx context.Context, m *ManifestDocument) error {
	if !m.Graduated {
		return nil
	}
	d, err := r.Store.Doc(ctx, OpenedKey(m.Manifest.ChildID))
	if err == nil {
		err = m.CheckOpened(d)
	}
	return err
}

func same(a, b *composite.Manifest) bool {
	return a.Schema == b.Schema && bytes.Equal(a.SigningBytes(), b.SigningBytes())
}

// checkReplace refuses to replace the stored manifest by m, unless m closes the child
// for the first time.
func (d *ManifestDocument) checkReplace(m *composite.Manifest) error {
	refused := func(what string) error {
		return problem.Wrap(problem.Conflict, errors.New("signing bytes differ"), "vacant %s %s already", m.ChildID.Short(), what)
	}
	switch {
	case d.Graduated:
		return refused("has graduated by another manifest")
	case d.Manifest.ClosedByDefault:
		return refused("is closed by another manifest")
	case !m.ClosedByDefault:
		return refused("has another manifest")
	}
	return nil
}
