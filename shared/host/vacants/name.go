package vacants

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// formerPartition lists the tombstones whose names belong to others by now, so
// that List finds them.
const formerPartition = "former"

// beforeIDs sorts before every id in hex.
const beforeIDs = "!"

// FormerKey is the key of the document of a tombstone without a name.
func FormerKey(id identity.ID) store.Key {
	return store.Key{Partition: formerPartition, Sort: id.String()}
}

// holder returns the tombstone that the name in d leads to, nil if it leads to
// nobody. The error is of kind Conflict if the name belongs to a vacant.
func (v *Directory) holder(ctx context.Context, d store.Doc) (*Record, error) {
	if d.Version == 0 {
		return nil, nil
	}
	id, err := DecodeName(d)
	if err != nil {
		return nil, err
	}
	r, ok, err := v.read(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case !ok || !r.IsDeleted():
		return nil, problem.New(problem.Conflict, "the name %s belongs to vacant %s", d.Key.Sort, id.Short())
	}
	return &r, nil
}

// claim adds to tx that name leads to id. The name of a deleted vacant is free; one
// of a vacant is Conflict.
func (v *Directory) claim(ctx context.Context, tx *store.Tx, name string, id identity.ID) error {
	d, err := tx.Doc(ctx, NameKey(name))
	if err != nil {
		return err
	}
	before, err := v.holder(ctx, d)
	if err != nil {
		return err
	}
	if before != nil {
		tx.Put(store.Doc{Key: FormerKey(before.ID), Data: encodeName(before.ID)})
	}
	tx.Put(store.Doc{Key: d.Key, Data: encodeName(id)})
	return nil
}

// claimFree is claim for a name that was free a moment ago: taken since then, it is
// a conflict of the store, so that the caller looks again at who has it.
func (v *Directory) claimFree(ctx context.Context, tx *store.Tx, name string, id identity.ID) error {
	err := v.claim(ctx, tx, name, id)
	if problem.Is(err, problem.Conflict) {
		err = &store.ConflictError{Key: NameKey(name)}
	}
	return err
}
