package vacants

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody/sealed"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func HostIdentityKey() store.Key { return HostIdentityDocs.Key() }

type hostIdentity struct {
	ID         identity.ID `json:"id"`
	SealedSeed []byte      `json:"seed"`
}

// HostSigner returns the signer of the host's own identity. If Config.Identity is nil, the first
// use creates a key and stores it sealed.
func (v *Directory) HostSigner(ctx context.Context) (identity.Signer, error) {
	if v.Identity != nil {
		return v.Identity(ctx)
	}
	s, err := v.loadHostIdentity(ctx)
	if err != nil {
		return nil, err
	}
	return v.hostSigners.Signer(ctx, s.ID, s.SealedSeed)
}

func (v *Directory) HostID(ctx context.Context) (identity.ID, error) {
	if v.Identity != nil {
		s, err := v.Identity(ctx)
		if err != nil {
			return identity.ID{}, err
		}
		return s.ID(), nil
	}
	s, err := v.loadHostIdentity(ctx)
	return s.ID, err
}

func (v *Directory) loadHostIdentity(ctx context.Context) (hostIdentity, error) {
	// The identity is cached, because any client can request the host's id.
	if s := v.cachedIdentity.Load(); s != nil {
		return *s, nil
	}
	var s hostIdentity
	err := v.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		var d store.Doc
		s, d, err = HostIdentityDocs.Get(ctx, tx, HostIdentityKey())
		if err == nil && d.Version == 0 {
			if s, err = v.createHostIdentity(ctx); err == nil {
				HostIdentityDocs.Put(tx, store.Doc{Key: d.Key}, s)
			}
		}
		return err
	})
	if err != nil {
		return hostIdentity{}, store.AsProblem(err)
	}
	v.cachedIdentity.Store(&s)
	return s, nil
}

func (v *Directory) createHostIdentity(ctx context.Context) (hostIdentity, error) {
	key, err := identity.NewKey(v.Rand)
	if err != nil {
		return hostIdentity{}, err
	}
	defer key.Wipe()
	box, err := sealed.Host.Seal(ctx, v.Vault, key)
	return hostIdentity{key.ID(), box}, err
}
