package vacants

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/host/tenant/quota"
	"github.com/vacancy-host/vacancy/shared/store"
)

func (v *Directory) useQuotas(ctx context.Context, tx *store.Tx, r *Record) error {
	var count, bytes int64
	switch {
	case r.IsDeleted():
		count, bytes = -1, -r.Stored
	case r.version == 0:
		count = 1
	}
	if r.next != nil {
		if err := v.Quotas.Check(r.Tenant, quota.Versions, int64(r.Agent)+1); err != nil {
			return err
		}
		bytes = int64(len(r.next.Blob()))
		r.Stored += bytes
	}
	if err := v.Quotas.Add(ctx, tx, r.Tenant, quota.Vacants, count, v.countVacants(r.Tenant)); err != nil {
		return err
	}
	return v.useBytes(ctx, tx, r.Tenant, bytes)
}

func (v *Directory) useBytes(ctx context.Context, tx *store.Tx, tenant string, bytes int64) error {
	return v.Quotas.Add(ctx, tx, tenant, quota.Megabytes, bytes, func(context.Context, int64) (int64, error) { return 0, nil })
}

func (v *Directory) countVacants(tenant string) func(context.Context, int64) (int64, error) {
	return func(ctx context.Context, limit int64) (count int64, err error) {
		for cursor := ""; count < limit; {
			page, next, err := v.ids(ctx, Tenant(tenant).names(), cursor, MaxPage)
			if err != nil {
				return 0, err
			}
			records := make([]Record, len(page))
			g, gctx := errgroup.WithContext(ctx)
			g.SetLimit(readsAtOnce)
			for i, n := range page {
				g.Go(func() (err error) {
					records[i], _, err = v.read(gctx, n.id)
					return err
				})
			}
			if err := g.Wait(); err != nil {
				return 0, err
			}
			for i := range records {
				if records[i].Tenant == tenant && !records[i].IsDeleted() {
					count++
				}
			}
			if cursor = next; next == "" {
				break
			}
		}
		return count, nil
	}
}
