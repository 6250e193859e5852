package vacants

import (
	"bytes"
	"context"

	"github.com/vacancy-host/vacancy/shared/host/registry"
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
// nobody. The error is registry.NameTaken if the name belongs to a vacant.
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
		tx.Put(formerDoc(before))
	}
	tx.Put(nameDoc(name, r))
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

// nameDoc is the document of a name of r.
func nameDoc(name string, r *Record) store.Doc {
	return store.Doc{Key: NameKey(name), Data: encodeName(r.ID), Index: indexed(r, name)}
}

// formerDoc is the document of a tombstone r without a name.
func formerDoc(r *Record) store.Doc {
	return store.Doc{Key: FormerKey(r.ID), Data: encodeName(r.ID), Index: indexed(r, afterNames+r.ID.String())}
}

// relistName gives the document of a name, or of a tombstone without one, its place
// in the list of its tenant, if an earlier release wrote it.
func (v *Directory) relistName(ctx context.Context, key store.Key, id identity.ID) error {
	return v.update(ctx, func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, key)
		if err != nil || d.Version == 0 || d.Index != (store.Key{}) {
			return err
		}
		r, ok, err := v.read(ctx, id)
		if err != nil || !ok {
			return err
		}
		listed := nameDoc(key.Sort, &r)
		if key.Partition == formerPartition {
			listed = formerDoc(&r)
		}
		if !bytes.Equal(d.Data, listed.Data) {
			return nil // the name was given to another meanwhile, with a place
		}
		tx.Put(listed)
		return nil
	})
}
