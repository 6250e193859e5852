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

// PutListing stores a signed listing. The error is Conflict unless its version is higher than the
// versions of all earlier signed listings.
func (r *Registry) PutListing(ctx context.Context, l listing.Listing) (Registration, error) {
	// A forged listing must get the same error for a closed child as for an unknown id, so this
	// check comes before all reads.
	if err := checkSignedListing(&l); err != nil {
		return Registration{}, err
	}
	return r.editRegistration(ctx, l.VacantID, func(reg *Registration) (bool, error) {
		oldVersion := reg.listingVersion
		if err := reg.applyListing(l); err != nil {
			return false, err
		}
		return reg.listingVersion != oldVersion, nil
	})
}

// SetListing stores a listing that the host's operator has set. Its version and signature are
// ignored.
func (r *Registry) SetListing(ctx context.Context, id identity.ID, l listing.Listing) (Registration, error) {
	return r.editRegistration(ctx, id, func(reg *Registration) (bool, error) {
		l.VacantID, l.Version, l.Signature = id, max(reg.listingVersion, 1), nil
		if err := checkListing(&l); err != nil {
			return false, err
		}
		if reg.ListingSource == SourceOperator && reg.Listing.Equal(&l) {
			return false, nil
		}
		reg.Listing, reg.ListingSource = &l, SourceOperator
		reg.mayReuseSlug = func(context.Context, identity.ID) (bool, error) { return true, nil }
		return true, nil
	})
}

func (g *Registration) applyListing(l listing.Listing) error {
	// An older version is refused, because anyone who recorded it could otherwise restore it.
	if l.VacantID != g.ID {
		return problem.New(problem.Malformed, "listing: expected the listing of %s, got the listing of %s", g.ID, l.VacantID)
	}
	if err := checkSignedListing(&l); err != nil {
		return err
	}
	isSame := g.ListingSource == SourceSigned && g.Listing.Version == l.Version && g.Listing.Hash() == l.Hash()
	switch {
	case isSame:
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
		return problem.Wrap(problem.Malformed, err, "listing: %s", problem.AsError(err).Text())
	}
	return nil
}

func (r *Registry) SetReputation(ctx context.Context, tx *store.Tx, id identity.ID, s reputation.State) error {
	reg, err := r.loadRegistration(ctx, id)
	if err != nil || reg.FirstSeq == 0 || reg.Status == StatusRevoked || reg.Reputation != nil && *reg.Reputation == s {
		return err
	}
	reg.Reputation = &s
	reg.recordChange(r.now())
	writes, err := r.registrationWrites(ctx, &reg, tx.ID)
	tx.AddWrites(writes...)
	return err
}

// editRegistration changes a registration without an event. It writes only if fn returns true, and
// calls fn again after a conflict.
func (r *Registry) editRegistration(ctx context.Context, id identity.ID, fn func(*Registration) (bool, error)) (Registration, error) {
	var reg Registration
	isWritten := false
	err := r.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		isWritten = false // a previous try may have set it
		reg, err = r.loadRegistration(ctx, id)
		switch {
		case err != nil:
			return err
		case reg.FirstSeq == 0:
			return notRegisteredError(id)
		case reg.Status == StatusRevoked:
			return revokedError(id)
		}
		isChanged, err := fn(&reg)
		if err != nil || !isChanged {
			return err
		}
		reg.recordChange(r.now())
		writes, err := r.registrationWrites(ctx, &reg, tx.ID)
		tx.AddWrites(writes...)
		isWritten = true
		return err
	})
	if err != nil {
		return Registration{}, WrapStoreError(err)
	}
	if isWritten {
		reg.DocVersion++
	}
	return reg, nil
}

func (g *Registration) recordChange(now time.Time) {
	// A vacant's position in the feed never moves back, even if the clock does.
	if now.After(g.ChangedAt) {
		g.ChangedAt = now
	}
	g.ChangeKey = FormatChangeKey(g.ChangedAt)
}

// AddManifest adds to tx a manifest that parent and child have signed. It returns false if the
// manifest is already stored.
//
// A closed manifest replaces an open manifest of any parent, so that a child cannot avoid closure
// by first signing an open manifest with another parent. Other replacements are refused with
// Conflict.
func (r *Registry) AddManifest(ctx context.Context, tx *store.Tx, m *composite.Manifest) (isAdded bool, err error) {
	if err := m.Check(); err != nil {
		return false, err
	}
	if err := m.Verify(); err != nil {
		return false, err
	}
	oldDoc, d, err := ManifestDocs.Get(ctx, tx, ManifestKey(m.ChildID))
	if err != nil {
		return false, err
	}
	doc := ManifestDocument{Manifest: *m}
	if d.Version > 0 {
		if isSameManifest(&oldDoc.Manifest, m) || isSameManifest(oldDoc.BirthManifest(), m) {
			return false, nil
		}
		if err := oldDoc.checkReplacement(m); err != nil {
			return false, err
		}
		doc.PreviousManifest = &oldDoc.Manifest
	}
	for _, id := range []identity.ID{m.ParentID, m.ChildID} {
		isRevoked, err := r.IsRevoked(ctx, id)
		if err != nil {
			return false, err
		}
		if isRevoked {
			return false, revokedError(id)
		}
	}
	reg, err := r.loadRegistration(ctx, m.ChildID)
	if err != nil {
		return false, err
	}
	parent := m.ParentID
	reg.Parent, reg.ParentProven, reg.Closed = &parent, true, m.ClosedByDefault
	if reg.Closed && reg.FirstSeq > 0 {
		reg.Visibility = lifecycle.Hidden
	}
	if reg.FirstSeq > 0 {
		reg.recordChange(r.now())
	}
	// The registration is written even if it did not exist, so that a concurrent first publication
	// conflicts with this manifest.
	writes, err := r.registrationWrites(ctx, &reg, tx.ID)
	if err != nil {
		return false, err
	}
	tx.AddWrites(writes...)
	ManifestDocs.Put(tx, store.Doc{Key: d.Key, Index: doc.indexKey(r.now())}, doc)
	if doc.PreviousManifest == nil || doc.PreviousManifest.ParentID != m.ParentID {
		ChildEdgeDocs.Put(tx, store.Doc{Key: ChildEdgeKey(m.ParentID, m.ChildID)}, struct{}{})
	}
	return true, nil
}

// AddConflictWrite adds a write to tx that changes no data but conflicts with a concurrent manifest
// or publication of id.
func (r *Registry) AddConflictWrite(ctx context.Context, tx *store.Tx, id identity.ID) error {
	reg, err := r.loadRegistration(ctx, id)
	if err != nil {
		return err
	}
	writes, err := r.registrationWrites(ctx, &reg, tx.ID)
	tx.AddWrites(writes...)
	return err
}

func (r *Registry) Manifest(ctx context.Context, child identity.ID) (ManifestDocument, bool, error) {
	m, d, err := ManifestDocs.Get(ctx, r.Store, ManifestKey(child))
	if err == nil {
		err = r.checkGraduationProof(ctx, &m)
	}
	if err != nil || d.Version == 0 {
		return ManifestDocument{}, false, WrapStoreError(err)
	}
	return m, true, nil
}

func (r *Registry) checkGraduationProof(ctx context.Context, m *ManifestDocument) error {
	if !m.Graduated {
		return nil
	}
	d, err := r.Store.Doc(ctx, OpeningKey(m.Manifest.ChildID))
	if err == nil {
		err = m.CheckOpeningDocument(d)
	}
	return err
}

func isSameManifest(a, b *composite.Manifest) bool {
	return a.SchemaVersion == b.SchemaVersion && bytes.Equal(a.SignedBytes(), b.SignedBytes())
}

func (d *ManifestDocument) checkReplacement(m *composite.Manifest) error {
	conflictError := func(what string) error {
		return problem.Wrap(problem.Conflict, errors.New("signing bytes differ"), "vacant %s %s", m.ChildID.Short(), what)
	}
	switch {
	case d.Graduated:
		return conflictError("has already graduated with another manifest")
	case d.Manifest.ClosedByDefault:
		return conflictError("is already closed by another manifest")
	case !m.ClosedByDefault:
		return conflictError("already has another manifest")
	}
	return nil
}
