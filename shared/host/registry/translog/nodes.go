package translog

import (
	"context"

	"github.com/transparency-dev/merkle/compact"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// nodes reads the hashes of nodes of the sealed tree: from full tiles, each
// read once, or from the head.
func (l *Log) nodes(ctx context.Context, h *head, ids []compact.NodeID) ([][]byte, error) {
	read := map[tileID][]byte{}
	hashes := make([][]byte, len(ids))
	for i, id := range ids {
		t := tileOf(id)
		tile, ok := read[t]
		if !ok {
			var err error
			if tile, err = l.tile(ctx, h, t); err != nil {
				return nil, err
			}
			read[t] = tile
		}
		hashes[i] = within(tile, id)
	}
	return hashes, nil
}

// tile returns a full tile, or the incomplete last tile of its level.
func (l *Log) tile(ctx context.Context, h *head, t tileID) ([]byte, error) {
	if full := h.size >> (tileHeight * (t.level + 1)); t.index >= full {
		return h.tails[t.level], nil
	}
	d, err := l.Store.Doc(ctx, tileKey(t))
	if err != nil {
		return nil, fault(err)
	}
	if len(d.Data) != tileWidth*hashSize {
		return nil, problem.New(problem.Damaged, "%s is sealed, and has %d bytes, want %d", t, len(d.Data), tileWidth*hashSize)
	}
	return d.Data, nil
}

// tree is the log's checkpoint when it had size leaves.
func (l *Log) tree(ctx context.Context, h *head, size uint64) (Checkpoint, error) {
	if size == h.size {
		return Checkpoint{h.host, size, h.root}, nil
	}
	hashes, err := l.nodes(ctx, h, compact.RangeNodes(0, size, nil))
	if err != nil {
		return Checkpoint{}, err
	}
	root, err := rootOf(size, hashes)
	return Checkpoint{h.host, size, root}, err
}
