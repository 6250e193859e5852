package vacants

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/host/tenant/quota"
	"github.com/vacancy-host/vacancy/shared/store"
)

func (v *Directory) addQuotaUse(ctx context.Context, tx *store.Tx, r *Record) error {
	var count, byteCount int64
	switch {
	case r.IsDeleted():
		count, byteCount = -1, -r.StoredBytes
	case r.docVersion == 0:
		count = 1
	}
	if r.nextAgent != nil {
		if err := v.Quotas.Check(r.Tenant, quota.Versions, int64(r.AgentVersion)+1); err != nil {
			return err
		}
		byteCount = int64(len(r.nextAgent.Blob()))
		r.StoredBytes += byteCount
	}
	if err := v.Quotas.Add(ctx, tx, r.Tenant, quota.Vacants, count, v.vacantCounter(r.Tenant)); err != nil {
		return err
	}
	return v.addQuotaBytes(ctx, tx, r.Tenant, byteCount)
}

func (v *Directory) addQuotaBytes(ctx context.Context, tx *store.Tx, tenant string, byteCount int64) error {
	return v.Quotas.Add(ctx, tx, tenant, quota.Megabytes, byteCount, func(context.Context, int64) (int64, error) { return 0, nil })
}

func (v *Directory) vacantCounter(tenant string) func(context.Context, int64) (int64, error) {
	return func(ctx context.Context, limit int64) (count int64, err error) {
		for cursor := ""; count < limit; {
			page, next, err := v.listNames(ctx, TenantAsker(tenant).nameRange(), cursor, MaxPage)
			if err != nil {
				return 0, err
			}
			records := make([]Record, len(page))
			g, gctx := errgroup.WithContext(ctx)
			g.SetLimit(maxConcurrentReads)
			for i, n := range page {
				g.Go(func() (err error) {
					records[i], _, err = v.readRecord(gctx, n.id)
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
