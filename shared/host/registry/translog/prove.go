package translog

import (
	"cmp"
	"context"
	"strconv"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Proof is an inclusion or consistency proof as in RFC 6962, from the leaf upward.
type Proof [][]byte

type Inclusion struct {
	Seq  uint64 // number of the event, which starts at 1; the index of its leaf is one less
	Leaf identity.Hash
	Tree Checkpoint
	Proof
}

type Consistency struct {
	From, To Checkpoint
	Proof
}

// CheckInclusion verifies that the event with the number seq in the tree of c has the given hash.
func CheckInclusion(c Checkpoint, seq uint64, eventHash identity.Hash, p Proof) error {
	if seq == 0 {
		return problem.New(problem.Untrusted, "event numbers start at 1, got 0")
	}
	if err := proof.VerifyInclusion(rfc6962.DefaultHasher, seq-1, c.Size, hashLeaf(eventHash), p, c.Root[:]); err != nil {
		return problem.Wrap(problem.Untrusted, err, "the proof does not show that event %d is in the log of %d events", seq, c.Size)
	}
	return nil
}

func CheckConsistency(from, to Checkpoint, p Proof) error {
	if from.Size == 0 { // every tree continues the empty tree
		if empty, err := rootOf(0, nil); err != nil || from.Root != empty || len(p) > 0 {
			return problem.New(problem.Untrusted, "the checkpoint of 0 events has a root that is not the empty log's")
		}
		return nil
	}
	if err := proof.VerifyConsistency(rfc6962.DefaultHasher, from.Size, to.Size, p, from.Root[:], to.Root[:]); err != nil {
		return problem.Wrap(problem.Untrusted, err, "the proof does not show that the log of %d events begins with the log of %d events", to.Size, from.Size)
	}
	return nil
}

// Inclusion proves that the tree of the given size contains event seq. If size is 0, the tree of
// the sealed size is used.
func (l *Log) Inclusion(ctx context.Context, seq, size uint64) (Inclusion, error) {
	h, err := l.loadSealedHead(ctx)
	if err != nil {
		return Inclusion{}, err
	}
	size = cmp.Or(size, h.size)
	if size > h.size {
		return Inclusion{}, beyondSealedError("size", h.size, size)
	}
	if seq == 0 || seq > size {
		return Inclusion{}, beyondSealedError("seq", size, seq)
	}
	nodes, err := proof.Inclusion(seq-1, size)
	if err != nil {
		return Inclusion{}, problem.Wrap(problem.Internal, err, "proof of inclusion")
	}
	p, err := l.buildProof(ctx, h, nodes)
	if err != nil {
		return Inclusion{}, err
	}
	tree, err := l.computeCheckpoint(ctx, h, size)
	if err != nil {
		return Inclusion{}, err
	}
	leaves, err := l.readLeaves(ctx, seq, 1)
	if err != nil {
		return Inclusion{}, err
	}
	return Inclusion{Seq: seq, Leaf: leaves[0], Tree: tree, Proof: p}, nil
}

// Consistency proves that the tree of size to starts with the tree of size from. If to is 0, the
// sealed size is used.
func (l *Log) Consistency(ctx context.Context, from, to uint64) (c Consistency, err error) {
	h, err := l.loadSealedHead(ctx)
	if err != nil {
		return c, err
	}
	to = cmp.Or(to, h.size)
	if to > h.size {
		return c, beyondSealedError("to", h.size, to)
	}
	if from > to {
		return c, problem.Invalid("from", "at most "+strconv.FormatUint(to, 10)+", the value of to", strconv.FormatUint(from, 10))
	}
	nodes, err := proof.Consistency(from, to)
	if err != nil {
		return c, problem.Wrap(problem.Internal, err, "proof of consistency")
	}
	if c.Proof, err = l.buildProof(ctx, h, nodes); err != nil {
		return c, err
	}
	if c.From, err = l.computeCheckpoint(ctx, h, from); err != nil {
		return c, err
	}
	c.To, err = l.computeCheckpoint(ctx, h, to)
	return c, err
}

func beyondSealedError(field string, limit, got uint64) error {
	return problem.Invalid(field, "at most "+strconv.FormatUint(limit, 10)+", which is sealed", strconv.FormatUint(got, 10))
}

func (l *Log) buildProof(ctx context.Context, h *head, nodes proof.Nodes) (Proof, error) {
	hashes, err := l.readNodes(ctx, h, nodes.IDs)
	if err != nil {
		return nil, err
	}
	p, err := nodes.Rehash(hashes, rfc6962.DefaultHasher.HashChildren)
	if err != nil {
		return nil, problem.Wrap(problem.Internal, err, "proof")
	}
	return p, nil
}

// Leaves returns the hashes of up to n sealed events from seq on, and the number of sealed events.
func (l *Log) Leaves(ctx context.Context, seq uint64, n int) (leaves []identity.Hash, size uint64, err error) {
	h, err := l.loadSealedHead(ctx)
	if err != nil {
		return nil, 0, err
	}
	if seq == 0 || n < 1 || n > MaxLeaves {
		return nil, 0, problem.Invalid("from, limit", "from at least 1 and limit 1 to "+strconv.Itoa(MaxLeaves), strconv.FormatUint(seq, 10)+", "+strconv.Itoa(n))
	}
	if seq > h.size {
		return nil, h.size, nil
	}
	leaves, err = l.readLeaves(ctx, seq, int(min(uint64(n), h.size-seq+1)))
	return leaves, h.size, err
}

// readLeaves may return fewer than n leaves but returns at least one.
func (l *Log) readLeaves(ctx context.Context, seq uint64, n int) ([]identity.Hash, error) {
	rows, err := l.Store.Rows(ctx, l.Stream, seq, n, store.Ascending)
	if err != nil {
		return nil, wrapStoreError(err)
	}
	leaves := make([]identity.Hash, len(rows))
	for i, row := range rows {
		if leaves[i], _, err = l.decodeRow(row, seq+uint64(i)); err != nil {
			return nil, err
		}
	}
	if len(leaves) == 0 {
		return nil, problem.New(problem.Damaged, "event %d is sealed but missing", seq)
	}
	return leaves, nil
}

// Epoch returns the epoch with the given number. Number 0 means the last epoch.
func (l *Log) Epoch(ctx context.Context, number uint64) (Epoch, error) {
	if number == 0 {
		h, err := l.loadHead(ctx)
		if err != nil {
			return Epoch{}, err
		}
		number = h.epochCount
	}
	if number == 0 {
		return Epoch{}, problem.New(problem.NotFound, "no sealed epoch yet")
	}
	e, d, err := EpochDocs.Get(ctx, l.Store, epochKey(number))
	if err == nil && d.Version == 0 {
		err = problem.New(problem.NotFound, "no epoch %d", number)
	}
	return e, wrapStoreError(err)
}
