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

// Mismatch is a stored document that does not match the rows of the log.
type Mismatch struct {
	Key  store.Key
	Want string
	Got  string
}

// Check compares the documents of a log with its sealed events. It passes each fault to report and
// continues. It returns an error only if r fails.
func Check(ctx context.Context, r Reader, s store.Stream, decodeLeaf func(store.Row) (leaf, prev identity.Hash, err error), report func(Mismatch)) (sealedSize uint64, err error) {
	c := &checker{reader: r, ctx: ctx, report: report}
	d, err := c.readDoc(HeadKey())
	if err != nil || d.Version == 0 {
		return 0, err
	}
	h, err := HeadDocs.Parse(d)
	if err != nil {
		report(Mismatch{HeadKey(), "a head", problem.AsError(err).Error()})
		return 0, nil
	}
	c.head = &h
	if err := c.readNextEpoch(); err != nil {
		return h.size, err
	}
	if err := c.checkCheckpoint(0); err != nil {
		return h.size, err
	}
	if err := c.checkRows(s, decodeLeaf); err != nil {
		return h.size, err
	}
	c.checkHead()
	return h.size, nil
}

func CheckRegistry(ctx context.Context, r Reader, report func(Mismatch)) (sealedSize uint64, err error) {
	return Check(ctx, r, registry.EventStream(), decodeEvent, report)
}

type checker struct {
	reader Reader
	ctx    context.Context
	head   *head
	report func(Mismatch)

	tree           frontier
	lastEventHash  identity.Hash // hash of the last event
	currentEpoch   Epoch         // zero if the stored epoch is unusable
	epochNumber    uint64
	lastCoveredSeq uint64
	epochDamaged   bool // whether a damaged epoch makes later epochs uncheckable
	epochTree      EpochTree
}

func (c *checker) readDoc(k store.Key) (store.Doc, error) {
	d, err := c.reader.Doc(c.ctx, k)
	if isDamaged(err) {
		c.report(Mismatch{k, "a document", problem.AsError(err).Error()})
		return store.Doc{Key: k}, nil
	}
	return d, err
}

func isDamaged(err error) bool {
	return problem.Is(err, problem.Damaged) && !errors.Is(err, store.ErrUnavailable)
}

func (c *checker) checkRows(s store.Stream, decodeLeaf func(store.Row) (leaf, prev identity.Hash, err error)) error {
	for c.tree.size < c.head.size {
		rows, err := c.reader.Rows(c.ctx, s, c.tree.size+1, store.MaxPage, store.Ascending)
		if err != nil && !isDamaged(err) {
			return err
		}
		if len(rows) == 0 || rows[0].Position != c.tree.size+1 {
			c.report(Mismatch{HeadKey(), fmt.Sprintf("%d events, which are sealed", c.head.size), fmt.Sprintf("none at %d", c.tree.size+1)})
			return nil
		}
		for _, row := range rows[:min(uint64(len(rows)), c.head.size-c.tree.size)] {
			eventHash, _, err := decodeLeaf(row)
			if err != nil {
				c.report(Mismatch{HeadKey(), fmt.Sprintf("event %d, which is sealed", row.Position), problem.AsError(err).Error()})
				return nil
			}
			if err := c.addEvent(eventHash); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *checker) addEvent(eventHash identity.Hash) error {
	if err := c.tree.add(eventHash, c.checkTile); err != nil {
		return err
	}
	c.lastEventHash = eventHash
	c.epochTree.Add(eventHash)
	if c.tree.size != c.currentEpoch.LastSeq {
		return nil
	}
	c.checkEpoch()
	if err := c.checkCheckpoint(c.tree.size); err != nil {
		return err
	}
	return c.readNextEpoch()
}

func (c *checker) checkTile(t tileID, hashes []byte) error {
	d, err := c.readDoc(tileKey(t))
	if err == nil && !bytes.Equal(d.Data, hashes) {
		c.report(Mismatch{tileKey(t), "the hashes of its events", fmt.Sprintf("%d other bytes", len(d.Data))})
	}
	return err
}

func (c *checker) readNextEpoch() error {
	c.currentEpoch, c.epochTree = Epoch{}, EpochTree{}
	if c.epochNumber == c.head.epochCount || c.epochDamaged {
		return nil
	}
	c.epochNumber++
	d, err := c.readDoc(epochKey(c.epochNumber))
	if err != nil {
		return err
	}
	e, err := EpochDocs.Parse(d)
	if err == nil && (e.ID != c.epochNumber || e.FirstSeq != c.tree.size+1 || e.LastSeq > c.head.size || e.Host != c.head.host) {
		err = problem.New(problem.Damaged, "epoch %d of events %d to %d", e.ID, e.FirstSeq, e.LastSeq)
	}
	if err != nil {
		// The start of the next epoch is unknown.
		c.report(Mismatch{d.Key, fmt.Sprintf("epoch %d from event %d", c.epochNumber, c.tree.size+1), problem.AsError(err).Error()})
		c.epochDamaged = true
		return nil
	}
	c.currentEpoch = e
	return nil
}

func (c *checker) checkEpoch() {
	e, key := c.currentEpoch, epochKey(c.currentEpoch.ID)
	c.lastCoveredSeq = e.LastSeq
	root, err := c.tree.root()
	switch {
	case err != nil || e.Checkpoint.Root != root:
		c.report(Mismatch{key, fmt.Sprintf("the log's root %x", root), fmt.Sprintf("%x", e.Checkpoint.Root)})
	case e.Root != c.epochTree.Root():
		c.report(Mismatch{key, "its root " + c.epochTree.Root().String(), e.Root.String()})
	case !identity.Verify(e.Host, EpochBytes(e.Root), e.Signature):
		c.report(Mismatch{key, "a signature by host " + e.Host.String(), "an invalid signature"})
	}
}

func (c *checker) checkCheckpoint(size uint64) error {
	key := checkpointKey(size)
	d, err := c.readDoc(key)
	if err != nil || d.Version == 0 && size == 0 && c.head.size > 0 {
		return err
	}
	s, err := CheckpointDocs.Parse(d)
	if err != nil {
		c.report(Mismatch{key, "a checkpoint", "an unreadable document"})
		return nil
	}
	root, err := c.tree.root()
	if err != nil {
		return err
	}
	want := Checkpoint{c.head.host, size, root}
	got, _, err := VerifyCheckpoint([]byte(s.Note))
	if err != nil {
		c.report(Mismatch{key, "a checkpoint", problem.AsError(err).Error()})
		return nil
	}
	if got != want {
		c.report(Mismatch{key, want.Text(), got.Text()})
		return nil
	}
	return c.checkCosignatures(want, s)
}

func (c *checker) checkCosignatures(checkpoint Checkpoint, s storedCheckpoint) error {
	d, err := c.readDoc(cosignaturesKey(checkpoint.Size))
	if err != nil {
		return err
	}
	var w storedWitnesses
	if d.Version > 0 {
		w, err = CosignatureDocs.Parse(d)
	}
	if err == nil {
		var verified []Cosignature
		_, verified, err = VerifyCheckpoint(newPublishedCheckpoint(checkpoint, s, w).Note)
		if registeredCount := w.countRegistered(); err == nil && len(verified) < registeredCount {
			err = problem.New(problem.Damaged, "%d of %d", len(verified), registeredCount)
		}
	}
	if err != nil {
		c.report(Mismatch{d.Key, "cosignatures of the checkpoint", problem.AsError(err).Error()})
	}
	return nil
}

func (c *checker) checkHead() {
	if c.tree.size != c.head.size {
		return // the reason is already reported
	}
	if !c.epochDamaged && (c.lastCoveredSeq != c.head.size || c.epochNumber != c.head.epochCount) {
		c.report(Mismatch{HeadKey(), fmt.Sprintf("%d epochs up to event %d", c.head.epochCount, c.head.size), fmt.Sprintf("%d up to %d", c.epochNumber, c.lastCoveredSeq)})
	}
	if root, err := c.tree.root(); err != nil || root != c.head.root || c.lastEventHash != c.head.lastLeaf {
		c.report(Mismatch{HeadKey(), fmt.Sprintf("root %x after event %s", root, c.lastEventHash), fmt.Sprintf("%x after %s", c.head.root, c.head.lastLeaf)})
	}
}
