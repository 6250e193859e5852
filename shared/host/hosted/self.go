package hosted

import (
	"context"
	"encoding/json"

	"github.com/vacancy-host/vacancy/shared/host/custody/sealed"
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

// Self returns the signer of the host's own identity, which is made when it is
// first asked for. Of several instances that make one at once, all get the one
// that was kept.
func (v *Vacants) Self(ctx context.Context) (identity.Signer, error) {
	for try := 1; ; try++ {
		d, err := v.Store.Doc(ctx, SelfKey())
		if err != nil {
			return nil, fault(err)
		}
		if d.Version > 0 {
			var s storedSelf
			if err := json.Unmarshal(d.Data, &s); err != nil {
				return nil, problem.Wrap(problem.Damaged, err, "the host's identity is not readable")
			}
			if err := checkFormat("the host's identity", s.Format); err != nil {
				return nil, err
			}
			return v.signers.Signer(ctx, s.ID, s.Seed)
		}
		if err := v.makeSelf(ctx); err != nil && (!overtaken(err) || try == tries) {
			return nil, fault(err)
		}
	}
}

func (v *Vacants) makeSelf(ctx context.Context) error {
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
	attempt, err := v.attempt()
	if err != nil {
		return err
	}
	return v.settle(ctx, store.Put{Key: SelfKey(), Attempt: attempt, Data: data})
}
