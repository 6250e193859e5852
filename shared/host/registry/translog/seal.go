package translog

import (
	"bytes"
	"context"
	"errors"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type SealResult struct {
	Checkpoint
	Added  uint64 // leaves that this call sealed
	Epochs uint64 // number of all sealed epochs
}

// Seal adds all new rows to the log and signs the result. It creates a checkpoint and an epoch for
// each batch of at most 25,600 leaves. The first Seal of a host signs the empty log if there are no
// rows, and later calls without new rows have no effect. While another process seals, the error is
// of kind Conflict. After any error the call can be repeated.
func (l *Log) Seal(ctx context.Context) (s SealResult, err error) {
	if s, idle, err := l.idle(ctx); idle || err != nil {
		return s, err
	}
	held, err := l.acquire(ctx)
	if err != nil {
		return s, err
	}
	// An error is ignored, because a lease that is not released expires.
	defer func() {
		if id, err := l.updater().NewWriteID(); err == nil {
			_, _ = l.writeLease(context.WithoutCancel(ctx), held.put.IfVersion+1, id, 0)
		}
	}()
	signer, err := l.Identity(ctx)
	if err != nil {
		return s, err
	}
	for {
		before, err := l.head(ctx)
		if err != nil {
			return s, err
		}
		if before.version > 0 && before.host != signer.ID() {
			return s, problem.New(problem.Damaged, "the log belongs to host %s, but this host is %s; only one host can seal a log", before.host, signer.ID())
		}
		s = SealResult{Checkpoint{signer.ID(), before.size, before.root}, s.Added, before.epochs}
		after, epoch, err := l.grow(ctx, before)
		if err != nil || after.size == before.size && before.version > 0 {
			return s, err
		}
		if err := l.commit(ctx, signer, after, epoch); err != nil {
			return s, err
		}
		s = SealResult{Checkpoint{signer.ID(), after.size, after.root}, s.Added + after.size - before.size, after.epochs}
		if epoch.Size() < l.batch {
			return s, nil
		}
		id, err := l.updater().NewWriteID()
		if err != nil {
			return s, err
		}
		if held, err = l.writeLease(ctx, held.put.IfVersion+1, id, l.Now().Add(leaseTime).UnixMilli()); err != nil {
			return s, err
		}
	}
}

func (l *Log) idle(ctx context.Context) (SealResult, bool, error) {
	// Most scheduled Seals find no new rows and need only these two reads.
	h, err := l.head(ctx)
	if err != nil || h.version == 0 {
		return SealResult{}, false, err
	}
	rows, err := l.page(ctx, h, 2)
	return SealResult{Checkpoint: Checkpoint{h.host, h.size, h.root}, Epochs: h.epochs}, err == nil && len(rows) == 0, err
}

func (l *Log) grow(ctx context.Context, before *head) (*head, *EpochTree, error) {
	after, epoch := &head{
		frontier: before.clone(), host: before.host, root: before.root, last: before.last,
		epochs: before.epochs, sealed: before.sealed, version: before.version,
	}, &EpochTree{}
	for epoch.Size() < l.batch {
		rows, err := l.page(ctx, after, store.MaxPage)
		if err != nil {
			return nil, nil, err
		}
		if len(rows) == 0 {
			break
		}
		for _, row := range rows[:min(uint64(len(rows)), l.batch-epoch.Size())] {
			leaf, prev, err := l.leaf(row, after.size+1)
			if err != nil {
				return nil, nil, err
			}
			if prev != after.last {
				return nil, nil, problem.New(problem.Damaged, "event %d does not follow event %d", after.size+1, after.size)
			}
			if err := after.add(leaf, func(t tileID, hashes []byte) error { return l.writeTile(ctx, t, hashes) }); err != nil {
				return nil, nil, err
			}
			epoch.Add(leaf)
			after.last = leaf
		}
	}
	root, err := after.frontier.root()
	after.root = root
	return after, epoch, err
}

func (l *Log) page(ctx context.Context, h *head, n int) ([]store.Row, error) {
	// The page starts with the last sealed row. If this row is missing or different, the stream has
	// changed since that Seal, for example because it was restored from a backup. The log must then
	// not sign a new root.
	rows, err := l.Store.Rows(ctx, l.Stream, max(h.size, 1), n, store.Ascending)
	if err != nil || h.size == 0 {
		return rows, wrapStoreError(err)
	}
	if len(rows) == 0 {
		return nil, problem.New(problem.Damaged, "the log has sealed %d events, but the last of them is missing", h.size)
	}
	leaf, _, err := l.leaf(rows[0], h.size)
	if err == nil && leaf != h.last {
		err = problem.New(problem.Damaged, "event %d is not the one that the log has sealed", h.size)
	}
	return rows[1:], err
}

func (l *Log) leaf(row store.Row, position uint64) (leaf, prev identity.Hash, err error) {
	if row.Position != position {
		return leaf, prev, problem.New(problem.Damaged, "event %d is missing: the next row is %d", position, row.Position)
	}
	leaf, prev, err = l.Leaf(row)
	return leaf, prev, wrapStoreError(err)
}

func (l *Log) writeTile(ctx context.Context, t tileID, hashes []byte) error {
	// An existing tile was written from the same rows by a Seal that did not finish. If it differs,
	// the log must not sign.
	a, err := l.updater().NewWriteID()
	if err != nil {
		return err
	}
	err = l.updater().Commit(ctx, store.Put{Key: tileKey(t), WriteID: a, Data: bytes.Clone(hashes)})
	if !store.IsConflict(err) {
		return wrapStoreError(err)
	}
	before, _, err := TileDocs.Require(ctx, l.Store, tileKey(t))
	if err == nil && !bytes.Equal(before, hashes) {
		err = problem.New(problem.Damaged, "%s does not match its events", t)
	}
	return wrapStoreError(err)
}

func (l *Log) commit(ctx context.Context, signer identity.Signer, after *head, tree *EpochTree) error {
	after.host = signer.ID()
	// The clock may have gone back, but sealed times never decrease.
	after.sealed = max(after.sealed, l.Now().UnixMilli())
	checkpoint := Checkpoint{after.host, after.size, after.root}
	signed, err := checkpoint.sign(ctx, signer)
	if err != nil {
		return err
	}
	writes := make([]store.Write, 0, 3)
	put := func(k store.Key, data []byte, err error) error {
		a, idErr := l.updater().NewWriteID()
		writes = append(writes, store.Put{Key: k, WriteID: a, Data: data})
		return errors.Join(err, idErr)
	}
	note, err := CheckpointDocs.Encode(storedCheckpoint{string(signed)})
	if err := put(checkpointKey(after.size), note, err); err != nil {
		return err
	}
	if tree.Size() > 0 {
		after.epochs++
		sig, err := signer.Sign(ctx, EpochBytes(tree.Root()))
		if err != nil {
			return err
		}
		e, err := EpochDocs.Encode(Epoch{
			ID: after.epochs, FirstSeq: after.size - tree.Size() + 1, LastSeq: after.size, TreeSize: tree.Size(), Root: tree.Root(),
			SealedAt: after.sealed, Signature: sig, Host: after.host, Checkpoint: checkpoint,
		})
		if err := put(epochKey(after.epochs), e, err); err != nil {
			return err
		}
	}
	a, err := l.updater().NewWriteID()
	if err != nil {
		return err
	}
	document, err := after.put(a)
	if err != nil {
		return err
	}
	err = l.updater().Commit(ctx, append(writes, document)...)
	if store.IsConflict(err) {
		return busy(err)
	}
	return wrapStoreError(err)
}

func busy(cause error) error {
	return problem.Wrap(problem.Conflict, cause, "another process is sealing the log; its checkpoint will be available in a moment")
}

// lease is the document that lets one process at a time seal. It only avoids duplicate work. If two
// checkpointers run, the head's version lets only one of them commit.
type lease struct {
	Holder string    `json:"holder"`
	Until  int64     `json:"until_ms"`
	put    store.Put // write that stored the lease
}

func (l *Log) acquire(ctx context.Context) (lease, error) {
	d, err := l.Store.Doc(ctx, LeaseDocs.Key())
	if err != nil {
		return lease{}, wrapStoreError(err)
	}
	// An absent or unreadable lease does not block a Seal, because the head's version already
	// prevents two commits.
	if held, err := LeaseDocs.Parse(d); err == nil && held.Until > l.Now().UnixMilli() {
		return lease{}, busy(nil)
	}
	a, err := l.updater().NewWriteID()
	if err != nil {
		return lease{}, err
	}
	return l.writeLease(ctx, d.Version, a, l.Now().Add(leaseTime).UnixMilli())
}

func (l *Log) writeLease(ctx context.Context, version uint64, a store.WriteID, until int64) (lease, error) {
	held := lease{Holder: a.String(), Until: until}
	data, err := LeaseDocs.Encode(held)
	if err != nil {
		return held, err
	}
	held.put = store.Put{Key: LeaseDocs.Key(), IfVersion: version, WriteID: a, Data: data}
	err = l.updater().Commit(ctx, held.put)
	if store.IsConflict(err) {
		return held, busy(err)
	}
	return held, wrapStoreError(err)
}
