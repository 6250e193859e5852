package translog

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type Reader interface {
	store.Reader
	Rows(ctx context.Context, s store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error)
}

// Mismatch is a document of a log that does not match the rows.
type Mismatch struct {
	Key  store.Key
	Want string
	Got  string
}

// Check compares all documents of a log with its sealed events: tiles, epochs, checkpoints,
// signatures and the head. It passes each fault to found, continues, and returns the number of
// sealed events. It returns an error only if r fails. Its memory does not grow with the log.
func Check(ctx context.Context, r Reader, s store.Stream, leaf func(store.Row) (leaf, prev identity.Hash, err error), found func(Mismatch)) (sealed uint64, err error) {
	c := &checkRun{reader: r, ctx: ctx, found: found}
	d, err := c.doc(HeadKey())
	if err != nil || d.Version == 0 {
		return 0, err
	}
	h, err := HeadDocs.Parse(d)
	if err != nil {
		found(Mismatch{HeadKey(), "a head", problem.AsError(err).Error()})
		return 0, nil
	}
	c.head = &h
	if err := c.epoch(); err != nil {
		return h.size, err
	}
	if err := c.checkpoint(0); err != nil {
		return h.size, err
	}
	if err := c.rows(s, leaf); err != nil {
		return h.size, err
	}
	c.checkHead()
	return h.size, nil
}

func CheckRegistry(ctx context.Context, r Reader, found func(Mismatch)) (sealed uint64, err error) {
	return Check(ctx, r, registry.EventStream(), readEvent, found)
}

// checkRun is the state of a Check: the tree of the rows so far and their epoch.
type checkRun struct {
	reader Reader
	ctx    context.Context
	head   *head
	found  func(Mismatch)

	tree    frontier
	last    identity.Hash // hash of the last event that was read
	current Epoch         // current epoch as stored, or zero if it is unusable
	number  uint64        // number of the last epoch that was read
	covered uint64        // last event of the last complete epoch
	lost    bool          // whether an epoch is damaged, so that later epochs cannot be checked
	padded  EpochTree     // tree of the current epoch
}

// doc reads a document. It reports a damaged document and treats it as absent.
func (c *checkRun) doc(k store.Key) (store.Doc, error) {
	d, err := c.reader.Doc(c.ctx, k)
	if isDamaged(err) {
		c.found(Mismatch{k, "a document", problem.AsError(err).Error()})
		return store.Doc{Key: k}, nil
	}
	return d, err
}

func isDamaged(err error) bool {
	return problem.Is(err, problem.Damaged) && !errors.Is(err, store.ErrUnavailable)
}

func (c *checkRun) rows(s store.Stream, leaf func(store.Row) (leaf, prev identity.Hash, err error)) error {
	for c.tree.size < c.head.size {
		rows, err := c.reader.Rows(c.ctx, s, c.tree.size+1, store.MaxPage, store.Ascending)
		if err != nil && !isDamaged(err) {
			return err
		}
		if len(rows) == 0 || rows[0].Position != c.tree.size+1 {
			c.found(Mismatch{HeadKey(), fmt.Sprintf("%d events, which are sealed", c.head.size), fmt.Sprintf("none at %d", c.tree.size+1)})
			return nil
		}
		for _, row := range rows[:min(uint64(len(rows)), c.head.size-c.tree.size)] {
			event, _, err := leaf(row)
			if err != nil {
				c.found(Mismatch{HeadKey(), fmt.Sprintf("event %d, which is sealed", row.Position), problem.AsError(err).Error()})
				return nil
			}
			if err := c.add(event); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *checkRun) add(event identity.Hash) error {
	if err := c.tree.add(event, c.tile); err != nil {
		return err
	}
	c.last = event
	c.padded.Add(event)
	if c.tree.size != c.current.LastSeq {
		return nil
	}
	c.checkEpoch()
	if err := c.checkpoint(c.tree.size); err != nil {
		return err
	}
	return c.epoch()
}

func (c *checkRun) tile(t tileID, hashes []byte) error {
	d, err := c.doc(tileKey(t))
	if err == nil && !bytes.Equal(d.Data, hashes) {
		c.found(Mismatch{tileKey(t), "the hashes of its events", fmt.Sprintf("%d other bytes", len(d.Data))})
	}
	return err
}

func (c *checkRun) epoch() error {
	c.current, c.padded = Epoch{}, EpochTree{}
	if c.number == c.head.epochs || c.lost {
		return nil
	}
	c.number++
	d, err := c.doc(epochKey(c.number))
	if err != nil {
		return err
	}
	e, err := EpochDocs.Parse(d)
	if err == nil && (e.ID != c.number || e.FirstSeq != c.tree.size+1 || e.LastSeq > c.head.size || e.Host != c.head.host) {
		err = problem.New(problem.Damaged, "epoch %d of events %d to %d", e.ID, e.FirstSeq, e.LastSeq)
	}
	if err != nil {
		// The end of this epoch is unknown, and therefore also the start of the next.
		c.found(Mismatch{d.Key, fmt.Sprintf("epoch %d from event %d", c.number, c.tree.size+1), problem.AsError(err).Error()})
		c.lost = true
		return nil
	}
	c.current = e
	return nil
}

// checkEpoch compares the current epoch, whose last event was just added, with its events.
func (c *checkRun) checkEpoch() {
	e, key := c.current, epochKey(c.current.ID)
	c.covered = e.LastSeq
	root, err := c.tree.root()
	switch {
	case err != nil || e.Checkpoint.Root != root:
		c.found(Mismatch{key, fmt.Sprintf("the log's root %x", root), fmt.Sprintf("%x", e.Checkpoint.Root)})
	case e.Root != c.padded.Root():
		c.found(Mismatch{key, "its root " + c.padded.Root().String(), e.Root.String()})
	case !identity.Verify(e.Host, EpochBytes(e.Root), e.Signature):
		c.found(Mismatch{key, "a signature by host " + e.Host.String(), "an invalid signature"})
	}
}

// checkpoint compares the checkpoint of a size and its cosignatures with the tree. The empty log
// has a checkpoint only if it was sealed while empty.
func (c *checkRun) checkpoint(size uint64) error {
	key := checkpointKey(size)
	d, err := c.doc(key)
	if err != nil || d.Version == 0 && size == 0 && c.head.size > 0 {
		return err
	}
	s, err := CheckpointDocs.Parse(d)
	if err != nil {
		c.found(Mismatch{key, "a checkpoint", "an unreadable document"})
		return nil
	}
	root, err := c.tree.root()
	if err != nil {
		return err
	}
	want := Checkpoint{c.head.host, size, root}
	got, _, err := Open([]byte(s.Note))
	if err != nil {
		c.found(Mismatch{key, "a checkpoint", problem.AsError(err).Error()})
		return nil
	}
	if got != want {
		c.found(Mismatch{key, want.Text(), got.Text()})
		return nil
	}
	return c.cosignatures(want, s)
}

func (c *checkRun) cosignatures(checkpoint Checkpoint, s storedCheckpoint) error {
	d, err := c.doc(cosignedKey(checkpoint.Size))
	if err != nil {
		return err
	}
	var w storedWitnesses
	if d.Version > 0 {
		w, err = CosignedDocs.Parse(d)
	}
	if err == nil {
		var verified []Signature
		_, verified, err = Open(newPublished(checkpoint, s, w).Note)
		if registered := w.countRegistered(); err == nil && len(verified) < registered {
			err = problem.New(problem.Damaged, "%d of %d", len(verified), registered)
		}
	}
	if err != nil {
		c.found(Mismatch{d.Key, "cosignatures of the checkpoint", problem.AsError(err).Error()})
	}
	return nil
}

func (c *checkRun) checkHead() {
	if c.tree.size != c.head.size {
		return // the reason is already reported
	}
	if !c.lost && (c.covered != c.head.size || c.number != c.head.epochs) {
		c.found(Mismatch{HeadKey(), fmt.Sprintf("%d epochs up to event %d", c.head.epochs, c.head.size), fmt.Sprintf("%d up to %d", c.number, c.covered)})
	}
	if root, err := c.tree.root(); err != nil || root != c.head.root || c.last != c.head.last {
		c.found(Mismatch{HeadKey(), fmt.Sprintf("root %x after event %s", root, c.last), fmt.Sprintf("%x after %s", c.head.root, c.head.last)})
	}
}
