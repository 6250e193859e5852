package vacants

import (
	"context"
	"errors"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/sealed"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// LogEntry is an entry to write into the logbook of a vacant that is hosted
// here.
type LogEntry struct {
	ID      identity.ID
	Kind    string
	Payload []byte // made by the constructors of package logbook
}

// Entries appends one entry to each of two logbooks, together with other
// writes, in one commit; a zero second entry is omitted. It retries conflicts
// on the logbooks until ctx ends. Conflicts of the other writes are returned
// unchanged.
func (v *Directory) Entries(ctx context.Context, first, second LogEntry, beside ...store.Write) error {
	all := []LogEntry{first}
	if second.Kind != "" {
		all = append(all, second)
	}
	ids := make([]identity.ID, len(all))
	for i := range all {
		ids[i] = all[i].ID
	}
	ctx, cancel := store.WithPatience(ctx)
	defer cancel()
	done, err := v.logs.Lock(ctx, ids...)
	if err != nil {
		return err
	}
	defer done()
	var elsewhere error
	err = v.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		err := v.entries(ctx, tx.ID, all, beside)
		var taken *store.TakenError
		if store.IsConflict(err) && !(errors.As(err, &taken) && taken.Stream.Kind() == store.KindLogbook) {
			elsewhere = err
			return nil
		}
		return err
	})
	if elsewhere != nil {
		return elsewhere
	}
	return store.Problem(err)
}

func (v *Directory) entries(ctx context.Context, writeID store.WriteID, all []LogEntry, beside []store.Write) error {
	// Read both tips at once: other writers wait meanwhile.
	writes := make([]store.Write, len(all), len(all)+len(beside))
	g, gctx := errgroup.WithContext(ctx)
	for i, e := range all {
		g.Go(func() error {
			signer, err := v.signer(gctx, e.ID)
			if err != nil {
				return err
			}
			row, err := v.row(gctx, signer, &entry{e.Kind, e.Payload})
			row.WriteID = writeID
			writes[i] = row
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	err := v.updater().Commit(ctx, append(writes, beside...)...)
	if store.IsConflict(err) {
		return err
	}
	return store.Problem(err)
}

// Sign calls fn with the signer of a vacant that is hosted here. It is for the
// host itself: no handler may give a signer to a client.
func (v *Directory) Sign(ctx context.Context, id identity.ID, fn func(identity.Signer) error) error {
	signer, err := v.signer(ctx, id)
	if err != nil {
		return err
	}
	return fn(signer)
}

// Key returns the signer of r's key, which stays sealed until the first use.
func (v *Directory) Key(r *Record) *sealed.Key { return v.signers.Key(r.ID, r.seed) }

// signer returns the signer of a vacant from its record, at most a second old.
// That is safe: a key never changes, and a commit by a deleted vacant
// conflicts.
func (v *Directory) signer(ctx context.Context, id identity.ID) (identity.Signer, error) {
	m, err := v.lookup(ctx, id, false)
	switch {
	case err != nil:
		return nil, err
	case !m.ok:
		return nil, notHosted(id)
	case m.record.IsDeleted():
		return nil, deleted(&m.record)
	}
	return v.signers.Signer(ctx, id, m.record.seed)
}
