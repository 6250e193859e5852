package vacants

import (
	"context"
	"encoding/json"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody/sealed"
	"github.com/vacancy-host/vacancy/shared/host/settle"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// SelfKey is where the host's own identity lies.
func SelfKey() store.Key { return store.Key{Partition: "host", Sort: "identity"} }

type storedSelf struct {
	Format int         `json:"format"`
	ID     identity.ID `json:"id"`
	Seed   []byte      `json:"seed"`
}

// Self returns the signer of the host's own identity: the one of Identity, or
// one that is made and sealed in the store when it is first asked for. Of
// several instances that make one at once, all get the one that was kept.
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

// SelfID is the id of Self. It opens no key, and reads the store once only:
// strangers can make a host say who it is.
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
	for try := 1; ; try++ {
		d, err := v.Store.Doc(ctx, SelfKey())
		if err != nil {
			return storedSelf{}, fault(err)
		}
		if d.Version > 0 {
			s, err := decodeSelf(d)
			if err != nil {
				return s, err
			}
			v.known.Store(&s) // it never changes
			return s, nil
		}
		if err := v.makeSelf(ctx); err != nil && (!settle.Overtaken(err) || try == settle.Tries) {
			return storedSelf{}, fault(err)
		}
	}
}

func decodeSelf(d store.Doc) (s storedSelf, err error) {
	if err := json.Unmarshal(d.Data, &s); err != nil {
		return s, problem.Wrap(problem.Damaged, err, "the host's identity is not readable")
	}
	return s, checkFormat("the host's identity", s.Format)
}

func (v *Directory) makeSelf(ctx context.Context) error {
	key, err := identity.NewKey(v.Rand)
	if err != nil {
		return err
	}
	defer key.Wipe()
	box, err := sealed.Seal(ctx, v.Vault, key)
	if err != nil {
		return err
	}
	data, err := json.Marshal(storedSelf{format, key.ID(), box})
	if err != nil {
		return problem.Wrap(problem.Internal, err, "the host's identity")
	}
	writeID, err := v.attempt()
	if err != nil {
		return err
	}
	return settle.Commit(ctx, v.Store, v.Wait, store.Put{Key: SelfKey(), WriteID: writeID, Data: data})
}
