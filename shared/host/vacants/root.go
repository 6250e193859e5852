package vacants

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func RootKey() store.Key { return RootDocs.Key() }

type rootVacant struct {
	Vacant *identity.ID `json:"vacant"`
}

// SetRoot sets the vacant at the host's own address. If id is nil, no vacant has this address.
func (v *Directory) SetRoot(ctx context.Context, id *identity.ID) error {
	if id != nil {
		switch r, err := v.getAsOperator(ctx, *id); {
		case err != nil:
			return err
		case !r.isOpen() || r.IsDeleted():
			return problem.New(problem.Conflict, "vacant %s is not open to all callers, and cannot be at the host's own address", r.Name)
		}
	}
	return store.AsProblem(v.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, RootKey())
		RootDocs.Put(tx, d, rootVacant{id})
		return err
	}))
}

// Root returns the vacant set by SetRoot or otherwise the only open vacant. If neither exists, ok
// is false.
func (v *Directory) Root(ctx context.Context) (id identity.ID, ok bool, err error) {
	s, d, err := RootDocs.Get(ctx, v.Store, RootKey())
	if err != nil {
		return id, false, store.AsProblem(err)
	}
	if d.Version == 0 {
		ids, err := v.ListOpen(ctx, 2)
		if err != nil || len(ids) != 1 {
			return id, false, err
		}
		return ids[0], true, nil
	}
	if s.Vacant == nil {
		return id, false, nil
	}
	return *s.Vacant, true, nil
}
