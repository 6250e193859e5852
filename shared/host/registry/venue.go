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
func (r *Registry) registrationWrites(ctx context.Context, reg *Registration, writeID store.WriteID) ([]store.Write, error) {
	put, err := reg.newPut(writeID)
	if err != nil {
		return nil, err
	}
	writes := []store.Write{put}
	if listed := reg.IsListed(); listed != reg.wasListed {
		delta := int64(1)
		if !listed {
			delta = -1
		}
		writes = append(writes, store.Add{Key: ListedCountKey(), Delta: delta, Max: math.MaxInt64})
	}
	slug := reg.slug()
	if slug == "" || slug == reg.storedSlug {
		return writes, nil
	}
	// The claim of the old slug remains, so that other tenants cannot use the slug. The claim of
	// the new slug must be read before the registration of its holder. Otherwise a holder that
	// takes the slug back between the two reads would lose the slug.
	holderID, d, err := r.findSlugClaim(ctx, slug)
	if err == nil {
		err = r.checkSlug(ctx, reg, slug, holderID)
	}
	if err != nil {
		return nil, err
	}
	return append(writes, store.Put{Key: d.Key, IfVersion: d.Version, WriteID: writeID, Data: []byte(reg.ID.String())}), nil
}

func (r *Registry) checkSlug(ctx context.Context, reg *Registration, slug string, holderID identity.ID) error {
	if slug[0] == '-' {
		return problem.Invalid("slug", "a slug that does not begin with -, for example shop", slug)
	}
	if holderID.IsZero() || holderID == reg.ID {
		return nil
	}
	holder, err := r.loadRegistration(ctx, holderID)
	if err != nil {
		return err
	}
	mayUse := holder.HasReleasedSlug(slug) && reg.mayReuseSlug != nil
	if mayUse {
		mayUse, err = reg.mayReuseSlug(ctx, holderID)
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

func (r *Registry) FindBySlug(ctx context.Context, slug string) (reg Registration, ok bool, err error) {
	id, _, err := r.findSlugClaim(ctx, slug)
	if err != nil || id.IsZero() {
		return reg, false, WrapStoreError(err)
	}
	reg, ok, err = r.Get(ctx, id)
	return reg, ok && reg.slug() == slug, err
}

func (r *Registry) ListedCount(ctx context.Context) (int64, error) {
	n, _, err := ListedCountDocs.Get(ctx, r.Store, ListedCountKey())
	return n, WrapStoreError(err)
}

// UpgradeListedCount stores the number of listed vacants if an earlier version of the program did
// not.
func UpgradeListedCount(ctx context.Context, u store.Updater) error {
	if d, err := u.Store.Doc(ctx, ListedCountKey()); err != nil || d.Version > 0 {
		return err
	}
	count := int64(0)
	for d, err := range store.Documents(ctx, u.Store, RegistrationDocs.IndexRange()) {
		if err != nil {
			return err
		}
		if reg, err := RegistrationDocs.Parse(d); err == nil && reg.IsListed() {
			count++
		}
	}
	return u.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, ListedCountKey())
		if err == nil && d.Version == 0 {
			ListedCountDocs.Put(tx, d, count)
		}
		return err
	})
}
