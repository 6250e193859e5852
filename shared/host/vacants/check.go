package vacants

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/sealed"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// CheckKey verifies that r's sealed seed opens under v and is the key of r's
// id. The error is of kind Damaged if not.
func (r *Record) CheckKey(ctx context.Context, v custody.Vault) error {
	return checkKey(ctx, v, r.ID, r.seed)
}

// CheckSelf is CheckKey for the document of the host's own identity.
func CheckSelf(ctx context.Context, d store.Doc, v custody.Vault) error {
	s, err := SelfDocs.Parse(d)
	if err != nil {
		return err
	}
	return checkKey(ctx, v, s.ID, s.Seed)
}

func checkKey(ctx context.Context, v custody.Vault, id identity.ID, box []byte) error {
	key, err := sealed.Open(ctx, v, id, box)
	if err != nil {
		return err
	}
	key.Wipe()
	return nil
}
