package vacants

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// beforeIDs sorts before every id in hex.
const beforeIDs = "!"

// FormerKey is the key of the document of a tombstone without a name.
func FormerKey(id identity.ID) store.Key { return FormerDocs.Key(id.String()) }

// holder returns the tombstone that the name in d leads to, nil if it leads to
// nobody. The error is registry.NameTaken if the name belongs to a vacant.
func (v *Directory) holder(ctx context.Context, d store.Doc) (*Record, error) {
	if d.Version == 0 {
		return nil, nil
	}
	id, err := NameDocs.Parse(d)
	if err != nil {
		return nil, err
	}
	r, ok, err := v.read(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case !ok || !r.IsDeleted():
		return nil, registry.NameTaken(d.Key.Sort)
	}
	return &r, nil
}

// claim adds to tx that name leads to r. The name of a deleted vacant is free; one
// of a vacant is Conflict.
func (v *Directory) claim(ctx context.Context, tx *store.Tx, name string, r *Record) error {
	d, err := tx.Doc(ctx, NameKey(name))
	if err != nil {
		return err
	}
	before, err := v.holder(ctx, d)
	if err != nil {
		return err
	}
	if before != nil {
		FormerDocs.Put(tx, store.Doc{Key: FormerKey(before.ID), Index: indexed(before, afterNames+before.ID.String())}, before.ID)
	}
	NameDocs.Put(tx, store.Doc{Key: d.Key, Index: indexed(r, name)}, r.ID)
	return nil
}

// claimFree is claim for a name that was free a moment ago: taken since then, it is
// a conflict of the store, so that the caller looks again at who has it.
func (v *Directory) claimFree(ctx context.Context, tx *store.Tx, name string, r *Record) error {
	err := v.claim(ctx, tx, name, r)
	if problem.Is(err, problem.Conflict) {
		err = &store.ConflictError{Key: NameKey(name)}
	}
	return err
}
