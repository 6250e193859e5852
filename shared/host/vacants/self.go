package vacants

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody/sealed"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func SelfKey() store.Key { return SelfDocs.Key() }

type self struct {
	ID   identity.ID `json:"id"`
	Seed []byte      `json:"seed"` // sealed
}

// Self returns the signer of the host's own identity, which is Config.Identity, or a key that is
// created and stored sealed at its first use. If several instances create a key concurrently, all
// of them use the key that was stored.
func (v *Directory) Self(ctx context.Context) (identity.Signer, error) {
	if v.Identity != nil {
		return v.Identity(ctx)
	}
	s, err := v.self(ctx)
	if err != nil {
		return nil, err
	}
	return v.hostSigners.Signer(ctx, s.ID, s.Seed)
}

func (v *Directory) HostID(ctx context.Context) (identity.ID, error) {
	if v.Identity != nil {
		s, err := v.Identity(ctx)
		if err != nil {
			return identity.ID{}, err
		}
		return s.ID(), nil
	}
	s, err := v.self(ctx)
	return s.ID, err
}

func (v *Directory) self(ctx context.Context) (self, error) {
	// The identity is read from the store only once, because anyone can make a host return its id.
	if s := v.known.Load(); s != nil {
		return *s, nil
	}
	var s self
	err := v.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		var d store.Doc
		s, d, err = SelfDocs.Get(ctx, tx, SelfKey())
		if err == nil && d.Version == 0 {
			if s, err = v.makeSelf(ctx); err == nil {
				SelfDocs.Put(tx, store.Doc{Key: d.Key}, s)
			}
		}
		return err
	})
	if err != nil {
		return self{}, store.AsProblem(err)
	}
	v.known.Store(&s) // the identity never changes
	return s, nil
}

func (v *Directory) makeSelf(ctx context.Context) (self, error) {
	key, err := identity.NewKey(v.Rand)
	if err != nil {
		return self{}, err
	}
	defer key.Wipe()
	box, err := sealed.Host.Seal(ctx, v.Vault, key)
	return self{key.ID(), box}, err
}
