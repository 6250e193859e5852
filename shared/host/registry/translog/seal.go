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
	AddedLeaves uint64 // leaves that this call sealed
	EpochCount  uint64
}

// Seal adds all new rows to the log and signs a checkpoint and an epoch for each batch. If another
// process is sealing, the error is of kind Conflict. After any error the call can be repeated.
func (l *Log) Seal(ctx context.Context) (s SealResult, err error) {
	if s, upToDate, err := l.isUpToDate(ctx); upToDate || err != nil {
		return s, err
	}
	currentLease, err := l.acquireLease(ctx)
	if err != nil {
		return s, err
	}
	// A lease that is not released expires.
	defer func() {
		if id, err := l.updater().NewWriteID(); err == nil {
			_, _ = l.writeLease(context.WithoutCancel(ctx), currentLease.write.IfVersion+1, id, 0)
		}
	}()
	signer, err := l.Identity(ctx)
	if err != nil {
		return s, err
	}
	for {
		oldHead, err := l.loadHead(ctx)
		if err != nil {
			return s, err
		}
		if oldHead.version > 0 && oldHead.host != signer.ID() {
			return s, problem.New(problem.Damaged, "the log belongs to host %s, but this host is %s; only one host can seal a log", oldHead.host, signer.ID())
		}
		s = SealResult{Checkpoint{signer.ID(), oldHead.size, oldHead.root}, s.AddedLeaves, oldHead.epochCount}
		newHead, epoch, err := l.appendBatch(ctx, oldHead)
		if err != nil || newHead.size == oldHead.size && oldHead.version > 0 {
			return s, err
		}
		if err := l.commitHead(ctx, signer, newHead, epoch); err != nil {
			return s, err
		}
		s = SealResult{Checkpoint{signer.ID(), newHead.size, newHead.root}, s.AddedLeaves + newHead.size - oldHead.size, newHead.epochCount}
		if epoch.Size() < l.maxBatch {
			return s, nil
		}
		id, err := l.updater().NewWriteID()
		if err != nil {
			return s, err
		}
		if currentLease, err = l.writeLease(ctx, currentLease.write.IfVersion+1, id, l.Now().Add(leaseDuration).UnixMilli()); err != nil {
			return s, err
		}
	}
}

func (l *Log) isUpToDate(ctx context.Context) (SealResult, bool, error) {
	// Most scheduled Seals find no new rows and need only these two reads.
	h, err := l.loadHead(ctx)
	if err != nil || h.version == 0 {
		return SealResult{}, false, err
	}
	rows, err := l.readNewRows(ctx, h, 2)
	return SealResult{Checkpoint: Checkpoint{h.host, h.size, h.root}, EpochCount: h.epochCount}, err == nil && len(rows) == 0, err
}

func (l *Log) appendBatch(ctx context.Context, oldHead *head) (*head, *EpochTree, error) {
	newHead, epoch := &head{
		frontier: oldHead.clone(), host: oldHead.host, root: oldHead.root, lastLeaf: oldHead.lastLeaf,
		epochCount: oldHead.epochCount, sealedAt: oldHead.sealedAt, version: oldHead.version,
	}, &EpochTree{}
	for epoch.Size() < l.maxBatch {
		rows, err := l.readNewRows(ctx, newHead, store.MaxPage)
		if err != nil {
			return nil, nil, err
		}
		if len(rows) == 0 {
			break
		}
		for _, row := range rows[:min(uint64(len(rows)), l.maxBatch-epoch.Size())] {
			leaf, prev, err := l.decodeRow(row, newHead.size+1)
			if err != nil {
				return nil, nil, err
			}
			if prev != newHead.lastLeaf {
				return nil, nil, problem.New(problem.Damaged, "event %d does not follow event %d", newHead.size+1, newHead.size)
			}
			if err := newHead.add(leaf, func(t tileID, hashes []byte) error { return l.writeTile(ctx, t, hashes) }); err != nil {
				return nil, nil, err
			}
			epoch.Add(leaf)
			newHead.lastLeaf = leaf
		}
	}
	root, err := newHead.frontier.root()
	newHead.root = root
	return newHead, epoch, err
}

func (l *Log) readNewRows(ctx context.Context, h *head, n int) ([]store.Row, error) {
	// The page starts with the last sealed row. If this row is missing or different, the stream has
	// changed since the last Seal, for example because it was restored from a backup. The log must
	// then not sign a new root.
	rows, err := l.Store.Rows(ctx, l.Stream, max(h.size, 1), n, store.Ascending)
	if err != nil || h.size == 0 {
		return rows, wrapStoreError(err)
	}
	if len(rows) == 0 {
		return nil, problem.New(problem.Damaged, "the log has sealed %d events, but the last of them is missing", h.size)
	}
	leaf, _, err := l.decodeRow(rows[0], h.size)
	if err == nil && leaf != h.lastLeaf {
		err = problem.New(problem.Damaged, "event %d differs from the event that the log has sealed", h.size)
	}
	return rows[1:], err
}

func (l *Log) decodeRow(row store.Row, position uint64) (leaf, prev identity.Hash, err error) {
	if row.Position != position {
		return leaf, prev, problem.New(problem.Damaged, "event %d is missing: the next row is %d", position, row.Position)
	}
	leaf, prev, err = l.DecodeLeaf(row)
	return leaf, prev, wrapStoreError(err)
}

func (l *Log) writeTile(ctx context.Context, t tileID, hashes []byte) error {
	// If the tile exists, an unfinished Seal has written it from the same rows. If its hashes
	// differ, the log must not sign.
	id, err := l.updater().NewWriteID()
	if err != nil {
		return err
	}
	err = l.updater().Commit(ctx, store.Put{Key: tileKey(t), WriteID: id, Data: bytes.Clone(hashes)})
	if !store.IsConflict(err) {
		return wrapStoreError(err)
	}
	existing, _, err := TileDocs.Require(ctx, l.Store, tileKey(t))
	if err == nil && !bytes.Equal(existing, hashes) {
		err = problem.New(problem.Damaged, "%s does not match its events", t)
	}
	return wrapStoreError(err)
}

func (l *Log) commitHead(ctx context.Context, signer identity.Signer, newHead *head, tree *EpochTree) error {
	newHead.host = signer.ID()
	// The clock may have gone back, but sealed times never decrease.
	newHead.sealedAt = max(newHead.sealedAt, l.Now().UnixMilli())
	checkpoint := Checkpoint{newHead.host, newHead.size, newHead.root}
	signedNote, err := checkpoint.sign(ctx, signer)
	if err != nil {
		return err
	}
	writes := make([]store.Write, 0, 3)
	addWrite := func(k store.Key, data []byte, err error) error {
		id, idErr := l.updater().NewWriteID()
		writes = append(writes, store.Put{Key: k, WriteID: id, Data: data})
		return errors.Join(err, idErr)
	}
	encoded, err := CheckpointDocs.Encode(storedCheckpoint{string(signedNote)})
	if err := addWrite(checkpointKey(newHead.size), encoded, err); err != nil {
		return err
	}
	if tree.Size() > 0 {
		newHead.epochCount++
		sig, err := signer.Sign(ctx, EpochBytes(tree.Root()))
		if err != nil {
			return err
		}
		e, err := EpochDocs.Encode(Epoch{
			ID: newHead.epochCount, FirstSeq: newHead.size - tree.Size() + 1, LastSeq: newHead.size, TreeSize: tree.Size(), Root: tree.Root(),
			SealedAt: newHead.sealedAt, Signature: sig, Host: newHead.host, Checkpoint: checkpoint,
		})
		if err := addWrite(epochKey(newHead.epochCount), e, err); err != nil {
			return err
		}
	}
	id, err := l.updater().NewWriteID()
	if err != nil {
		return err
	}
	headPut, err := newHead.newPut(id)
	if err != nil {
		return err
	}
	err = l.updater().Commit(ctx, append(writes, headPut)...)
	if store.IsConflict(err) {
		return busyError(err)
	}
	return wrapStoreError(err)
}

func busyError(cause error) error {
	return problem.Wrap(problem.Conflict, cause, "another process is sealing the log; its checkpoint will be available in a moment")
}

// lease avoids duplicate work by two processes that seal. It is not needed for correctness, because
// the head's version lets only one of them commit.
type lease struct {
	Holder  string    `json:"holder"`
	Expires int64     `json:"until_ms"`
	write   store.Put // write that stored the lease
}

func (l *Log) acquireLease(ctx context.Context) (lease, error) {
	d, err := l.Store.Doc(ctx, LeaseDocs.Key())
	if err != nil {
		return lease{}, wrapStoreError(err)
	}
	// An unreadable lease does not block a Seal.
	if current, err := LeaseDocs.Parse(d); err == nil && current.Expires > l.Now().UnixMilli() {
		return lease{}, busyError(nil)
	}
	id, err := l.updater().NewWriteID()
	if err != nil {
		return lease{}, err
	}
	return l.writeLease(ctx, d.Version, id, l.Now().Add(leaseDuration).UnixMilli())
}

func (l *Log) writeLease(ctx context.Context, version uint64, id store.WriteID, expires int64) (lease, error) {
	newLease := lease{Holder: id.String(), Expires: expires}
	data, err := LeaseDocs.Encode(newLease)
	if err != nil {
		return newLease, err
	}
	newLease.write = store.Put{Key: LeaseDocs.Key(), IfVersion: version, WriteID: id, Data: data}
	err = l.updater().Commit(ctx, newLease.write)
	if store.IsConflict(err) {
		return newLease, busyError(err)
	}
	return newLease, wrapStoreError(err)
}
