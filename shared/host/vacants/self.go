package vacants

import (
	"context"
	"encoding/json"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody/sealed"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// SelfKey is the key of the host's own identity.
func SelfKey() store.Key { return store.Key{Partition: "host", Sort: "identity"} }

type storedSelf struct {
	Format int         `json:"format"`
	ID     identity.ID `json:"id"`
	Seed   []byte      `json:"seed"`
}

// Self returns the signer of the host's own identity: Config.Identity, or a key
// that is created and sealed in the store on first use. If several instances
// create one concurrently, all use the one that was stored.
func (v *Directory) Self(ctx context.Context) (identity.Signer, error) {
	if v.Identity != nil {
		return v.Identity(ctx)
	}
	s, err := v.self(ctx)
	if err != nil {
		return nil, err
	}
	return v.signers.Signer(ctx, s.ID, s.Seed)
}

// SelfID returns the id of Self without opening a key. It reads the store once
// only, because anybody can make a host name itself.
func (v *Directory) SelfID(ctx context.Context) (identity.ID, error) {
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

func (v *Directory) self(ctx context.Context) (storedSelf, error) {
	if s := v.known.Load(); s != nil {
		return *s, nil
	}
	var s storedSelf
	err := v.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, SelfKey())
		if err == nil && d.Version == 0 {
			d, err = v.makeSelf(ctx)
			tx.Put(d)
		}
		if err == nil {
			s, err = decodeSelf(d)
		}
		return err
	})
	if err != nil {
		return storedSelf{}, store.Problem(err)
	}
	v.known.Store(&s) // it never changes
	return s, nil
}

func decodeSelf(d store.Doc) (s storedSelf, err error) {
	if err := json.Unmarshal(d.Data, &s); err != nil {
		return s, problem.Wrap(problem.Damaged, err, "the host's identity is not readable")
	}
	return s, checkFormat("the host's identity", s.Format)
}

// makeSelf returns the document of a new identity.
func (v *Directory) makeSelf(ctx context.Context) (store.Doc, error) {
	key, err := identity.NewKey(v.Rand)
	if err != nil {
		return store.Doc{}, err
	}
	defer key.Wipe()
	box, err := sealed.Seal(ctx, v.Vault, key)
	if err != nil {
		return store.Doc{}, err
	}
	data, err := json.Marshal(storedSelf{format, key.ID(), box})
	if err != nil {
		return store.Doc{}, problem.Wrap(problem.Internal, err, "encode the host's identity")
	}
	return store.Doc{Key: SelfKey(), Data: data}, nil
}
