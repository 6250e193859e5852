package registry

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/settle"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/reputation"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// PutListing keeps a listing that its vacant has signed, if it is newer than
// the signed ones before; the same again changes nothing.
func (r *Registry) PutListing(ctx context.Context, l listing.Listing) (Registration, error) {
	return r.edit(ctx, l.VacantID, func(g *Registration) (bool, error) {
		was := g.listingVersion
		if err := g.take(l); err != nil {
			return false, err
		}
		return g.listingVersion != was, nil
	})
}

// SetListing keeps a listing that the operator of this host says of a vacant,
// marked as such. A signed one takes its place only if it is newer than those
// signed before. Version and signature are not the operator's to give.
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
		return true, nil
	})
}

// take makes l, signed, g's listing. An old one is refused, or whoever recorded
// it could put it back.
func (g *Registration) take(l listing.Listing) error {
	if l.VacantID != g.ID {
		return problem.New(problem.Malformed, "listing: expected that of %s, got that of %s", g.ID, l.VacantID)
	}
	if err := checkListing(&l); err != nil {
		return err
	}
	if !l.Verify() {
		return problem.New(problem.BadSignature, "listing signature did not verify")
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

func checkListing(l *listing.Listing) error {
	if err := l.Check(); err != nil {
		return problem.Wrap(problem.Malformed, err, "listing: %s", problem.Of(err).Text())
	}
	if l.Price > 0 {
		return problem.New(problem.Malformed, "listing: price: expected 0, got %d micro-dollars: this host keeps no accounts yet, so nobody could pay", l.Price)
	}
	return nil
}

// Judge keeps what reviews have made of a vacant's reputation.
func (r *Registry) Judge(ctx context.Context, id identity.ID, s reputation.State) (Registration, error) {
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

// edit changes a registration by what the host vouches for. Nothing is written
// when fn says that nothing changed; fn runs again whenever somebody else was
// quicker.
func (r *Registry) edit(ctx context.Context, id identity.ID, fn func(*Registration) (bool, error)) (Registration, error) {
	ctx, cancel := settle.WithPatience(ctx)
	defer cancel()
	for try := 1; ; try++ {
		g, err := r.registration(ctx, id)
		switch {
		case err != nil:
			return Registration{}, fault(err)
		case g.Joined == 0:
			return Registration{}, notRegistered(id)
		case g.Status == StatusRevoked:
			return Registration{}, revoked(id)
		}
		changed, err := fn(&g)
		if err != nil || !changed {
			return g, err
		}
		if err = r.write(ctx, &g); err == nil {
			return g, nil
		}
		if !settle.Overtaken(err) {
			return Registration{}, fault(err)
		}
		if settle.BackOff(ctx, r.Wait, r.Rand, try) != nil {
			return Registration{}, busy(err)
		}
	}
}

// write commits g over the version it was read at, with what belongs beside.
func (r *Registry) write(ctx context.Context, g *Registration, beside ...store.Write) error {
	attempt, err := r.attempt()
	if err != nil {
		return err
	}
	if g.Joined > 0 {
		g.change(r.now())
	}
	put, err := g.put(attempt)
	if err != nil {
		return err
	}
	for i, w := range beside {
		if p, ok := w.(store.Put); ok {
			p.Attempt = attempt
			beside[i] = p
		}
	}
	if err := settle.Commit(ctx, r.Store, r.Wait, append([]store.Write{put}, beside...)...); err != nil {
		return err
	}
	g.DocVersion++
	return nil
}

// change notes when g changed. Its place in the feed never moves back, whatever
// the clock does.
func (g *Registration) change(now time.Time) {
	if now.After(g.Changed) {
		g.Changed = now
	}
	g.ChangeKey = ChangeKeyAt(g.Changed)
}

// AddManifest keeps the proof that a child has this parent: both have signed
// it. It may come before the child's first publish or after. A closed child
// that is found by others is hidden in the same commit. The same again changes
// nothing.
//
// A closed one takes the place of an open one, of whatever parent: else a child
// that wants out would be quicker with an open one, signed by a parent of its
// own making, and the one that closes it, which it has signed too, would be
// refused. Every other one of the same child is refused with Conflict: what is
// closed opens by a graduation alone, and what has graduated stays open.
func (r *Registry) AddManifest(ctx context.Context, m composite.Manifest) error {
	if err := m.Check(); err != nil {
		return err
	}
	if err := m.Verify(); err != nil {
		return err
	}
	ctx, cancel := settle.WithPatience(ctx)
	defer cancel()
	for try := 1; ; try++ {
		err := r.addManifest(ctx, &m)
		if err == nil || !settle.Overtaken(err) {
			return fault(err)
		}
		if settle.BackOff(ctx, r.Wait, r.Rand, try) != nil {
			return busy(err)
		}
	}
}

func (r *Registry) addManifest(ctx context.Context, m *composite.Manifest) error {
	d, err := r.Store.Doc(ctx, ManifestKey(m.ChildID))
	if err != nil {
		return err
	}
	doc := ManifestDocument{Manifest: *m}
	if d.Version > 0 {
		known, err := DecodeManifest(m.ChildID, d)
		if err != nil || known.is(m) {
			return err
		}
		if err := known.yields(m); err != nil {
			return err
		}
		doc.Replaced = &known.Manifest
	}
	for _, id := range []identity.ID{m.ParentID, m.ChildID} {
		gone, err := r.IsRevoked(ctx, id)
		if err != nil {
			return err
		}
		if gone {
			return revoked(id)
		}
	}
	g, err := r.registration(ctx, m.ChildID)
	if err != nil {
		return err
	}
	parent := m.ParentID
	g.Parent, g.ParentProven, g.Closed = &parent, true, m.ClosedByDefault
	if g.Closed && g.Joined > 0 {
		g.Visibility = lifecycle.Hidden
	}
	data, err := doc.Encode()
	if err != nil {
		return err
	}
	beside := []store.Write{store.Put{Key: ManifestKey(m.ChildID), If: d.Version, Data: data}}
	// The edge of the one that is replaced stays: nothing here is ever deleted.
	// Nobody believes it, as the registration names another parent.
	if doc.Replaced == nil || doc.Replaced.ParentID != m.ParentID {
		beside = append(beside, store.Put{Key: KinKey(m.ParentID, m.ChildID), Data: []byte{format}})
	}
	// The registration is written even where there is none yet: a first publish
	// at the same moment then meets this manifest, or this one that publish.
	return r.write(ctx, &g, beside...)
}

// is reports whether m is the manifest that is kept.
func (d *ManifestDocument) is(m *composite.Manifest) bool {
	return d.Manifest.Schema == m.Schema && bytes.Equal(d.Manifest.SigningBytes(), m.SigningBytes())
}

// yields refuses to have m in the place of the manifest that is kept, unless m
// is the one that closes the door.
func (d *ManifestDocument) yields(m *composite.Manifest) error {
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
