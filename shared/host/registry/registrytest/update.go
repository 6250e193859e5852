package registrytest

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/reputation"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// Update acquires the turn of r and commits the writes of addWrites, as vacants.Directory does.
func Update(ctx context.Context, r *registry.Registry, addWrites func(context.Context, *store.Tx) error) error {
	release, err := r.AcquireTurn(ctx)
	if err != nil {
		return err
	}
	defer release()
	return registry.WrapStoreError(store.Updater{Store: r.Store, Rand: r.Rand, Wait: r.Wait}.Update(ctx, addWrites))
}

func AddManifest(ctx context.Context, r *registry.Registry, m composite.Manifest) error {
	return Update(ctx, r, func(ctx context.Context, tx *store.Tx) error {
		_, err := r.AddManifest(ctx, tx, &m)
		return err
	})
}

func Revoke(ctx context.Context, r *registry.Registry, v registry.Revocation) (receipt registry.Receipt, err error) {
	err = Update(ctx, r, func(ctx context.Context, tx *store.Tx) error {
		receipt, err = r.Revoke(ctx, tx, v)
		return err
	})
	return receipt, err
}

func PublishHosted(ctx context.Context, r *registry.Registry, p registry.Publication) (receipt registry.Receipt, err error) {
	err = Update(ctx, r, func(ctx context.Context, tx *store.Tx) error {
		receipt, err = r.PublishHosted(ctx, tx, p)
		return err
	})
	return receipt, err
}

func SetState(ctx context.Context, r *registry.Registry, id identity.ID, s lifecycle.State) error {
	return Update(ctx, r, func(ctx context.Context, tx *store.Tx) error { return r.SetState(ctx, tx, id, s) })
}

func SetReputation(ctx context.Context, r *registry.Registry, id identity.ID, s reputation.State) error {
	return Update(ctx, r, func(ctx context.Context, tx *store.Tx) error { return r.SetReputation(ctx, tx, id, s) })
}

type CommitRecorder struct {
	store.Store
	LastWrites []store.Write
}

func (s *CommitRecorder) Commit(ctx context.Context, writes ...store.Write) error {
	s.LastWrites = writes
	return s.Store.Commit(ctx, writes...)
}
