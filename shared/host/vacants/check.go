package vacants

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/sealed"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func (r *Record) CheckKey(ctx context.Context, v custody.Vault) error {
	return checkKey(ctx, sealed.Vacant, v, r.ID, r.sealedSeed)
}

// CheckHostIdentity checks that the host's sealed key opens. It returns the host's id even if the
// key does not open.
func CheckHostIdentity(ctx context.Context, d store.Doc, v custody.Vault) (identity.ID, error) {
	s, err := HostIdentityDocs.Parse(d)
	if err != nil {
		return s.ID, err
	}
	return s.ID, checkKey(ctx, sealed.Host, v, s.ID, s.SealedSeed)
}

func checkKey(ctx context.Context, kind sealed.Kind, v custody.Vault, id identity.ID, box []byte) error {
	key, err := kind.Open(ctx, v, id, box)
	if err != nil {
		return err
	}
	key.Wipe()
	return nil
}
