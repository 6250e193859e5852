package vacants

import (
	"context"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/tenant/quota"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// SetPrice sets the price of a vacant's future calls as a new version. It ignores p.Version,
// p.FeeBasisPoints and p.SetAt.
func (v *Directory) SetPrice(ctx context.Context, id identity.ID, p price.Price) (Record, error) {
	p.Version, p.FeeBasisPoints, p.SetAt = 0, v.FeeBasisPoints, time.Time{}
	if err := p.Check(); err != nil {
		return Record{}, err
	}
	if err := v.preloadKey(ctx, id); err != nil {
		return Record{}, err
	}
	ctx, cancel := store.WithDefaultTimeout(ctx)
	defer cancel()
	lock := v.lockWithTurn
	if v.Registry == nil {
		lock = v.logbookLocks.Lock
	}
	unlock, err := lock(ctx, id)
	if err != nil {
		return Record{}, err
	}
	defer unlock()
	var r Record
	err = v.commitTx(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		r, err = v.setPriceOnce(ctx, tx, id, p)
		return err
	})
	return r, err
}

func (v *Directory) setPriceOnce(ctx context.Context, tx *store.Tx, id identity.ID, p price.Price) (Record, error) {
	r, err := v.getAsOperator(ctx, id)
	switch {
	case err != nil:
		return r, err
	case r.IsDeleted():
		return r, deletedError(&r)
	case r.State.IsRetired():
		return r, problem.New(problem.Conflict, "vacant %s is %s; it cannot have a price", r.Name, r.State)
	case r.Closed && !p.IsFree():
		return r, problem.New(problem.Conflict, "vacant %s is a closed child: only its parent and siblings may call it, and they do not pay", r.Name)
	case r.Price == nil && p.HasSameTerms(price.Price{FeeBasisPoints: p.FeeBasisPoints}), r.Price != nil && r.Price.HasSameTerms(p):
		return r, nil
	}
	p.Version, p.SetAt = 1, v.now().Truncate(time.Second)
	if r.Price != nil {
		p.Version = r.Price.Version + 1
	}
	if err := v.Quotas.Check(r.Tenant, quota.Versions, int64(p.Version)); err != nil {
		return r, err
	}
	oldPrice := r.Price
	r.Price = &p
	price.VersionDocs.Put(tx, store.Doc{Key: price.VersionKey(id, p.Version)}, p)
	isPublished, err := v.isPublished(ctx, id)
	if err != nil {
		return r, err
	}
	if isPublished && oldPrice.IsFree() != p.IsFree() || isPublished && !p.IsFree() && oldPrice.Hold() != p.Hold() {
		r, _, err = v.publishOnce(ctx, tx, r, "priced", func(registration *registry.Registration) (PublishOptions, error) {
			return PublishOptions{Visibility: &registration.SignedVisibility}, nil
		})
		return r, err
	}
	return r, v.addChange(ctx, tx, &r, &entry{logbook.KindPriced, logbook.PricedPayload(p.Version, int64(p.Hold()))})
}
