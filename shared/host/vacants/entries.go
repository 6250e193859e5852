package vacants

import (
	"context"
	"errors"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/sealed"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type LogEntry struct {
	ID      identity.ID
	Kind    string
	Payload []byte // created by a constructor of package logbook
}

// AppendEntries appends an entry to each of two logbooks, together with other writes, in one
// commit. If second is the zero value, it is omitted. AppendEntries returns conflicts of the other
// writes unchanged.
func (v *Directory) AppendEntries(ctx context.Context, first, second LogEntry, otherWrites ...store.Write) error {
	logEntries := []LogEntry{first}
	if second.Kind != "" {
		logEntries = append(logEntries, second)
	}
	ids := make([]identity.ID, len(logEntries))
	for i := range logEntries {
		ids[i] = logEntries[i].ID
	}
	ctx, cancel := store.WithDefaultTimeout(ctx)
	defer cancel()
	unlock, err := v.logbookLocks.Lock(ctx, ids...)
	if err != nil {
		return err
	}
	defer unlock()
	var otherConflict error
	err = v.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		err := v.commitEntries(ctx, tx.ID, logEntries, otherWrites)
		var takenErr *store.TakenError
		if store.IsConflict(err) && !(errors.As(err, &takenErr) && takenErr.Stream.Kind() == store.KindLogbook) {
			otherConflict = err
			return nil
		}
		return err
	})
	if otherConflict != nil {
		return otherConflict
	}
	return store.AsProblem(err)
}

func (v *Directory) commitEntries(ctx context.Context, writeID store.WriteID, logEntries []LogEntry, otherWrites []store.Write) error {
	writes := make([]store.Write, len(logEntries), len(logEntries)+len(otherWrites))
	g, gctx := errgroup.WithContext(ctx)
	for i, e := range logEntries {
		g.Go(func() error {
			row, err := v.LogRow(gctx, e)
			row.WriteID = writeID
			writes[i] = row
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	err := v.updater().Commit(ctx, append(writes, otherWrites...)...)
	if store.IsConflict(err) {
		return err
	}
	return store.AsProblem(err)
}

// LogRow returns the signed row of an entry, which the caller must commit.
func (v *Directory) LogRow(ctx context.Context, e LogEntry) (store.Append, error) {
	signer, err := v.signer(ctx, e.ID)
	if err != nil {
		return store.Append{}, err
	}
	return v.newLogbookRow(ctx, signer, &entry{e.Kind, e.Payload})
}

// WithSigner calls fn with the signer of a vacant on this host. Handlers must not give a signer to
// a client.
func (v *Directory) WithSigner(ctx context.Context, id identity.ID, fn func(identity.Signer) error) error {
	signer, err := v.signer(ctx, id)
	if err != nil {
		return err
	}
	return fn(signer)
}

func (v *Directory) Key(r *Record) *sealed.Key { return v.signers.Key(r.ID, r.sealedSeed) }

func (v *Directory) signer(ctx context.Context, id identity.ID) (identity.Signer, error) {
	// A cached record suffices. A key never changes, and a commit for a deleted vacant fails.
	m, err := v.lookupRecord(ctx, id, false)
	switch {
	case err != nil:
		return nil, err
	case !m.ok:
		return nil, notHosted(id)
	case m.record.IsDeleted():
		return nil, deletedError(&m.record)
	}
	return v.signers.Signer(ctx, id, m.record.sealedSeed)
}
