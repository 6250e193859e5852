package registry

import (
	"context"
	"math"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// registrationWrites returns the writes of a registration, including the count of listed vacants
// and the claim of the slug. The error is Conflict if another vacant has the slug.
func (r *Registry) registrationWrites(ctx context.Context, g *Registration, writeID store.WriteID) ([]store.Write, error) {
	put, err := g.newPut(writeID)
	if err != nil {
		return nil, err
	}
	writes := []store.Write{put}
	if listed := g.IsListed(); listed != g.wasListed {
		delta := int64(1)
		if !listed {
			delta = -1
		}
		writes = append(writes, store.Add{Key: VenueCountKey(), Delta: delta, Max: math.MaxInt64})
	}
	slug := g.slug()
	if slug == "" || slug == g.storedSlug {
		return writes, nil
	}
	// The claim of the old slug remains, so that other tenants cannot use the slug. The claim of
	// the new slug must be read before the registration of its holder. Otherwise a holder that
	// takes the slug back between the two reads would lose the slug.
	holderID, d, err := r.findSlugClaim(ctx, slug)
	if err == nil {
		err = r.checkSlug(ctx, g, slug, holderID)
	}
	if err != nil {
		return nil, err
	}
	return append(writes, store.Put{Key: d.Key, IfVersion: d.Version, WriteID: writeID, Data: []byte(g.ID.String())}), nil
}

func (r *Registry) checkSlug(ctx context.Context, g *Registration, slug string, holderID identity.ID) error {
	if slug[0] == '-' {
		return problem.Invalid("slug", "a slug that does not begin with -, for example shop", slug)
	}
	if holderID.IsZero() || holderID == g.ID {
		return nil
	}
	holder, err := r.loadRegistration(ctx, holderID)
	if err != nil {
		return err
	}
	mayUse := holder.HasReleasedSlug(slug) && g.mayReuseSlug != nil
	if mayUse {
		mayUse, err = g.mayReuseSlug(ctx, holderID)
	}
	if err == nil && !mayUse {
		err = problem.New(problem.Conflict, "the slug %s is in use by another vacant; choose another", slug)
	}
	return err
}

func (r *Registry) findSlugClaim(ctx context.Context, slug string) (id identity.ID, d store.Doc, err error) {
	holder, d, err := SlugDocs.Get(ctx, r.Store, SlugKey(slug))
	if err != nil || holder == "" {
		return id, d, err
	}
	if id, err = identity.ParseID(holder); err != nil {
		err = problem.Wrap(problem.Damaged, err, "the claim of slug %s is not readable", slug)
	}
	return id, d, err
}

func (r *Registry) FindVenue(ctx context.Context, slug string) (g Registration, ok bool, err error) {
	id, _, err := r.findSlugClaim(ctx, slug)
	if err != nil || id.IsZero() {
		return g, false, WrapStoreError(err)
	}
	g, ok, err = r.Get(ctx, id)
	return g, ok && g.slug() == slug, err
}

func (r *Registry) VenueCount(ctx context.Context) (int64, error) {
	n, _, err := VenueCountDocs.Get(ctx, r.Store, VenueCountKey())
	return n, WrapStoreError(err)
}

// UpgradeVenueCount stores the number of listed vacants if an earlier version of the program did
// not.
func UpgradeVenueCount(ctx context.Context, u store.Updater) error {
	if d, err := u.Store.Doc(ctx, VenueCountKey()); err != nil || d.Version > 0 {
		return err
	}
	count := int64(0)
	for d, err := range store.Documents(ctx, u.Store, RegistrationDocs.IndexRange()) {
		if err != nil {
			return err
		}
		if g, err := RegistrationDocs.Parse(d); err == nil && g.IsListed() {
			count++
		}
	}
	return u.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, VenueCountKey())
		if err == nil && d.Version == 0 {
			VenueCountDocs.Put(tx, d, count)
		}
		return err
	})
}
